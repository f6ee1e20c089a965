"""The leases of users, made from RADIUS accounting in one task for each day."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pyarrow as pa

from schemas import ACCOUNTING, LEASES
from schemas.labels import LABEL_NAMES
from spark_jobs.base.errors import withhold
from spark_jobs.capture.removal_filter import RemovalFilter, drop_rows
from spark_jobs.engine.tasks import Failure, run_tasks
from spark_jobs.ingest.exclusions import load_exclusions
from spark_jobs.settings.networks import Network
from spark_jobs.users.periods import NamesOfDay
from spark_jobs.warehouse.facts import MadeFacts
from spark_jobs.warehouse.files import Written, has_columns_of
from spark_jobs.warehouse.staging import Staging
from spark_jobs.warehouse.steps import Step
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit, fingerprint
from spark_jobs.warehouse.views import duckdb_paths, register_object_store

SQL = (
    Path(__file__)
    .with_name("leases.sql")
    .read_text()
    .format(
        labels=", ".join(LABEL_NAMES),
        last_labels=",\n        ".join(
            f"coalesce(last_value({name} ignore nulls) over until_now, "
            f"first_value({name} ignore nulls) over from_now) as {name}"
            for name in LABEL_NAMES
        ),
    )
)
DAYS_AROUND = 3
"""Number of days before and after a day whose accounting messages may be about its leases."""
MAX_SILENCE = timedelta(days=1)
"""Time after its last message when a session without a stop message counts as ended."""

DayItem = tuple[NamesOfDay, list[Path]]
"""A network's day, and the files of its accounting."""


def update_leases(warehouse: Warehouse, networks: list[Network]) -> None:
    """Bring the leases of every day up to date with the accounting."""
    items = {
        Unit.of_day("leases", network.name, names.day): (names, paths)
        for network in networks
        for names, paths in _days(warehouse, network)
    }

    def make(stale: dict[Unit, str]) -> None:
        def publish(item: DayItem, files: list[Written] | Failure) -> None:
            names, _ = item
            unit = Unit.of_day("leases", names.network, names.day)
            if isinstance(files, Failure):
                withhold(f"leases of {names.network} on {names.day}", files.reason)
                warehouse.publish_facts(unit, MadeFacts(inputs="", failed=files.reason))
                return
            warehouse.publish(unit, files, MadeFacts(inputs=stale[unit]))

        exclusions = {
            network.name: load_exclusions(warehouse, network.name) for network in networks
        }
        with warehouse.staging() as staging:
            task = _LeasesTask(staging, exclusions)
            run_tasks(task, [items[unit] for unit in stale], "leases", publish)

    inputs = {
        unit: fingerprint(SQL, [path.name for path in paths]) for unit, (_, paths) in items.items()
    }
    Step(inputs, make).bring_up_to_date(warehouse)


def _days(warehouse: Warehouse, network: Network) -> Iterator[DayItem]:
    """Yield the days that may have leases, each with its files of accounting.

    Days whose accounting was purged are left out: they stay as they are.
    """
    name = network.name
    made = {
        published.unit.day: warehouse.is_intact(published)
        for published in warehouse.published_units("leases", name)
    }
    files = warehouse.files_by_date(ACCOUNTING, name)
    offsets = [timedelta(days=k) for k in range(-DAYS_AROUND, DAYS_AROUND + 1)]
    purged_before = warehouse.purged_before(name, ACCOUNTING, LEASES)
    for day in sorted({day + offset for day in files for offset in offsets} | set(made)):
        if not (made.get(day) and day - timedelta(DAYS_AROUND) < purged_before):
            paths = [path for offset in offsets for path in files.get(day + offset, [])]
            yield NamesOfDay.of(network, day), paths


@dataclass
class _LeasesTask:
    staging: Staging
    exclusions: dict[str, RemovalFilter]

    def __call__(self, item: DayItem) -> list[Written]:
        """Write one day's leases without those of forgotten users, and return the files.

        If pseudonyms change, messages of the next period may be about a user who was forgotten in
        this one. So the exclusions apply to the leases, too.
        """
        names, paths = item
        rows = _day_leases(paths, names)
        rows = drop_rows(LEASES, rows, self.exclusions[names.network].matches(rows)).cast(
            LEASES.arrow
        )
        with self.staging.part() as part:
            if len(rows):
                part.write(LEASES, names.network, names.day, "leases", rows)
        return part.files


def _day_leases(paths: list[Path], names: NamesOfDay) -> pa.Table:
    if not paths:
        return LEASES.arrow.empty_table()
    import duckdb

    midnight = datetime.combine(names.day, time(), UTC)
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        register_object_store(connection, *paths)
        if all(names.apply_to(path) and has_columns_of(ACCOUNTING, path) for path in paths):
            connection.read_parquet(duckdb_paths(paths)).create_view("messages")
        else:
            connection.register("messages", names.rows(ACCOUNTING, paths))
        settings = {
            "midnight": midnight,
            "next_midnight": midnight + timedelta(days=1),
            "silence": MAX_SILENCE // timedelta(microseconds=1),
        }
        found = connection.sql(SQL, params=settings)
        return found.to_arrow_table().cast(LEASES.arrow)
