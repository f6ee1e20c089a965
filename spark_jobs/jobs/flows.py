"""The flows job: it makes a day's connections, and the tables beside them, from packets.

One task handles some user partitions of a network's day. The job publishes a day as a whole, as
soon as its tasks are done. A connection belongs to the day on which it starts. To know which
connections are new, the tasks read packets before midnight, as far back as a connection may be
idle. They read on after the next midnight until the day's connections end.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import date, timedelta
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from schemas import APPLICATION_LOG, FLOWS, LEASES, PACKETS, Table
from schemas.former_names import renamed_columns
from spark_jobs.capture.users import has_secret, user_partition
from spark_jobs.engine.tasks import run_tasks
from spark_jobs.errors import UserError
from spark_jobs.networks import Network
from spark_jobs.warehouse.store import Warehouse, fingerprint
from spark_jobs.warehouse.units import Unit

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_jobs.tables.user_partition import Settings, UserPartition
    from spark_jobs.users.packets import RowGroups
    from spark_jobs.users.periods import NamesOfDay
    from spark_jobs.warehouse.files import Staged, Written

DAY_OFFSETS = (-1, 0, 1)
"""Offsets, in days, of the days that a day's flows are made from."""
MAX_TASK_PACKETS = 6_000_000
"""Maximum number of packets that one task reads at a time.

A user partition that has more is split by user. So is one that would occupy a core while the day's
other tasks are done.
"""
JOINT_TASK_PACKETS = 600_000, 1_200_000
"""Bounds of the number of packets up to which one task reads several user partitions of a day.

The number is a core's share of the day's packets, within these bounds. Fewer tasks give fewer
files: each task writes one file of every table.
"""
FORMAT = 26
"""Version of this job's results.

Raise it if the same packets would give other rows, or other facts of the unit.
"""


@dataclass(frozen=True)
class WorkItem:
    """The input of one task: the row groups of some user partitions, for one day.

    settings: the network's settings for the estimators
    names: the user names of the day (see warehouse/periods.py)
    partitions: the user partitions
    part: number of this part and how many parts the partition has, if it is split by user
    row_groups: row groups with the times of their first and last packet (µs)
    leases, application_log: files of these tables that may be about the packets
    targets: by table name, the file to write if the table has rows
    """

    settings: Settings
    names: NamesOfDay
    partitions: tuple[int, ...]
    part: tuple[int, int]
    row_groups: tuple[tuple[RowGroups, int, int], ...]
    leases: tuple[Path, ...]
    application_log: tuple[Path, ...]
    targets: dict[str, Staged]


class PacketRowGroup(NamedTuple):
    """A row group of packets.

    partitions: the range of user partitions in it
    day_packets: how many of its packets are of the day
    source: the row group with the times of its first and last packet (µs), as in a WorkItem
    """

    partitions: range
    day_packets: int
    source: tuple[RowGroups, int, int]

    def restricted_to(self, partitions: tuple[int, ...]) -> tuple[RowGroups, int, int]:
        """Return `source`, restricted to some user partitions."""
        if all(partition in partitions for partition in self.partitions):
            return self.source
        groups, first_us, last_us = self.source
        return replace(groups, partitions=partitions), first_us, last_us


def publish_flows(
    warehouse: Warehouse, work: list[tuple[Network, date]]
) -> dict[tuple[str, date], int]:
    """Make the flows of each (network, date), and publish each when its tasks are done.

    Returns the number of flows by (network name, date).
    """
    from spark_jobs.users.periods import NamesOfDay

    networks = {network.name: network for network, _ in work}
    hashes = {(network.name, day): inputs_hash(warehouse, network, day) for network, day in work}
    flow_counts: dict[tuple[str, date], int] = {}
    with warehouse.staging() as staging:
        items = {
            (network.name, day): list(work_items(warehouse, network, day, staging.path))
            for network, day in work
        }
        written: dict[tuple[str, date], list[dict[str, Written]]] = defaultdict(list)

        def publish(day: tuple[str, date]) -> None:
            task_files, network = written.pop(day, []), networks[day[0]]
            files = sorted(file for of_task in task_files for file in of_task.values())
            facts = {
                "inputs": hashes[day],
                "settings": _settings_values(network),
                "user_partitions": network.user_partitions,
                "key_period": network.key_period,
                "others": NamesOfDay.of(network, day[1]).other_networks,
            }
            warehouse.publish(Unit.of_day("day", *day), files, facts)
            flow_counts[day] = sum(
                files[FLOWS.name].rows for files in task_files if FLOWS.name in files
            )

        def on_task_done(item: WorkItem, files: dict[str, Written]) -> None:
            day = item.names.network, item.names.day
            written[day].append(files)
            if len(written[day]) == len(items[day]):
                publish(day)

        for day, tasks in items.items():
            if not tasks:
                publish(day)
        run_tasks(
            make_flows, [item for tasks in items.values() for item in tasks], "flows", on_task_done
        )
    warehouse.update_views()
    return {day: flow_counts[day] for day in items}


def inputs_hash(warehouse: Warehouse, network: Network, day: date) -> str:
    """Return a hash of everything that the day's flows depend on.

    These are the packets, logs and leases of the day and its adjacent days, and the network's
    settings.
    """
    days = [day + timedelta(days=k) for k in DAY_OFFSETS]
    contents = [
        warehouse.content_hashes(table, network.name, nearby_day)
        for table in (PACKETS, APPLICATION_LOG, LEASES)
        for nearby_day in days
    ]
    return fingerprint(FORMAT, *_settings_values(network), contents)


def estimator_settings(network: Network) -> Settings:
    """Return the network's settings that the estimators need."""
    from spark_jobs.tables.user_partition import Settings

    return Settings(*_settings_values(network))


def _settings_values(network: Network) -> tuple[str, int, float, float]:
    return network.name, network.flight_size_bytes, network.initial_rto_s, network.min_rto_s


def _files_around(warehouse: Warehouse, table: Table, network: str, day: date) -> list[Path]:
    """Return a table's files of a day and its adjacent days."""
    days = [day + timedelta(days=k) for k in DAY_OFFSETS]
    return [path for nearby_day in days for path in warehouse.files(table, network, nearby_day)]


def is_current(warehouse: Warehouse, network: Network, day: date) -> bool:
    """Return whether the day's flows exist and were made from the packets that exist now."""
    unit = Unit.of_day("day", network.name, day)
    return warehouse.is_current(unit, inputs_hash(warehouse, network, day))


def bring_up_to_date(
    warehouse: Warehouse, networks: Iterable[Network]
) -> dict[tuple[str, date], int]:
    """Make the flows of every stale day, and return their numbers (see publish_flows).

    Only one process at a time does this for a network.
    """
    with ExitStack() as stack:
        chosen = sorted(networks, key=lambda network: network.name)
        for network in chosen:
            stack.enter_context(warehouse.locked(f"flows-{network.name}"))
        return publish_flows(warehouse, stale_days(warehouse, chosen))


def days_with_packets(warehouse: Warehouse, network: str) -> set[date]:
    """Return the days of which the network has packets."""
    return {
        date.fromisoformat(day)
        for commit in warehouse.published_units("capture", network)
        for day in commit.facts["dates"]
    }


def stale_days(warehouse: Warehouse, networks: Iterable[Network]) -> list[tuple[Network, date]]:
    """Return the (network, date) pairs whose flows are not up to date.

    These are days with packets, and days with flows whose packets were replaced. A day stays as it
    is if its packets were purged (see Warehouse.purged_before) or if files of them are missing (see
    Warehouse.damaged).
    """
    stale = []
    for network in networks:
        days = days_with_packets(warehouse, network.name)
        days_with_flows = {day for _, day in warehouse.days("day", network.name)}
        days |= days_with_flows
        purged_before = warehouse.purged_before(network.name, PACKETS, APPLICATION_LOG, LEASES)
        days -= {
            day
            for day in days_with_flows
            if day <= purged_before or day < warehouse.purged_before(network.name, FLOWS)
        }
        for commit in warehouse.published_units("capture", network.name):
            if not warehouse.is_intact(commit):
                damaged_days = map(date.fromisoformat, commit.facts["dates"])
                days -= {day + timedelta(days=k) for day in damaged_days for k in DAY_OFFSETS}
        stale += [(network, day) for day in sorted(days) if not is_current(warehouse, network, day)]
    return stale


def work_items(
    warehouse: Warehouse, network: Network, day: date, new_path: Callable[..., Staged]
) -> Iterator[WorkItem]:
    """Yield the day's work items, the largest first. new_path: see Staging.path."""
    from spark_jobs.tables.registry import ROWS
    from spark_jobs.users.periods import NamesOfDay

    row_groups = _row_groups_of_day(warehouse, network.name, day)
    packets_of_partition: dict[int, int] = defaultdict(int)
    for row_group in row_groups:
        for partition in row_group.partitions if row_group.day_packets else ():
            packets_of_partition[partition] += -(
                -row_group.day_packets // len(row_group.partitions)
            )
    leases = tuple(_files_around(warehouse, LEASES, network.name, day))
    application_log = tuple(_files_around(warehouse, APPLICATION_LOG, network.name, day))
    packets_per_core = -(-sum(packets_of_partition.values()) // len(os.sched_getaffinity(0)))
    min_joint, max_joint = JOINT_TASK_PACKETS
    max_joint = min(max(min_joint, packets_per_core), max_joint)
    max_packets = min(MAX_TASK_PACKETS, max(max_joint, packets_per_core))
    packets_of = {
        partitions: sum(packets_of_partition[partition] for partition in partitions)
        for partitions in _combine_partitions(packets_of_partition, max_joint)
    }
    for partitions in sorted(packets_of, key=packets_of.__getitem__, reverse=True):
        parts = -(-packets_of[partitions] // max_packets) if len(partitions) == 1 else 1
        for number in range(parts):
            targets = {
                table.name: new_path(
                    table, network.name, day, f"bucket{partitions[0]:05d}-{number}"
                )
                for table in ROWS
            }
            yield WorkItem(
                estimator_settings(network),
                NamesOfDay.of(network, day),
                partitions,
                (number, parts),
                tuple(
                    row_group.restricted_to(partitions)
                    for row_group in _overlapping(row_groups, partitions)
                ),
                leases,
                application_log,
                targets,
            )


def read_user(warehouse: Warehouse, network: str, day: date, user: str) -> UserPartition | None:
    """Return the UserPartition of one user, read as for the day's flows; None without packets.

    Without the secret, only rows with this period's names are read: when a period of the pseudonyms
    ends, the user's connections end at midnight.
    """
    from spark_jobs.tables.user_partition import Settings
    from spark_jobs.users.periods import NamesOfDay
    from spark_jobs.warehouse.files import read_rows

    commit = warehouse.published(Unit.of_day("day", network, day))
    if commit is None:
        return None
    if "settings" not in commit.facts:
        raise UserError(
            f"{warehouse.root}: its catalog was rebuilt: first run giscope run, or giscope flows, "
            f"to make {network} {day} again"
        )
    others = tuple((name, length) for name, length in commit.facts.get("others", ()))
    names = NamesOfDay(network, commit.facts.get("key_period"), day, others)
    has_key = has_secret()
    leases = tuple(
        path
        for path in _files_around(warehouse, LEASES, network, day)
        if has_key or names.apply_to(path)
    )
    leases_of_user = read_rows(LEASES, leases, [("subscriber", "=", user)])
    addresses = {user, *leases_of_user["address"].to_pylist()}
    user_partitions = commit.facts.get("user_partitions") or commit.facts["buckets"]
    partitions = {user_partition(address, user_partitions) for address in addresses}
    if names.key_period:  # then the pseudonym does not give the user partition
        filters = [("user", "in", sorted(addresses))]
        rows = read_rows(
            PACKETS, warehouse.files(PACKETS, network, day), filters, ["user_partition"]
        )
        partitions = set(rows["user_partition"].to_pylist())
    row_groups = tuple(
        group.source
        for group in _overlapping(_row_groups_of_day(warehouse, network, day), tuple(partitions))
        if has_key or names.apply_to(group.source[0].path)
    )
    if not row_groups:
        return None
    settings = Settings(*commit.facts["settings"])
    item = WorkItem(settings, names, tuple(sorted(partitions)), (0, 1), row_groups, leases, (), {})
    return read_partition(item, addresses.__contains__)


def _row_groups_of_day(warehouse: Warehouse, network: str, day: date) -> list[PacketRowGroup]:
    """Return the row groups of a day, and those of its adjacent days that matter, in capture order.

    The order matters: of packets with equal times, the first captured comes first.
    """
    from spark_jobs.estimators.connections import IDLE_TIMEOUT_US
    from spark_jobs.users.packets import RowGroups

    earliest = _midnight_us(day) - IDLE_TIMEOUT_US
    ordered = []
    for offset in DAY_OFFSETS:
        for path in warehouse.files(PACKETS, network, day + timedelta(days=offset)):
            row_groups = list(_row_groups_of_file(path))
            starts: dict[str, int] = {}
            for capture, *_, first_us, _ in row_groups:
                starts[capture] = min(first_us, starts.get(capture, first_us))
            for capture, partitions, number, rows, first_us, last_us in row_groups:
                if last_us < earliest:
                    continue
                day_packets = rows if offset == 0 else 0
                group = PacketRowGroup(
                    partitions,
                    day_packets,
                    (RowGroups(path, (number,), capture), first_us, last_us),
                )
                ordered.append(((starts[capture], capture, number), group))
    return [group for _, group in sorted(ordered, key=itemgetter(0))]


def _overlapping(
    row_groups: Iterable[PacketRowGroup], partitions: tuple[int, ...]
) -> Iterator[PacketRowGroup]:
    return (
        row_group
        for row_group in row_groups
        if any(partition in row_group.partitions for partition in partitions)
    )


def _combine_partitions(
    rows_of_partition: dict[int, int], max_rows: int
) -> Iterator[tuple[int, ...]]:
    """Yield tuples of user partitions, in order; one task reads each tuple.

    There are as few tuples as possible, of at most `max_rows` packets, and of equal size to half a
    partition. A partition with more than `max_rows` packets is alone.
    """
    rows = sum(rows_of_partition.values())
    size = rows / max(-(-rows // max_rows), 1)
    rows_before = 0
    groups: dict[tuple[int, float], list[int]] = {}
    for partition in sorted(rows_of_partition):
        partition_rows = rows_of_partition[partition]
        group = (
            (0, partition)
            if partition_rows > max_rows
            else (1, (rows_before + partition_rows / 2) // size)
        )
        groups.setdefault(group, []).append(partition)
        rows_before += partition_rows
    yield from map(tuple, groups.values())


def _row_groups_of_file(path: Path) -> Iterator[tuple[str, range, int, int, int, int]]:
    """Yield the row groups of a file.

    Each is (capture, user partitions, number, rows, first µs, last µs).
    """
    from spark_jobs.warehouse.files import microseconds, read_metadata

    try:
        metadata = read_metadata(path)
    except FileNotFoundError as error:
        raise UserError(f"{path}: is missing") from error
    stored = [metadata.schema.column(i).name for i in range(metadata.num_columns)]
    renamed = renamed_columns(PACKETS.name, stored)
    names = [renamed.get(name, name) for name in stored]
    partition, ts, capture = (
        names.index("user_partition"),
        names.index("ts"),
        names.index("capture"),
    )
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        times, partitions = group.column(ts).statistics, group.column(partition).statistics
        yield (
            group.column(capture).statistics.min,
            range(partitions.min, partitions.max + 1),
            number,
            group.num_rows,
            microseconds(times.min),
            microseconds(times.max),
        )


def _midnight_us(day: date) -> int:
    from spark_jobs.capture.columns import DAY_US

    return (day - date(1970, 1, 1)).days * DAY_US


def make_flows(item: WorkItem) -> dict[str, Written]:
    """Write the tables of one work item to its targets, and return the files written.

    A table without rows has no file.
    """
    from spark_jobs.engine.memory import use_system_memory_pool
    from spark_jobs.tables.registry import ROWS

    use_system_memory_pool()
    partition = read_partition(item)
    if partition is None:
        return {}
    written = {}
    for table, rows_of in ROWS.items():
        rows = rows_of(partition)
        if len(rows):
            written[table.name] = _write(table, rows, item.targets[table.name])
    return written


def read_partition(
    item: WorkItem, is_wanted_user: Callable[[str], bool] = lambda address: True
) -> UserPartition | None:
    """Return the item's packets, read past midnight until the day's connections end.

    Returns None if there are no packets. is_wanted_user: returns whether to read a given address.
    """
    from spark_jobs.capture.columns import DAY_US
    from spark_jobs.estimators.connections import IDLE_TIMEOUT_US
    from spark_jobs.estimators.links import HOUR_US
    from spark_jobs.tables.user_partition import UserPartition
    from spark_jobs.users.packets import Span, read_packets

    def is_wanted(address: str) -> bool:
        return _in_part(item.part, address) and is_wanted_user(address)

    names = item.names
    midnight = _midnight_us(names.day)
    next_midnight = midnight + DAY_US
    end_us = next_midnight + IDLE_TIMEOUT_US + HOUR_US
    of_partitions = [("user_partition", "in", item.partitions)]
    leases = names.rows(LEASES, item.leases, of_partitions)
    log = names.rows(APPLICATION_LOG, item.application_log, of_partitions)
    data_end_us = max(last for _, _, last in item.row_groups) + 1
    while True:
        row_groups = [row_groups for row_groups, first, _ in item.row_groups if first < end_us]
        span = Span(midnight, next_midnight, IDLE_TIMEOUT_US, end_us)
        packets, found = read_packets(row_groups, span, is_wanted, leases, names.renamed)
        if not len(packets.ts):
            return None
        partition = UserPartition(packets, found, item.settings, (midnight, next_midnight), log)
        if end_us >= data_end_us or not partition.may_continue_after(end_us):
            return partition
        end_us = next_midnight + 2 * (end_us - next_midnight)


def _in_part(part: tuple[int, int], user: str) -> bool:
    """Return whether a user is in a part (number, parts) of a user partition that is split."""
    number, parts = part
    return parts == 1 or user_partition(f"part {user}", parts) == number


def _write(table: Table, rows: pa.Table, target: Staged) -> Written:
    from spark_jobs.warehouse.files import TableWriter, sort_rows

    with TableWriter(table, target) as writer:
        writer.write_table(sort_rows(table, rows))
    return writer.written
