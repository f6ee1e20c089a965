"""Packets to flows and the tables beside them: one task some buckets of a network's day.

A day is published whole, as soon as its tasks are done. A flow belongs to the day on which it
starts. A day's tasks read back as far as a connection may be silent, to know which connections are
not new, and on past midnight as far as those of the day go.
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
from spark_jobs.capture.users import has_secret, user_partition
from spark_jobs.engine.tasks import run_tasks
from spark_jobs.errors import UserError
from spark_jobs.networks import Network
from spark_jobs.warehouse import Unit, Warehouse, fingerprint

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_jobs.tables.user_partition import Settings, UserPartition
    from spark_jobs.warehouse.files import Staged, Written
    from spark_jobs.warehouse.packets import RowGroups
    from spark_jobs.warehouse.periods import NamesOfDay

NEIGHBOURS = (-1, 0, 1)
PART_PACKETS = 6_000_000
"""Packets of a bucket that one task reads at a time; a larger bucket is split by user, as is one
that would keep a core at work when the day's others have nothing left."""
TOGETHER_PACKETS = 600_000, 1_200_000
"""Packets of a day up to which buckets are one task's, each of which begins files of every table:
as many as a core's share of the day, between these."""
FORMAT = 26
"""Raised when flows of the same packets, or what is kept of their making, would come out otherwise
than before."""


@dataclass(frozen=True)
class WorkItem:
    """What one task reads: some buckets' row groups with their times (µs), for one day."""

    settings: Settings
    names: NamesOfDay
    partitions: tuple[int, ...]
    part: tuple[int, int]
    groups: tuple[tuple[RowGroups, int, int], ...]
    leases: tuple[Path, ...]
    application_log: tuple[Path, ...]
    """Files of these tables that may be about the packets."""
    targets: dict[str, Staged]
    """Where each table of ROWS is written, where it has rows."""


class Group(NamedTuple):
    """A row group of packets: the buckets that it may be of, how many of its packets are the day's,
    and what a WorkItem says of it."""

    partitions: range
    packets: int
    read: tuple[RowGroups, int, int]

    def of(self, partitions: tuple[int, ...]) -> tuple[RowGroups, int, int]:
        """What a WorkItem for some of the buckets says of it."""
        if all(partition in partitions for partition in self.partitions):
            return self.read
        groups, first_us, last_us = self.read
        return replace(groups, partitions=partitions), first_us, last_us


def flows(warehouse: Warehouse, work: list[tuple[Network, date]]) -> dict[tuple[str, date], int]:
    """Make the flows of each (network, date), and publish each when its tasks are done; returns how
    many each has."""
    from spark_jobs.warehouse.periods import NamesOfDay

    networks = {network.name: network for network, _ in work}
    read = {(network.name, day): inputs(warehouse, network, day) for network, day in work}
    made: dict[tuple[str, date], int] = {}
    with warehouse.staging() as staging:
        items = {
            (network.name, day): list(work_items(warehouse, network, day, staging.path))
            for network, day in work
        }
        written: dict[tuple[str, date], list[dict[str, Written]]] = defaultdict(list)

        def publish(day: tuple[str, date]) -> None:
            mine, network = written.pop(day, []), networks[day[0]]
            files = sorted(file for of_task in mine for file in of_task.values())
            facts = {
                "inputs": read[day],
                "settings": _settings(network),
                "user_partitions": network.user_partitions,
                "key_period": network.key_period,
                "others": NamesOfDay.of(network, day[1]).others,
            }
            warehouse.publish(Unit.of_day("day", *day), files, facts)
            made[day] = sum(files[FLOWS.name].rows for files in mine if FLOWS.name in files)

        def done(item: WorkItem, files: dict[str, Written]) -> None:
            day = item.names.network, item.names.day
            written[day].append(files)
            if len(written[day]) == len(items[day]):
                publish(day)

        for day, tasks in items.items():
            if not tasks:
                publish(day)
        run_tasks(make_flows, [item for tasks in items.values() for item in tasks], "flows", done)
    warehouse.update_views()
    return {day: made[day] for day in items}


def inputs(warehouse: Warehouse, network: Network, day: date) -> str:
    """What the day's flows depend on, as a hash: the packets, logs and leases of the day and its
    neighbours, the network's settings."""
    days = [day + timedelta(days=k) for k in NEIGHBOURS]
    read = [
        warehouse.contents(table, network.name, near)
        for table in (PACKETS, APPLICATION_LOG, LEASES)
        for near in days
    ]
    return fingerprint(FORMAT, *_settings(network), read)


def settings_of(network: Network) -> Settings:
    """What the estimators are told of a network."""
    from spark_jobs.tables.user_partition import Settings

    return Settings(*_settings(network))


def _settings(network: Network) -> tuple[str, int, float, float]:
    return network.name, network.flight_size_bytes, network.initial_rto_s, network.min_rto_s


def _around(warehouse: Warehouse, table: Table, network: str, day: date) -> list[Path]:
    """A table's files of a day and its neighbours."""
    days = [day + timedelta(days=k) for k in NEIGHBOURS]
    return [path for near in days for path in warehouse.files(table, network, near)]


def is_current(warehouse: Warehouse, network: Network, day: date) -> bool:
    """Whether the day's flows were made from the packets there are now, and are there."""
    unit = Unit.of_day("day", network.name, day)
    return warehouse.is_current(unit, inputs(warehouse, network, day))


def bring_up_to_date(
    warehouse: Warehouse, networks: Iterable[Network]
) -> dict[tuple[str, date], int]:
    """Make the flows of every stale day, a network in one process at a time; see flows."""
    with ExitStack() as stack:
        chosen = sorted(networks, key=lambda network: network.name)
        for network in chosen:
            stack.enter_context(warehouse.locked(f"flows-{network.name}"))
        return flows(warehouse, stale_days(warehouse, chosen))


def days_with_packets(warehouse: Warehouse, network: str) -> set[date]:
    """Days of the network of which there are packets."""
    return {
        date.fromisoformat(day)
        for commit in warehouse.commits("capture", network)
        for day in commit.facts["dates"]
    }


def stale_days(warehouse: Warehouse, networks: Iterable[Network]) -> list[tuple[Network, date]]:
    """Days with packets, or with flows from packets there no longer are, not up to date. Those of
    which packets were lost from the warehouse (see Warehouse.damaged) or removed (see
    Warehouse.purged) stay as they are."""
    stale = []
    for network in networks:
        days = days_with_packets(warehouse, network.name)
        made = {day for _, day in warehouse.days("day", network.name)}
        days |= made
        gone = warehouse.purged(network.name, PACKETS, APPLICATION_LOG, LEASES)
        days -= {day for day in made if day <= gone or day < warehouse.purged(network.name, FLOWS)}
        for commit in warehouse.commits("capture", network.name):
            if not warehouse.is_whole(commit):
                lost = map(date.fromisoformat, commit.facts["dates"])
                days -= {day + timedelta(days=k) for day in lost for k in NEIGHBOURS}
        stale += [(network, day) for day in sorted(days) if not is_current(warehouse, network, day)]
    return stale


def work_items(
    warehouse: Warehouse, network: Network, day: date, new_path: Callable[..., Staged]
) -> Iterator[WorkItem]:
    """The day's tasks, the largest first; new_path: see Staging.path."""
    from spark_jobs.tables import ROWS
    from spark_jobs.warehouse.periods import NamesOfDay

    groups = _groups(warehouse, network.name, day)
    rows_of_partition: dict[int, int] = defaultdict(int)
    for group in groups:
        for partition in group.partitions if group.packets else ():
            rows_of_partition[partition] += -(-group.packets // len(group.partitions))
    leases = tuple(_around(warehouse, LEASES, network.name, day))
    application_log = tuple(_around(warehouse, APPLICATION_LOG, network.name, day))
    of_core = -(-sum(rows_of_partition.values()) // len(os.sched_getaffinity(0)))
    least, together = TOGETHER_PACKETS
    together = min(max(least, of_core), together)
    most = min(PART_PACKETS, max(together, of_core))
    rows_of = {
        partitions: sum(rows_of_partition[partition] for partition in partitions)
        for partitions in _together(rows_of_partition, together)
    }
    for partitions in sorted(rows_of, key=rows_of.__getitem__, reverse=True):
        parts = -(-rows_of[partitions] // most) if len(partitions) == 1 else 1
        for number in range(parts):
            targets = {
                table.name: new_path(
                    table, network.name, day, f"bucket{partitions[0]:05d}-{number}"
                )
                for table in ROWS
            }
            yield WorkItem(
                settings_of(network),
                NamesOfDay.of(network, day),
                partitions,
                (number, parts),
                tuple(group.of(partitions) for group in _of_partitions(groups, partitions)),
                leases,
                application_log,
                targets,
            )


def read_user(warehouse: Warehouse, network: str, day: date, user: str) -> UserPartition | None:
    """The Bucket of one user alone, read as for the day's flows; None without packets. Without the
    secret, what is called otherwise is not read: where a period of the pseudonyms ends, the
    connections end at midnight."""
    from spark_jobs.tables.user_partition import Settings
    from spark_jobs.warehouse.files import read_rows
    from spark_jobs.warehouse.periods import NamesOfDay

    commit = warehouse.commit(Unit.of_day("day", network, day))
    if commit is None:
        return None
    if "settings" not in commit.facts:
        raise UserError(
            f"{warehouse.root}: its catalog was made again: giscope run, or flows, must make "
            f"{network} {day} anew first"
        )
    others = tuple((name, length) for name, length in commit.facts.get("others", ()))
    names = NamesOfDay(network, commit.facts.get("key_period"), day, others)
    known = has_secret()
    leases = tuple(
        path for path in _around(warehouse, LEASES, network, day) if known or names.are_of(path)
    )
    held = read_rows(LEASES, leases, [("subscriber", "=", user)])
    addresses = {user, *held["address"].to_pylist()}
    partitions = {user_partition(address, commit.facts["user_partitions"]) for address in addresses}
    if names.key_period:  # which bucket a user is in does not follow from the pseudonym
        mine = [("user", "in", sorted(addresses))]
        rows = read_rows(PACKETS, warehouse.files(PACKETS, network, day), mine, ["user_partition"])
        partitions = set(rows["user_partition"].to_pylist())
    of_user = tuple(
        group.read
        for group in _of_partitions(_groups(warehouse, network, day), tuple(partitions))
        if known or names.are_of(group.read[0].path)
    )
    if not of_user:
        return None
    settings = Settings(*commit.facts["settings"])
    item = WorkItem(settings, names, tuple(sorted(partitions)), (0, 1), of_user, leases, (), {})
    return read_partition(item, addresses.__contains__)


def _groups(warehouse: Warehouse, network: str, day: date) -> list[Group]:
    """The row groups of a day, and of its neighbours as far as they matter, in capture order:
    packets of the same time count in the order in which they were captured."""
    from spark_jobs.estimators.connections import IDLE_TIMEOUT_US
    from spark_jobs.warehouse.packets import RowGroups

    earliest = _midnight_us(day) - IDLE_TIMEOUT_US
    found = []
    for offset in NEIGHBOURS:
        for path in warehouse.files(PACKETS, network, day + timedelta(days=offset)):
            row_groups = list(_row_groups(path))
            begins: dict[str, int] = {}
            for capture, *_, first_us, _ in row_groups:
                begins[capture] = min(first_us, begins.get(capture, first_us))
            for capture, partitions, number, rows, first_us, last_us in row_groups:
                if last_us < earliest:
                    continue
                of_day = rows if offset == 0 else 0
                group = Group(
                    partitions, of_day, (RowGroups(path, (number,), capture), first_us, last_us)
                )
                found.append(((begins[capture], capture, number), group))
    return [group for _, group in sorted(found, key=itemgetter(0))]


def _of_partitions(groups: Iterable[Group], partitions: tuple[int, ...]) -> Iterator[Group]:
    return (
        group for group in groups if any(partition in group.partitions for partition in partitions)
    )


def _together(rows_of_partition: dict[int, int], most: int) -> Iterator[tuple[int, ...]]:
    """The buckets, in order, in as few groups of one size as have so many packets each, to half a
    bucket; one that has more is alone."""
    rows = sum(rows_of_partition.values())
    size = rows / max(-(-rows // most), 1)
    before = 0
    groups: dict[tuple[int, float], list[int]] = {}
    for partition in sorted(rows_of_partition):
        mine = rows_of_partition[partition]
        group = (0, partition) if mine > most else (1, (before + mine / 2) // size)
        groups.setdefault(group, []).append(partition)
        before += mine
    yield from map(tuple, groups.values())


def _row_groups(path: Path) -> Iterator[tuple[str, range, int, int, int, int]]:
    """(capture, buckets, number, rows, first µs, last µs) of each row group."""
    from spark_jobs.warehouse.files import microseconds, read_metadata

    try:
        metadata = read_metadata(path)
    except FileNotFoundError as error:
        raise UserError(f"{path}: is missing") from error
    names = [metadata.schema.column(i).name for i in range(metadata.num_columns)]
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
    """The tables of one work item that have rows, written to its targets."""
    from spark_jobs.engine.memory import keep_arrows
    from spark_jobs.tables import ROWS

    keep_arrows()
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
    item: WorkItem, wanted_user: Callable[[str], bool] = lambda address: True
) -> UserPartition | None:
    """The item's packets, as far past midnight as the day's connections go; None without any.
    wanted_user: of which addresses."""
    from spark_jobs.capture.columns import DAY_US
    from spark_jobs.estimators.connections import IDLE_TIMEOUT_US
    from spark_jobs.estimators.links import HOUR_US
    from spark_jobs.tables.user_partition import UserPartition
    from spark_jobs.warehouse.packets import Span, read_packets

    def wanted(address: str) -> bool:
        return _in_part(item.part, address) and wanted_user(address)

    names = item.names
    midnight = _midnight_us(names.day)
    next_midnight = midnight + DAY_US
    until = next_midnight + IDLE_TIMEOUT_US + HOUR_US
    of_partitions = [("user_partition", "in", item.partitions)]
    leases = names.rows(LEASES, item.leases, of_partitions)
    log = names.rows(APPLICATION_LOG, item.application_log, of_partitions)
    seen_until = max(last for _, _, last in item.groups) + 1
    while True:
        groups = [g for g, first, _ in item.groups if first < until]
        span = Span(midnight, next_midnight, IDLE_TIMEOUT_US, until)
        packets, found = read_packets(groups, span, wanted, leases, names.called)
        if not len(packets.ts):
            return None
        partition = UserPartition(packets, found, item.settings, (midnight, next_midnight), log)
        if until >= seen_until or not partition.may_continue_after(until):
            return partition
        until = next_midnight + 2 * (until - next_midnight)


def _in_part(part: tuple[int, int], user: str) -> bool:
    """Whether a user is in a part (number, parts) of a bucket too large for a worker."""
    number, parts = part
    return parts == 1 or user_partition(f"part {user}", parts) == number


def _write(table: Table, rows: pa.Table, target: Staged) -> Written:
    from spark_jobs.warehouse.files import TableWriter, in_order

    with TableWriter(table, target) as writer:
        writer.write_table(in_order(table, rows))
    return writer.written
