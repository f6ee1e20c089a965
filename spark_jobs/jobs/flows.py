"""The flows job: it makes a day's connections, and the tables beside them, from packets.

One task handles some user partitions of a network's day (see tables/day_plan.py). The job publishes
a day as a whole, as soon as its tasks are done. A day of which a task fails keeps the flows that it
had, and is held (see jobs/quality.py) until a later run makes them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from schemas import APPLICATION_LOG, FLOWS, LEASES, PACKETS
from spark_jobs.capture.stamp import has_another_format
from spark_jobs.engine.tasks import Failure, run_tasks
from spark_jobs.errors import UserError, in_a_line, is_of_machine, withhold
from spark_jobs.networks import Network
from spark_jobs.places import remove_all
from spark_jobs.tables.day_plan import days_around, has_moves, move_tasks, work_items
from spark_jobs.tables.settings import Settings
from spark_jobs.users.periods import NamesOfDay
from spark_jobs.warehouse.facts import CaptureFacts, DayFacts
from spark_jobs.warehouse.store import Warehouse, fingerprint
from spark_jobs.warehouse.units import PublishedUnit, Unit

if TYPE_CHECKING:
    from spark_jobs.tables.day_plan import Move, WorkItem
    from spark_jobs.warehouse.files import Written
    from spark_jobs.warehouse.staging import Staging

FORMAT = 2
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
        return publish_flows(warehouse, stale_days(warehouse, chosen))


def publish_flows(
    warehouse: Warehouse, work: list[tuple[Network, date]]
) -> dict[tuple[str, date], int]:
    """Make the flows of each (network, date), and publish each when its tasks are done.

    Returns the number of flows by (network name, date), without the days of which a task failed.
    """
    flow_counts: dict[tuple[str, date], int] = {}
    in_place: list[tuple[Network, date]] = []
    to_move: list[tuple[Network, date]] = []
    for network, day in work:
        try:
            is_moved = has_moves(warehouse, network, day)
        except Exception as error:
            if is_of_machine(error):
                raise
            _hold(warehouse, (network.name, day), in_a_line(error))
            continue
        (to_move if is_moved else in_place).append((network, day))
    # One after another, because a day's moved packets occupy the disk until the day is made.
    for days in (in_place, *([day] for day in to_move)):
        flow_counts |= _publish_together(warehouse, days, moves=days is not in_place)
    warehouse.update_views()
    return flow_counts


def _publish_together(
    warehouse: Warehouse, work: list[tuple[Network, date]], moves: bool
) -> dict[tuple[str, date], int]:
    """Make the flows of some days at the same time; moves: packets must be moved first."""
    facts = {(network.name, day): _facts(warehouse, network, day) for network, day in work}
    flow_counts: dict[tuple[str, date], int] = {}
    written: dict[tuple[str, date], list[dict[str, Written] | Failure]] = defaultdict(list)
    with warehouse.staging() as staging:
        items: dict[tuple[str, date], list[WorkItem]] = {}
        for network, planned in work:
            key = network.name, planned
            try:
                moved = _move(warehouse, network, planned, staging) if moves else None
                items[key] = [*work_items(warehouse, network, planned, staging.path, moved)]
            except Exception as error:
                if is_of_machine(error):
                    raise
                _hold(warehouse, key, in_a_line(error))

        def publish(day: tuple[str, date]) -> None:
            results = written.pop(day, [])
            if failures := [result for result in results if isinstance(result, Failure)]:
                _hold(warehouse, day, failures[0].reason)
                return
            of_tasks = (result for result in results if not isinstance(result, Failure))
            files = sorted(file for of_task in of_tasks for file in of_task.values())
            warehouse.publish(Unit.of_day("day", *day), files, facts[day])
            flow_counts[day] = sum(file.rows for file in files if file.belongs_to(FLOWS))

        def on_task_done(item: WorkItem, files: dict[str, Written] | Failure) -> None:
            day = item.names.network, item.names.day
            written[day].append(files)
            if len(written[day]) == len(items[day]):
                publish(day)

        for day, tasks in items.items():
            if not tasks:
                publish(day)
        all_items = [item for tasks in items.values() for item in tasks]
        if all_items:
            run_tasks(_make_flows, all_items, "flows", on_task_done)
        remove_all({path for item in all_items for path in item.moved or ()})
    return flow_counts


def _move(warehouse: Warehouse, network: Network, day: date, staging: Staging) -> list[Path]:
    """Move a day's packets to the user partitions of their links, and return the files.

    Raises UserError if a task failed.
    """
    tasks = move_tasks(warehouse, network, day, staging.path)
    results = run_tasks(_move_packets, tasks, "links")
    for result in results:
        if isinstance(result, Failure):
            raise UserError(result.reason)
    return [path for path in results if path is not None and not isinstance(path, Failure)]


def _move_packets(task: Move) -> Path | None:
    from spark_jobs.tables.moves import move_packets

    return move_packets(task)


def _hold(warehouse: Warehouse, day: tuple[str, date], reason: str) -> None:
    """Record why a day's flows could not be made. What was published of it stays."""
    withhold(f"flows of {day[0]} on {day[1]}", reason)
    unit = Unit.of_day("day", *day)
    published = warehouse.published(unit) or PublishedUnit(unit)
    warehouse.publish_facts(unit, DayFacts.of(published).replace(inputs="", failed=reason))


def _make_flows(item: WorkItem) -> dict[str, Written]:
    # Imported here, because only the workers need the estimators.
    from spark_jobs.tables.day_tables import make_flows

    return make_flows(item)


def _facts(warehouse: Warehouse, network: Network, day: date) -> DayFacts:
    return DayFacts(
        inputs=inputs_hash(warehouse, network, day),
        settings=[*Settings.of(network)],
        user_partitions=network.user_partitions,
        key_period=network.key_period,
        others=NamesOfDay.of(network, day).other_networks,
    )


def inputs_hash(warehouse: Warehouse, network: Network, day: date) -> str:
    """Return a hash of everything that the day's flows depend on.

    These are the packets, logs and leases of the day and its adjacent days, and the network's
    settings.
    """
    contents = [
        warehouse.content_hashes(table, network.name, nearby_day)
        for table in (PACKETS, APPLICATION_LOG, LEASES)
        for nearby_day in days_around(day)
    ]
    return fingerprint(FORMAT, *Settings.of(network), contents)


def is_current(warehouse: Warehouse, network: Network, day: date) -> bool:
    """Return whether the day's flows exist and were made from the packets that exist now."""
    unit = Unit.of_day("day", network.name, day)
    return warehouse.is_current(unit, inputs_hash(warehouse, network, day))


def days_with_packets(warehouse: Warehouse, network: str) -> set[date]:
    """Return the days of which the network has packets."""
    captures = warehouse.published_units("capture", network)
    return {day for capture in captures for day in CaptureFacts.of(capture).dates}


def stale_days(warehouse: Warehouse, networks: Iterable[Network]) -> list[tuple[Network, date]]:
    """Return the (network, date) pairs whose flows are not up to date.

    These are days with packets, and days with flows whose packets were replaced. A day stays as it
    is if its packets were purged (see Warehouse.purged_before), if files of them are missing (see
    Warehouse.damaged), or if they were read into another format.
    """
    return [
        (network, day)
        for network in networks
        for day in sorted(_days_to_make(warehouse, network.name))
        if not is_current(warehouse, network, day)
    ]


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
