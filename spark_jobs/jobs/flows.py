"""The flows job: it makes a day's connections, and the tables beside them, from packets.

One task handles some user partitions of a network's day (see tables/day_plan.py). The job publishes
a day as a whole, as soon as its tasks are done. A day of which a task fails keeps the flows that it
had, and is held (see jobs/quality.py) until a later run makes them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from schemas import APPLICATION_LOG, FLOWS, LEASES, PACKETS, QUIC_FLOWS
from spark_jobs.base.errors import UserError, in_a_line, is_of_machine, withhold
from spark_jobs.base.places import remove_all
from spark_jobs.engine.tasks import Failure, run_tasks
from spark_jobs.ingest.plan import has_another_format
from spark_jobs.settings.networks import Network
from spark_jobs.tables.day_plan import (
    GOING_ON,
    Extension,
    days_around,
    has_moves,
    move_tasks,
    work_items,
)
from spark_jobs.tables.settings import Settings
from spark_jobs.users.periods import NamesOfDay
from spark_jobs.warehouse.facts import CaptureFacts, DayFacts
from spark_jobs.warehouse.files import read_rows
from spark_jobs.warehouse.steps import Step
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.targets import stem, table_name
from spark_jobs.warehouse.units import PublishedUnit, Unit, fingerprint

if TYPE_CHECKING:
    from spark_jobs.tables.day_plan import Move, WorkItem
    from spark_jobs.tables.day_tables import Made
    from spark_jobs.warehouse.staging import Staging

FORMAT = 6
"""Version of this job's results.

Raise it if the same packets would give other rows, or other facts of the unit.
"""


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
        counts: dict[tuple[str, date], int] = {}
        by_name = {network.name: network for network in chosen}

        def make(stale: dict[Unit, str]) -> None:
            days = [(by_name[unit.network], unit.day) for unit in stale]
            counts.update(publish_flows(warehouse, days))

        Step(inputs_of_days(warehouse, chosen), make).bring_up_to_date(warehouse)
        warehouse.update_views()
        return counts


@dataclass
class _Day:
    """A day whose flows are being made.

    - facts: those that are published with it
    - last: the last of the days with packets that follow it without a gap
    - extension: what the current tasks read
    - unchanged: its published files that stay
    - inputs: a hash of what the current tasks read
    - tasks: number of the current tasks
    - results: what they gave so far
    - made: what earlier tasks gave
    """

    network: Network
    day: date
    facts: DayFacts
    last: date
    extension: Extension
    unchanged: Sequence[str] = ()
    inputs: str = ""
    tasks: int = 0
    results: list[Made | Failure] = field(default_factory=list)
    made: list[Made] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, date]:
        return self.network.name, self.day


def publish_flows(
    warehouse: Warehouse, work: list[tuple[Network, date]]
) -> dict[tuple[str, date], int]:
    """Make the flows of each (network, date), and publish each when its tasks are done.

    Returns the number of flows by (network name, date), without the days of which a task failed.
    """
    flow_counts: dict[tuple[str, date], int] = {}
    with warehouse.staging() as staging:
        names = {network.name for network, _ in work}
        with_packets = {name: days_with_packets(warehouse, name) for name in names}
        days: list[_Day] = []
        for network, day in work:
            with _holding(warehouse, (network.name, day)):
                last = _last_day(with_packets[network.name], day)
                days.append(_planned(warehouse, network, day, last))
        while days:
            in_place: list[_Day] = []
            extended: dict[str, list[_Day]] = defaultdict(list)
            to_move: list[_Day] = []
            for planned in days:
                with _holding(warehouse, planned.key):
                    if planned.extension.users is not None:
                        extended[planned.network.name].append(planned)
                    elif has_moves(warehouse, planned.network, planned.day):
                        to_move.append(planned)
                    else:
                        in_place.append(planned)
            # One after another, because moved packets occupy the disk until their tasks are done.
            days = _make_together(warehouse, staging, in_place, flow_counts)
            for group in (*extended.values(), *([planned] for planned in to_move)):
                days += _make_together(warehouse, staging, group, flow_counts, moves=True)
    warehouse.update_views()
    return flow_counts


def _planned(warehouse: Warehouse, network: Network, day: date, last: date) -> _Day:
    """Return a day with what is to be made of it; last: see _Day.

    If only connections that go on have new packets, the rows of the other users stay.
    """
    near = near_hash(warehouse, network, day)
    unit = Unit.of_day("day", network.name, day)
    published = warehouse.published(unit)
    facts = DayFacts.of(published) if published else DayFacts()
    if published and facts.until and facts.near == near and warehouse.is_intact(published):
        own = warehouse.unmerge(unit)
        going_on = {file for file in own.files if stem(file).startswith(GOING_ON)}
        extension = Extension(_users(warehouse, going_on), last, has_more=False)
        unchanged = [file for file in own.files if file not in going_on]
        return _Day(network, day, facts, last, extension, unchanged)
    facts = DayFacts(
        near=near,
        settings=[*Settings.of(network)],
        user_partitions=network.user_partitions,
        key_period=network.key_period,
        others=NamesOfDay.of(network, day).other_networks,
    )
    next_day = day + timedelta(days=1)
    return _Day(network, day, facts, last, Extension(None, next_day, has_more=last > next_day))


def _users(warehouse: Warehouse, files: Collection[str]) -> frozenset[str]:
    """Return the users of the connections of which some published files have rows."""
    users: set[str] = set()
    for table in (FLOWS, QUIC_FLOWS):
        paths = [warehouse.root / file for file in files if table_name(file) == table.name]
        users.update(read_rows(table, paths, columns=["user"])["user"].to_pylist())
    return frozenset(users)


def _last_day(with_packets: Collection[date], day: date) -> date:
    """Return the last of the days with packets that follow a day without a gap.

    It is the day after it at least.
    """
    last = day + timedelta(days=1)
    while last in with_packets and last + timedelta(days=1) in with_packets:
        last += timedelta(days=1)
    return last


def _make_together(
    warehouse: Warehouse,
    staging: Staging,
    days: list[_Day],
    flow_counts: dict[tuple[str, date], int],
    moves: bool = False,
) -> list[_Day]:
    """Make the flows of some days at the same time, and return those of which more is to be made.

    moves: packets must be moved first, for days of one network.
    """
    unfinished: list[_Day] = []
    items: list[tuple[_Day, WorkItem]] = []
    for day in days:
        day.inputs = _inputs_hash(warehouse, day.facts.near, *day.key, day.extension.until)
    moved: dict[date, list[Path]] | None = None
    if moves:
        try:
            moved = _move(warehouse, days, staging)
        except Exception as error:
            if is_of_machine(error):
                raise
            for day in days:
                _hold(warehouse, day.key, in_a_line(error))
            return []
    for day in days:
        with _holding(warehouse, day.key):
            of_day = None if moved is None else moved.get(day.day, [])
            planned = [
                *work_items(warehouse, day.network, day.day, staging.path, of_day, day.extension)
            ]
            day.tasks, day.results = len(planned), []
            items += ((day, item) for item in planned)
            if not planned:
                _finish(warehouse, day, flow_counts)
    of_item = {id(item): day for day, item in items}

    def on_task_done(item: WorkItem, made: Made | Failure) -> None:
        day = of_item[id(item)]
        day.results.append(made)
        if len(day.results) == day.tasks and _finish(warehouse, day, flow_counts):
            unfinished.append(day)

    run_tasks(_make_flows, [item for _, item in items], "flows", on_task_done)
    remove_all({path for _, item in items for path in item.moved or ()})
    return unfinished


def _finish(warehouse: Warehouse, day: _Day, flow_counts: dict[tuple[str, date], int]) -> bool:
    """Publish a day of which all tasks are done; return whether connections go on.

    If they do, and there are later packets, it is not published yet.
    """
    users: set[str] = set()
    for result in day.results:
        if isinstance(result, Failure):
            _hold(warehouse, day.key, result.reason)
            return False
        day.made.append(result)
        users |= result.users
    until = day.extension.until
    if users:
        until = min(day.last, day.day + 2 * (until - day.day))
        day.extension = Extension(frozenset(users), until, has_more=until < day.last)
        return True
    goes_on = any(made.going_on for made in day.made)
    files = [file for made in day.made for file in (*made.files, *made.going_on)]
    facts = day.facts.replace(
        until=until if goes_on else None,
        inputs=day.inputs if goes_on else day.facts.near,
        packets=_summed([day.facts.packets, *(made.packets for made in day.made)]),
        packets_going_on=_summed(made.packets_going_on for made in day.made),
    )
    warehouse.publish(Unit.of_day("day", *day.key), sorted(files), facts, day.unchanged)
    flow_counts[day.key] = sum(file.rows for file in files if file.belongs_to(FLOWS))
    return False


def _summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    return dict(sum(map(Counter, counts), Counter()))


def _move(warehouse: Warehouse, days: list[_Day], staging: Staging) -> dict[date, list[Path]]:
    """Move packets for some days of a network, and return the files by day.

    Raises UserError if a task failed.
    """
    extensions = {day.day: day.extension for day in days}
    tasks = move_tasks(warehouse, days[0].network, extensions, staging.path)
    files: dict[date, list[Path]] = defaultdict(list)
    for result in run_tasks(_move_packets, tasks, "links"):
        if isinstance(result, Failure):
            raise UserError(result.reason)
        for day, path in result.items():
            files[day].append(path)
    return files


def _move_packets(task: Move) -> dict[date, Path]:
    from spark_jobs.tables.moves import move_packets

    return move_packets(task)


@contextmanager
def _holding(warehouse: Warehouse, day: tuple[str, date]) -> Iterator[None]:
    """Hold a day if an error of its data is raised within."""
    try:
        yield
    except Exception as error:
        if is_of_machine(error):
            raise
        _hold(warehouse, day, in_a_line(error))


def _hold(warehouse: Warehouse, day: tuple[str, date], reason: str) -> None:
    """Record why a day's flows could not be made. What was published of it stays."""
    withhold(f"flows of {day[0]} on {day[1]}", reason)
    unit = Unit.of_day("day", *day)
    published = warehouse.published(unit) or PublishedUnit(unit)
    warehouse.publish_facts(unit, DayFacts.of(published).replace(inputs="", near="", failed=reason))


def _make_flows(item: WorkItem) -> Made:
    # Imported here, because only the workers need the estimators.
    from spark_jobs.tables.day_tables import make_flows

    return make_flows(item)


def near_hash(warehouse: Warehouse, network: Network, day: date) -> str:
    """Return a hash of what the day's flows depend on, but for the packets of later days.

    These are the packets, logs and leases of the day and its adjacent days, and the network's
    settings.
    """
    contents = [
        warehouse.content_hashes(table, network.name, nearby_day)
        for table in (PACKETS, APPLICATION_LOG, LEASES)
        for nearby_day in days_around(day)
    ]
    return fingerprint(FORMAT, *Settings.of(network), contents)


def _inputs_hash(
    warehouse: Warehouse, near: str | None, network: str, day: date, until: date
) -> str:
    """Return a hash of what the flows of a day depend on whose connections go on to `until`.

    It is of the packets up to the day after `until`.
    """
    later = days_around(day, until + timedelta(days=1))[3:]
    return fingerprint(near, [warehouse.content_hashes(PACKETS, network, near) for near in later])


def inputs_of_days(warehouse: Warehouse, networks: Iterable[Network]) -> dict[Unit, str]:
    """Return the days with packets or flows, with a hash of what the flows of each depend on.

    A day stays as it is, and is left out, if its packets were purged (see Warehouse.purged_before),
    if files of them are missing (see Warehouse.damaged), or if they were read into another format.
    """
    inputs = {}
    for network in networks:
        for day in sorted(_days_to_make(warehouse, network.name)):
            unit = Unit.of_day("day", network.name, day)
            published, inputs[unit] = warehouse.published(unit), near_hash(warehouse, network, day)
            if until := published and DayFacts.of(published).until:
                inputs[unit] = _inputs_hash(warehouse, inputs[unit], network.name, day, until)
    return inputs


def days_with_packets(warehouse: Warehouse, network: str) -> set[date]:
    """Return the days of which the network has packets."""
    captures = warehouse.published_units("capture", network)
    return {day for capture in captures for day in CaptureFacts.of(capture).dates}


def _days_to_make(warehouse: Warehouse, network: str) -> set[date]:
    """Return the days with packets or flows, but not those that stay as they are."""
    days_with_flows = {day for _, day in warehouse.days("day", network)}
    packets_purged = warehouse.purged_before(network, PACKETS, APPLICATION_LOG, LEASES)
    flows_purged = warehouse.purged_before(network, FLOWS)
    purged = {day for day in days_with_flows if day <= packets_purged or day < flows_purged}
    damaged = {
        near
        for capture in warehouse.published_units("capture", network)
        if not warehouse.is_intact(capture)
        for day in CaptureFacts.of(capture).dates
        for near in days_around(day)
    }
    others = captures_of_another_format(warehouse, network).values()
    of_another_format = {day for facts in others for day in facts.dates}
    days = days_with_packets(warehouse, network) | days_with_flows
    return days - purged - damaged - of_another_format


def captures_of_another_format(warehouse: Warehouse, network: str) -> dict[str, CaptureFacts]:
    """Return the facts, by name, of captures whose packets were read into another format.

    Ingest reads them again, so these are captures that are gone.
    """
    return {
        capture.unit.name: facts
        for capture in warehouse.published_units("capture", network)
        if has_another_format(facts := CaptureFacts.of(capture))
    }


def lines_about_another_format(warehouse: Warehouse, networks: Iterable[Network]) -> Iterator[str]:
    """Yield a line for each network with days that stay as an earlier format made them."""
    for network in networks:
        if captures := captures_of_another_format(warehouse, network.name):
            days = sorted({day for facts in captures.values() for day in facts.dates})
            yield (
                f"{network.name}: the flows of {days[0]} to {days[-1]} stay as they are: captures "
                f"were read into another format ({len(captures)}, the first is {min(captures)}): "
                "put them back and run again"
            )
