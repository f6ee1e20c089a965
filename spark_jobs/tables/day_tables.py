"""The tables of a day, made from the packets of a work item (see day_plan.py)."""

from __future__ import annotations

from spark_jobs.capture.columns import DAY_US
from spark_jobs.engine.memory import use_system_memory_pool
from spark_jobs.estimators.connections import IDLE_TIMEOUT_US
from spark_jobs.estimators.links import HOUR_US
from spark_jobs.tables.day_plan import WorkItem, midnight_us
from spark_jobs.tables.registry import ROWS
from spark_jobs.tables.user_partition import UserPartition
from spark_jobs.users.packets import Span, read_packets
from spark_jobs.warehouse.files import TableWriter, Written, sort_rows


def make_flows(item: WorkItem) -> dict[str, Written]:
    """Write the tables of one work item to its targets, and return the files written.

    A table without rows has no file.
    """
    use_system_memory_pool()
    partition = read_partition(item)
    if partition is None:
        return {}
    written = {}
    for table, rows_of in ROWS.items():
        rows = rows_of(partition)
        if len(rows):
            with TableWriter(table, item.targets[table.name]) as writer:
                writer.write_table(sort_rows(table, rows))
            written[table.name] = writer.written
    return written


def read_partition(item: WorkItem) -> UserPartition | None:
    """Return the item's packets, read past midnight until the day's connections end.

    Returns None if there are no packets.
    """
    names = item.names
    midnight = midnight_us(names.day)
    next_midnight = midnight + DAY_US
    end_us = next_midnight + IDLE_TIMEOUT_US + HOUR_US
    leases = item.day_leases()
    log = item.day_log(leases)
    data_end_us = max(group.last_us for group in item.row_groups) + 1
    while True:
        groups = [group for group in item.row_groups if group.first_us < end_us]
        span = Span(midnight, next_midnight, IDLE_TIMEOUT_US, end_us)
        packets, found, quic = read_packets(
            groups, span, item.reads, leases, item.renamed, item.moved
        )
        if not len(packets.ts):
            return None
        day_span = midnight, next_midnight
        partition = UserPartition(packets, found, item.settings, day_span, log, quic)
        if end_us >= data_end_us or not partition.may_continue_after(end_us):
            return partition
        end_us = next_midnight + 2 * (end_us - next_midnight)
