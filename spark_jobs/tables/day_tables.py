"""The tables of a day, made from the packets of a work item (see day_plan.py)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.capture.columns import DAY_US
from spark_jobs.engine.memory import use_system_memory_pool
from spark_jobs.estimators.connections import IDLE_TIMEOUT_US
from spark_jobs.estimators.links import HOUR_US
from spark_jobs.tables.day_plan import WorkItem, midnight_us
from spark_jobs.tables.registry import ROWS
from spark_jobs.tables.user_partition import UserPartition
from spark_jobs.users.packets import Span, read_packets
from spark_jobs.warehouse.files import TableWriter, Written, sort_rows


@dataclass(frozen=True)
class Made:
    """The results of a work item.

    - files: the files written, of rows whose users' connections end as far as is known
    - going_on: those of users whose connections go on, or went on after the next day
    - users: users of whom there are later packets: a further task makes their rows
    - packets: number of TCP packets of the rows in `files`, by day (ISO 8601)
    - packets_going_on: that of the rows in `going_on`
    """

    files: tuple[Written, ...] = ()
    going_on: tuple[Written, ...] = ()
    users: frozenset[str] = frozenset()
    packets: Mapping[str, int] = field(default_factory=dict)
    packets_going_on: Mapping[str, int] = field(default_factory=dict)


def make_flows(item: WorkItem) -> Made:
    """Write the tables of one work item to its targets, and return what was written.

    A table without rows has no file.
    """
    use_system_memory_pool()
    partition = read_partition(item)
    if partition is None:
        return Made()
    go_on = partition.users_after(midnight_us(item.until) + DAY_US) if item.until else frozenset()
    left = go_on if item.has_more else frozenset()
    users = frozenset(partition.names.users)
    apart = (go_on if item.users is None else users) - left
    together = users - apart - left
    files: tuple[list[Written], list[Written]] = [], []
    for table, rows_of in ROWS.items():
        rows = rows_of(partition)
        parts = (rows, rows[:0])
        if together != users:
            parts = tuple(rows.filter(_is_of(partition, rows, of)) for of in (together, apart))
        for part, target, written in zip(
            parts, (item.targets, item.targets_going_on), files, strict=True
        ):
            if len(part):
                with TableWriter(table, target[table.name]) as writer:
                    writer.write_table(sort_rows(table, part))
                written.append(writer.written)
    packets = (partition.packets_by_day(of, item.names.day) for of in (together, apart))
    return Made(tuple(files[0]), tuple(files[1]), left, *packets)


def _is_of(partition: UserPartition, rows: pa.Table, users: Collection[str]) -> pa.Array:
    """Return the mask of a table's rows that are of some users, or of their connections."""
    if "user" in rows.column_names:
        return pc.is_in(rows["user"].cast(pa.string()), pa.array(users, pa.string()))
    return pc.is_in(rows["flow_id"], pa.array(partition.flow_ids[partition.are_of(users)]))


def read_partition(item: WorkItem) -> UserPartition | None:
    """Return the item's packets, read past midnight until the day's connections end.

    For chosen users, it reads all packets at once. Returns None if there are no packets.
    """
    names = item.names
    midnight = midnight_us(names.day)
    next_midnight = midnight + DAY_US
    leases = item.day_leases()
    log = item.day_log(leases)
    data_end_us = max(group.last_us for group in item.row_groups) + 1
    end_us = next_midnight + IDLE_TIMEOUT_US + HOUR_US
    if item.users is not None:
        end_us = max(end_us, data_end_us)
    while True:
        groups = [group for group in item.row_groups if group.first_us < end_us]
        span = Span(midnight, next_midnight, IDLE_TIMEOUT_US, end_us)
        packets, found, quic = read_packets(
            groups, span, item.reads, leases, item.renamed, item.moved
        )
        if not len(packets.ts):
            return None
        day_span = midnight, next_midnight
        partition = UserPartition(
            packets, found, item.settings, day_span, log, quic, item.cut, leases
        )
        if end_us >= data_end_us or not partition.users_after(end_us):
            return partition
        end_us = next_midnight + 2 * (end_us - next_midnight)
