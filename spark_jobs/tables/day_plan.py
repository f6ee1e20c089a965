"""The plan of a network's day: which packets and logs each task reads.

One task handles some user partitions of the day. A connection belongs to the day on which it
starts. To know which connections are new, the tasks read packets before midnight, as far back as a
connection may be idle. They read on after the next midnight until the day's connections end, but at
most to the end of the next day.

Some connections go on for longer. Then the packets of their users on all these days are copied to
temporary files, and a further task reads these (see moves.py).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import reduce
from itertools import groupby
from operator import attrgetter, or_
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from schemas import APPLICATION_LOG, DAILY_TABLES, FLOWS, LEASES, PACKETS, Table
from spark_jobs.base.errors import UserError
from spark_jobs.capture.users import has_secret, user_partition, without_vlan
from spark_jobs.settings.networks import Network
from spark_jobs.tables.settings import Settings
from spark_jobs.users.periods import NamesOfDay
from spark_jobs.users.subscribers import with_homes
from spark_jobs.warehouse.facts import DayFacts
from spark_jobs.warehouse.files import Staged, microseconds, read_rows, to_datetime
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

ONE_DAY = timedelta(days=1)
GOING_ON = "going-on"
"""Beginning of the names of files with the rows of users whose connections go on."""


class Connection(NamedTuple):
    """The columns of flows that distinguish the connections of a moment."""

    link: str
    user_port: int
    server: str
    server_port: int


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
    - users: the users whose links are read; None: all
    - until: the last day that is read
    - has_more: there are packets after that day, so rows of users whose connections go on are left
      to a further task
    - cut: connections that begin again at midnight (see _cut_at_midnight)
    - targets: by table name, the file to write if the table has rows
    - targets_going_on: the file for the rows of users whose connections go on after `until`
    """

    settings: Settings
    names: NamesOfDay
    row_groups: tuple[RowGroup, ...]
    leases: tuple[Path, ...]
    application_log: tuple[Path, ...]
    partitions: tuple[int, ...]
    moved: tuple[Path, ...] | None = None
    part: tuple[int, int] = (0, 1)
    users: frozenset[str] | None = None
    until: date | None = None
    has_more: bool = False
    cut: frozenset[Connection] = frozenset()
    targets: dict[str, Staged] = field(default_factory=dict)
    targets_going_on: dict[str, Staged] = field(default_factory=dict)

    def reads(self, user: str, link: str) -> bool:
        """Return whether the task reads the packets of a user's link."""
        number, parts = self.part
        is_in_part = parts == 1 or user_partition(f"part {link}", parts) == number
        return is_in_part and (self.users is None or user in self.users)

    def renamed(self, rows: pa.Table, path: Path) -> pa.Table:
        """Return a file's packets with the user names of the day; moved packets have them."""
        return rows if path in (self.moved or ()) else self.names.renamed(rows, path)

    def day_leases(self) -> pa.Table:
        """Return the leases that may be about the packets, with their homes (see with_homes)."""
        if self.moved is None:
            of_partitions = [("user_partition", "in", self.partitions)]
            return with_homes(self.names.rows(LEASES, self.leases, of_partitions))
        leases = with_homes(self.names.rows(LEASES, self.leases))
        return leases.filter(_is_in(self.partitions, "user_partition", "home_partition"))

    def day_log(self, leases: pa.Table) -> pa.Table:
        """Return the rows of application_log that may be about the packets, given the leases."""
        wanted: list[list[Any]] = [[("user_partition", "in", self.partitions)]]
        if self.moved is not None:
            moved = leases.filter(pc.field("home_partition") >= 0)
            by = "user" if all(map(self.names.apply_to, self.application_log)) else "user_partition"
            column = moved["address" if by == "user" else by]
            wanted.append([(by, "in", column.unique().to_pylist())])
        log = self.names.rows(APPLICATION_LOG, self.application_log, wanted)
        of_links = pc.field("user").isin(leases["address"].combine_chunks())
        return log.filter(_is_in(self.partitions, "user_partition") | of_links)


@dataclass(frozen=True)
class Moved:
    """The packets that a day's tasks do not read where they are stored.

    - names: the user names of the day
    - users: the users whose packets are moved; None: all whose links have another home
    - until: the last day whose packets are read
    - target: the file to write
    """

    names: NamesOfDay
    users: frozenset[str] | None
    until: date
    target: Staged

    def may_need(self, group: RowGroup) -> bool:
        """Return whether packets of a row group may be read for the day."""
        begin, end = (midnight_us(self.names.day - ONE_DAY), midnight_us(self.until + ONE_DAY))
        return group.last_us >= begin and group.first_us < end


@dataclass(frozen=True)
class Move:
    """The input of one task that moves packets.

    - row_groups: the packets, whole captures
    - leases: the files of leases that may be about them
    - moved: what is moved; the packets of some days may be needed for several earlier ones
    """

    row_groups: tuple[RowGroup, ...]
    leases: tuple[Path, ...]
    moved: tuple[Moved, ...]


@dataclass(frozen=True)
class Extension:
    """Users whose connections go on, and the last day that is read for them.

    - users: None: all users, and only the day and its adjacent days are read
    - until: the last day that is read
    - has_more: there are packets after it
    """

    users: frozenset[str] | None
    until: date
    has_more: bool


def _is_in(partitions: Sequence[int], *columns: str) -> pc.Expression:
    """Return the condition that a column has one of these user partitions."""
    return reduce(or_, (pc.field(name).isin(partitions) for name in columns))


def has_moves(warehouse: Warehouse, network: Network, day: date) -> bool:
    """Return whether some of the day's links have addresses in several user partitions."""
    leases = _files_around(warehouse, LEASES, network.name, day)
    rows = NamesOfDay.of(network, day).rows(LEASES, leases)
    return bool((with_homes(rows)["home_partition"].to_numpy() >= 0).any())


def move_tasks(
    warehouse: Warehouse,
    network: Network,
    extensions: Mapping[date, Extension],
    new_path: Callable[..., Staged],
) -> list[Move]:
    """Return the tasks that move packets for some days of a network.

    They move those of the users of a day's extension, or of all whose links have another home.
    """
    first, until = min(extensions), max(extension.until for extension in extensions.values())
    groups = _row_groups_around(warehouse, network.name, first, until)
    tasks: list[list[RowGroup]] = []
    for _, of_capture in groupby(groups, attrgetter("path", "capture")):
        if not tasks or sum(group.rows for group in tasks[-1]) >= JOINT_TASK_PACKETS[0]:
            tasks.append([])
        tasks[-1] += of_capture
    leases = tuple(_files_around(warehouse, LEASES, network.name, first, until))
    return [
        Move(
            tuple(of_task),
            leases,
            tuple(
                Moved(
                    NamesOfDay.of(network, day),
                    extension.users,
                    extension.until,
                    new_path(PACKETS, network.name, day, f"moved-{number}"),
                )
                for day, extension in extensions.items()
            ),
        )
        for number, of_task in enumerate(tasks)
    ]


def work_items(
    warehouse: Warehouse,
    network: Network,
    day: date,
    new_path: Callable[..., Staged],
    moved: Sequence[Path] | None = None,
    extension: Extension | None = None,
) -> Iterator[WorkItem]:
    """Yield the day's work items, the largest first.

    new_path: see Staging.path. extension: users whose packets are all among the moved.
    """
    extension = extension or Extension(None, day + timedelta(days=1), has_more=False)
    until = extension.until
    read_moved_only = extension.users is not None
    stored = [] if read_moved_only else _row_groups_around(warehouse, network.name, day)
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
        tuple(_files_around(warehouse, LEASES, network.name, day, until)),
        tuple(_files_around(warehouse, APPLICATION_LOG, network.name, day, until)),
        (),
        None if moved is None else tuple(moved),
        users=extension.users,
        until=until,
        has_more=extension.has_more,
        cut=_cut_at_midnight(warehouse, network.name, day),
    )
    for partitions in sorted(tasks, key=tasks.__getitem__, reverse=True):
        item = replace(
            whole_day, partitions=partitions, row_groups=_restricted_to(partitions, groups)
        )
        parts = -(-tasks[partitions] // max_packets) if len(partitions) == 1 else 1
        for number in range(parts):
            stem = f"{partitions[0]:05d}-{number}"
            targets, targets_going_on = (
                {t.name: new_path(t, network.name, day, name) for t in DAILY_TABLES}
                for name in (f"bucket{stem}", f"{GOING_ON}{stem}")
            )
            yield replace(
                item,
                part=(number, parts),
                targets=targets if extension.users is None else targets_going_on,
                targets_going_on=targets_going_on,
            )


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
    until = facts.until
    leases = tuple(
        path
        for path in _files_around(warehouse, LEASES, network, day, until)
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
        for group in _restricted_to(partitions, _row_groups_around(warehouse, network, day, until))
        if has_key or names.apply_to(group.path)
    )
    if not groups:
        return None
    chosen = tuple(sorted(partitions))
    settings = Settings(*facts.settings)
    cut = _cut_at_midnight(warehouse, network, day)
    of_user = frozenset((user,))
    return WorkItem(settings, names, groups, leases, (), chosen, users=of_user, cut=cut)


def _cut_at_midnight(warehouse: Warehouse, network: str, day: date) -> frozenset[Connection]:
    """Return the connections from earlier days that begin again on a day.

    They go on, but their earlier rows cannot: the packets of the day on which they begin were
    purged before those of this day were read.
    """
    from spark_jobs.estimators.connections import IDLE_TIMEOUT_US

    before, purged = day - ONE_DAY, warehouse.purged_before(network, PACKETS)
    if purged == date.min:
        return frozenset()
    found: set[Connection] = set()
    for published in warehouse.published_units("day", network):
        if published.unit.day <= purged and DayFacts.of(published).until == before:
            paths = warehouse.unit_files(published, FLOWS)
            earliest = to_datetime(midnight_us(day) - IDLE_TIMEOUT_US)
            rows = read_rows(FLOWS, paths, [("end_ts", ">=", earliest)], Connection._fields)
            found.update(Connection(*row) for row in zip(*rows.to_pydict().values(), strict=True))
    return frozenset(found)


def days_around(day: date, until: date | None = None) -> list[date]:
    """Return the days that a day's flows are made from: the day and its adjacent days.

    until: the last day, if connections go on for longer
    """
    after = max(1, (until - day).days) if until else 1
    return [day + timedelta(days=k) for k in range(-1, after + 1)]


def midnight_us(day: date) -> int:
    """Return when a day begins (µs since 1970)."""
    return microseconds(datetime.combine(day, time(), UTC))


def _files_around(
    warehouse: Warehouse, table: Table, network: str, day: date, until: date | None = None
) -> list[Path]:
    """Return a table's files of a day and its adjacent days, and on until another day."""
    days = days_around(day, until)
    return [path for near in days for path in warehouse.files(table, network, near)]


def _row_groups_around(
    warehouse: Warehouse, network: str, day: date, until: date | None = None
) -> list[RowGroup]:
    """Return the row groups of a day, and those of its adjacent days that matter, in capture order.

    until: a later day up to which they are returned

    Raises UserError if a file is missing.
    """
    from spark_jobs.estimators.connections import IDLE_TIMEOUT_US

    earliest = midnight_us(day) - IDLE_TIMEOUT_US
    found = []
    for path in _files_around(warehouse, PACKETS, network, day, until):
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
