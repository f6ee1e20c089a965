"""The marts job: it makes the small aggregate tables behind the report and the dashboards.

One SQL file makes each mart. A task runs the files for some of the days that changed, by DuckDB;
the job publishes these days when the task is done. A mart that fails is left out. If all
fail, because an input is broken or memory is scarce, the day keeps the marts that it had. Either
way a row of quality says why, and the next run tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from schemas import FLOWS, NETWORKS, QUALITY, Table
from spark_jobs.base.sources import version
from spark_jobs.engine.memory import release_freed_memory
from spark_jobs.engine.tasks import Failure, parallel_tasks, run_tasks, threads_per_task
from spark_jobs.figures.mart_sql import mart_query, view_statements
from spark_jobs.figures.tables import MARTS, SUPPRESSED_GROUPS
from spark_jobs.tables.mart_rows import INPUTS, Day, failure_rows, mart_rows
from spark_jobs.warehouse.facts import DayFacts, MadeFacts
from spark_jobs.warehouse.files import Written
from spark_jobs.warehouse.staging import Staging
from spark_jobs.warehouse.steps import Step
from spark_jobs.warehouse.store import Change, Warehouse
from spark_jobs.warehouse.targets import Partition
from spark_jobs.warehouse.units import Unit, fingerprint

SQL_AND_GROUPS = [
    *view_statements(stored=()),
    *((mart_query(table), table.group_columns) for table in MARTS),
    version("spark_jobs/figures/suppressed_groups/suppression.py"),
]
"""Inputs of a day's marts besides its tables; if one changes, all marts are made again."""
GIB_PER_THREAD = 1
"""DuckDB's memory limit for each of its threads; beyond that it writes to a folder."""
MAX_BATCH_DAYS, MAX_BATCH_BYTES = 16, 128 << 20
"""Maximum number of days whose marts one task makes, and of bytes of their flows."""


class Batch(NamedTuple):
    """The input of one task: some days, and the files to read by table name."""

    days: list[Day]
    files: dict[str, list[Path]]


class Made(NamedTuple):
    """The result of a task: the files of each day, and why marts could not be made, by name."""

    files: dict[Day, list[Written]]
    failures: dict[str, str]


def update_marts(
    warehouse: Warehouse,
    skip: Callable[[Day], bool] = lambda day: False,
    network: str | None = None,
) -> list[Day]:
    """Bring every day's marts up to date with its flows, and return the days that changed.

    skip: returns whether a day's marts must stay as they are
    network: the only network whose days are considered

    A day's marts stay as they are if an input of them was purged. A day whose first flows could not
    be made has none.
    """
    days = warehouse.days("day", network)
    purged_before = {
        name: warehouse.purged_before(name, *INPUTS) for name in {name for name, _ in days}
    }
    chosen: dict[Day, str] = {}

    def make(stale: dict[Unit, str]) -> None:
        for unit, inputs in stale.items():
            day = unit.network, unit.day
            if not (_has_only_failed(warehouse, day) or skip(day)):
                chosen[day] = inputs
        if chosen:
            _make_marts(warehouse, chosen)

    inputs = {
        marts_unit(day): _inputs_hash(warehouse, day)
        for day in days
        if day[1] >= purged_before[day[0]]
    }
    Step(inputs, make).bring_up_to_date(warehouse)
    warehouse.update_views()
    return list(chosen)


def _make_marts(warehouse: Warehouse, days: dict[Day, str]) -> None:
    """Make and publish the marts of days. days: with the hash of the inputs of each."""
    with warehouse.staging() as staging:
        alone: list[Batch] = []

        def publish(batch: Batch, made: Made | Failure) -> None:
            failed = {"": made.reason} if isinstance(made, Failure) else made.failures
            if failed and len(batch.days) > 1:  # other days may have all their marts
                alone.extend(_batch(warehouse, [day]) for day in batch.days)
                return
            changes = []
            for day in batch.days:
                files = [] if isinstance(made, Failure) else made.files[day]
                if failed:
                    with staging.part() as part:
                        part.write(QUALITY, *day, "failed-marts", failure_rows(day, failed))
                    files += part.files
                facts = MadeFacts(inputs="" if failed else days[day])
                kept = _published_marts(warehouse, day) if isinstance(made, Failure) else ()
                changes.append(Change(marts_unit(day), files, facts, kept))
            warehouse.publish_all([_without_purged(warehouse, change) for change in changes])

        batches = list(_batches(warehouse, list(days), parallel_tasks()))
        while batches:
            threads = threads_per_task(len(batches))
            task = partial(_write_marts, staging, threads, f"{GIB_PER_THREAD * threads}GiB")
            run_tasks(task, batches, "marts", publish, compiled=False)
            batches, alone = alone, []


def _published_marts(warehouse: Warehouse, day: Day) -> list[str]:
    """Return the published files of a day's marts."""
    published = warehouse.published(marts_unit(day))
    files = published.files if published else ()
    return [target for target in files if Partition.of(target).table is not QUALITY]


def _has_only_failed(warehouse: Warehouse, day: Day) -> bool:
    """Return whether a day has no flows, because they could not be made."""
    published = warehouse.published(Unit.of_day("day", *day))
    return bool(published and DayFacts.of(published).failed and not published.stored_in)


def _batches(warehouse: Warehouse, days: list[Day], workers: int) -> Iterator[Batch]:
    """Yield batches of days, at least one for each worker if there are enough days."""
    batch: list[Day] = []
    batch_bytes = 0
    max_days = min(MAX_BATCH_DAYS, -(-len(days) // workers))
    for day in days:
        files = warehouse.files(FLOWS, *day)
        size = sum(path.stat().st_size for path in files if path.exists())  # a task reports others
        if batch and (batch_bytes + size > MAX_BATCH_BYTES or len(batch) == max_days):
            yield _batch(warehouse, batch)
            batch, batch_bytes = [], 0
        batch.append(day)
        batch_bytes += size
    if batch:
        yield _batch(warehouse, batch)


def _batch(warehouse: Warehouse, days: list[Day]) -> Batch:
    files = {
        table.name: [path for day in days for path in warehouse.files(table, *day)]
        for table in INPUTS
    }
    names = sorted({network for network, _ in days})
    files[NETWORKS.name] = [path for name in names for path in warehouse.files(NETWORKS, name)]
    return Batch(days, files)


def marts_unit(day: Day) -> Unit:
    """Return the unit that a day's marts are published as."""
    return Unit.of_day("marts", *day)


def _inputs_hash(warehouse: Warehouse, day: Day) -> str:
    """Return a hash of what a day's marts depend on.

    These are its INPUTS, the network's facts, the SQL, and the groups.
    """
    files = [warehouse.content_hashes(table, *day) for table in INPUTS]
    facts = warehouse.content_hashes(NETWORKS, day[0])
    return fingerprint(files, facts, SQL_AND_GROUPS)


def _without_purged(warehouse: Warehouse, change: Change) -> Change:
    """Return a day's change without the marts that were purged, perhaps while they were made."""
    network, day = change.unit.network, change.unit.day
    purged = [
        table
        for table in (*MARTS, SUPPRESSED_GROUPS, QUALITY)
        if day < warehouse.purged_before(network, table)
    ]
    dropped = [file for file in change.files if any(file.belongs_to(table) for table in purged)]
    warehouse.remove_staged(dropped)
    return change._replace(files=[file for file in change.files if file not in dropped])


def _write_marts(staging: Staging, threads: int, memory_limit: str, batch: Batch) -> Made:
    """Write the marts of each day of a batch."""
    release_freed_memory()
    made = Made({day: [] for day in batch.days}, {})

    def on_failure(mart: Table, reason: str) -> None:
        made.failures[mart.name] = reason

    with staging.part() as part:
        for table, day, rows in mart_rows(batch.files, part, threads, memory_limit, on_failure):
            part.write(table, *day, "mart", rows)
            made.files[day].append(part.files[-1])
    return made
