"""The plan of a network's day: which packets and logs each task reads.

One task handles some user partitions of the day. A connection belongs to the day on which it
starts. To know which connections are new, the tasks read packets before midnight, as far back as a
connection may be idle. They read on after the next midnight until the day's connections end.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import reduce
from itertools import groupby
from operator import attrgetter, or_
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from schemas import APPLICATION_LOG, DAILY_TABLES, LEASES, PACKETS, Table
from spark_jobs.capture.users import has_secret, user_partition, without_vlan
from spark_jobs.errors import UserError
from spark_jobs.networks import Network
from spark_jobs.tables.settings import Settings
from spark_jobs.users.periods import NamesOfDay
from spark_jobs.users.subscribers import with_homes
from spark_jobs.warehouse.facts import DayFacts
from spark_jobs.warehouse.files import Staged, microseconds, read_rows
from spark_jobs.warehouse.row_groups import RowGroup, in_capture_order, row_groups
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.targets import NO_DATE, day_text
from spark_jobs.warehouse.units import Unit

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


@dataclass(frozen=True)
class WorkItem:
    """The input of one task: the row groups of some user partitions, for one day.

    - settings: the network's settings for the estimators
    - names: the user names of the day (see users/periods.py)
    - row_groups: the row groups of the partitions, in capture order
    - leases, application_log: files of these tables that may be about the packets
    - partitions: the user partitions
    - moved: the files of the packets that were moved to other partitions (see moves.py); None: no
      packets were
    - part: number of this part and how many parts the partition has, if it is split by link
    - user: the user whose links are read; None: all
    - targets: by table name, the file to write if the table has rows
    """

    settings: Settings
    names: NamesOfDay
    row_groups: tuple[RowGroup, ...]
    leases: tuple[Path, ...]
    application_log: tuple[Path, ...]
    partitions: tuple[int, ...]
    moved: tuple[Path, ...] | None = None
    part: tuple[int, int] = (0, 1)
    user: str | None = None
    targets: dict[str, Staged] = field(default_factory=dict)

    def reads(self, user: str, link: str) -> bool:
        """Return whether the task reads the packets of a user's link."""
        number, parts = self.part
        is_in_part = parts == 1 or user_partition(f"part {link}", parts) == number
        return is_in_part and self.user in (None, user)

    def renamed(self, rows: pa.Table, path: Path) -> pa.Table:
        """Return a file's packets with the user names of the day; moved packets have them."""
        return rows if path in (self.moved or ()) else self.names.renamed(rows, path)

    def day_leases(self) -> pa.Table:
        """Return the leases that may be about the packets, with their homes (see with_homes)."""
        if self.moved is None:
            of_partitions = [("user_partition", "in", self.partitions)]
            return with_homes(self.names.rows(LEASES, self.leases, of_partitions))
        leases = with_homes(self.names.rows(LEASES, self.leases))
        return leases.filter(_is_in(self.partitions, "user_partition", "home"))

    def day_log(self, leases: pa.Table) -> pa.Table:
        """Return the rows of application_log that may be about the packets, given the leases."""
        wanted: list[list[Any]] = [[("user_partition", "in", self.partitions)]]
        if self.moved is not None:
            moved = leases.filter(pc.field("home") >= 0)
            by = "user" if all(map(self.names.apply_to, self.application_log)) else "user_partition"
            column = moved["address" if by == "user" else by]
            wanted.append([(by, "in", column.unique().to_pylist())])
        log = self.names.rows(APPLICATION_LOG, self.application_log, wanted)
        of_links = pc.field("user").isin(leases["address"].combine_chunks())
        return log.filter(_is_in(self.partitions, "user_partition") | of_links)


@dataclass(frozen=True)
class Move:
    """The input of one task that moves packets.

    - names: the user names of the day
    - row_groups: the packets, whole captures
    - leases: the files of leases that may be about them
    - target: the file to write
    """

    names: NamesOfDay
    row_groups: tuple[RowGroup, ...]
    leases: tuple[Path, ...]
    target: Staged


def _is_in(partitions: Sequence[int], *columns: str) -> pc.Expression:
    """Return the condition that a column has one of these user partitions."""
    return reduce(or_, (pc.field(name).isin(partitions) for name in columns))


def has_moves(warehouse: Warehouse, network: Network, day: date) -> bool:
    """Return whether some of the day's links have addresses in several user partitions."""
    leases = _files_around(warehouse, LEASES, network.name, day)
    rows = NamesOfDay.of(network, day).rows(LEASES, leases)
    return bool((with_homes(rows)["home"].to_numpy() >= 0).any())


def move_tasks(
    warehouse: Warehouse, network: Network, day: date, new_path: Callable[..., Staged]
) -> list[Move]:
    """Return the tasks that move the day's packets to the user partitions of their links."""
    names = NamesOfDay.of(network, day)
    leases = tuple(_files_around(warehouse, LEASES, network.name, day))
    tasks: list[list[RowGroup]] = []
    for _, groups in groupby(
        _row_groups_around(warehouse, network.name, day), attrgetter("path", "capture")
    ):
        if not tasks or sum(group.rows for group in tasks[-1]) >= JOINT_TASK_PACKETS[0]:
            tasks.append([])
        tasks[-1] += groups
    return [
        Move(names, tuple(groups), leases, new_path(PACKETS, network.name, day, f"moved-{number}"))
        for number, groups in enumerate(tasks)
    ]


def work_items(
    warehouse: Warehouse,
    network: Network,
    day: date,
    new_path: Callable[..., Staged],
    moved: Sequence[Path] | None = None,
) -> Iterator[WorkItem]:
    """Yield the day's work items, the largest first. new_path: see Staging.path."""
    stored = _row_groups_around(warehouse, network.name, day)
    groups = in_capture_order(
        [*stored, *(group for path in moved or () for group in row_groups(path))]
    )
    packets = _packets_by_partition(groups, day)
    max_joint, max_packets = _task_limits(sum(packets.values()))
    tasks = {
        partitions: sum(packets[partition] for partition in partitions)
        for partitions in _combine_partitions(packets, max_joint)
    }
    whole_day = WorkItem(
        Settings.of(network),
        NamesOfDay.of(network, day),
        (),
        tuple(_files_around(warehouse, LEASES, network.name, day)),
        tuple(_files_around(warehouse, APPLICATION_LOG, network.name, day)),
        (),
        None if moved is None else tuple(moved),
    )
    for partitions in sorted(tasks, key=tasks.__getitem__, reverse=True):
        item = replace(
            whole_day, partitions=partitions, row_groups=_restricted_to(partitions, groups)
        )
        parts = -(-tasks[partitions] // max_packets) if len(partitions) == 1 else 1
        for number in range(parts):
            stem = f"bucket{partitions[0]:05d}-{number}"
            targets = {t.name: new_path(t, network.name, day, stem) for t in DAILY_TABLES}
            yield replace(item, part=(number, parts), targets=targets)


def item_of_user(warehouse: Warehouse, network: str, day: date, user: str) -> WorkItem | None:
    """Return the work item that reads one user's packets as for the day's flows; None without any.

    Without the secret, only rows with this period's names are read: when a period of the pseudonyms
    ends, the user's connections end at midnight.
    """
    published = warehouse.published(Unit.of_day("day", network, day))
    if published is None:
        return None
    facts = DayFacts.of(published)
    if facts.settings is None or facts.user_partitions is None:
        raise UserError(
            f"{warehouse.root}: its catalog was rebuilt: first run giscope run, or giscope flows, "
            f"to make {network} {day} again"
        )
    names, has_key = NamesOfDay(network, facts.key_period, day, facts.others), has_secret()
    leases = tuple(
        path
        for path in _files_around(warehouse, LEASES, network, day)
        if has_key or names.apply_to(path)
    )
    leases_of_user = read_rows(LEASES, leases, [("subscriber", "=", without_vlan(user))])
    addresses = {without_vlan(user), *leases_of_user["address"].to_pylist()}
    partitions = {user_partition(address, facts.user_partitions) for address in addresses}
    if names.key_period:  # then the pseudonym does not give the user partition
        paths = warehouse.files(PACKETS, network, day)
        filters = [("user", "in", sorted(addresses))]
        rows = read_rows(PACKETS, paths, filters, ["user_partition"])
        partitions = set(rows["user_partition"].to_pylist())
    groups = tuple(
        group
        for group in _restricted_to(partitions, _row_groups_around(warehouse, network, day))
        if has_key or names.apply_to(group.path)
    )
    if not groups:
        return None
    chosen = tuple(sorted(partitions))
    settings = Settings(*facts.settings)
    return WorkItem(settings, names, groups, leases, (), chosen, user=user)


def days_around(day: date) -> list[date]:
    """Return the days that a day's flows are made from: the day and its adjacent days."""
    return [day + timedelta(days=k) for k in (-1, 0, 1)]


def midnight_us(day: date) -> int:
    """Return when a day begins (µs since 1970)."""
    return microseconds(datetime.combine(day, time(), UTC))


def _files_around(warehouse: Warehouse, table: Table, network: str, day: date) -> list[Path]:
    """Return a table's files of a day and its adjacent days."""
    return [path for near in days_around(day) for path in warehouse.files(table, network, near)]


def _row_groups_around(warehouse: Warehouse, network: str, day: date) -> list[RowGroup]:
    """Return the row groups of a day, and those of its adjacent days that matter, in capture order.

    Raises UserError if a file is missing.
    """
    from spark_jobs.estimators.connections import IDLE_TIMEOUT_US

    earliest = midnight_us(day) - IDLE_TIMEOUT_US
    found = []
    for path in _files_around(warehouse, PACKETS, network, day):
        try:
            found += row_groups(path)
        except FileNotFoundError as error:
            raise UserError(f"{path}: is missing") from error
    return [group for group in in_capture_order(found) if group.last_us >= earliest]


def _restricted_to(partitions: Collection[int], groups: Iterable[RowGroup]) -> tuple[RowGroup, ...]:
    """Return the row groups that have some of the partitions, restricted to these."""
    restricted = (group.restricted_to(partitions) for group in groups)
    return tuple(group for group in restricted if group)


def _packets_by_partition(groups: Iterable[RowGroup], day: date) -> Counter[int]:
    """Return the number of the day's packets in each user partition.

    The partitions of a row group count as equally large. Moved packets count in both partitions.
    """
    packets: Counter[int] = Counter()
    for group in groups:
        if day_text(str(group.path)) in (day.isoformat(), NO_DATE):
            for partition in group.partitions:
                packets[partition] += -(-group.rows // len(group.partitions))
    return packets


def _task_limits(packets: int) -> tuple[int, int]:
    """Return the maximum numbers of packets of a task with several partitions, and with one.

    packets: the number of the day's packets
    """
    per_core = -(-packets // len(os.sched_getaffinity(0)))
    min_joint, max_joint = JOINT_TASK_PACKETS
    max_joint = min(max(min_joint, per_core), max_joint)
    return max_joint, min(MAX_TASK_PACKETS, max(max_joint, per_core))


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
