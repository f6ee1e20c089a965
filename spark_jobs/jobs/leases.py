"""The leases job: it makes leases from RADIUS accounting, in one task for each day."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pyarrow as pa

from schemas import ACCOUNTING, LEASES
from spark_jobs.base.errors import withhold
from spark_jobs.capture.removal_filter import RemovalFilter, drop_rows
from spark_jobs.engine.tasks import Failure, run_tasks
from spark_jobs.removal.exclusions import load_exclusions
from spark_jobs.settings.networks import Network
from spark_jobs.users.periods import NamesOfDay
from spark_jobs.warehouse.facts import MadeFacts
from spark_jobs.warehouse.files import Written
from spark_jobs.warehouse.staging import Staging
from spark_jobs.warehouse.store import Warehouse, fingerprint
from spark_jobs.warehouse.units import Unit
from spark_jobs.warehouse.views import duckdb_paths, register_object_store

SQL = Path(__file__).with_name("leases.sql")
DAYS_AROUND = 3
"""Number of days before and after a day whose accounting messages may be about its leases."""
MAX_SILENCE = timedelta(days=1)
"""Time after its last message when a session without a stop message counts as ended."""

DayItem = tuple[NamesOfDay, list[Path]]
"""A network's day, and the files of its accounting."""


def update_leases(warehouse: Warehouse, networks: list[Network]) -> None:
    """Bring the leases of every day up to date with the accounting."""
    items = [item for network in networks for item in _stale(warehouse, network)]
    if not items:
        return
    with warehouse.staging() as staging:

        def publish(item: DayItem, files: list[Written] | Failure) -> None:
            names, paths = item
            unit = Unit.of_day("leases", names.network, names.day)
            if isinstance(files, Failure):
                withhold(f"leases of {names.network} on {names.day}", files.reason)
                warehouse.publish_facts(unit, MadeFacts(inputs="", failed=files.reason))
                return
            warehouse.publish(unit, files, MadeFacts(inputs=_inputs(paths)))

        exclusions = {
            network.name: load_exclusions(warehouse, network.name) for network in networks
        }
        run_tasks(_LeasesTask(staging, exclusions), items, "leases", publish)


def _stale(warehouse: Warehouse, network: Network) -> Iterator[DayItem]:
    """Yield the days whose leases are not up to date, each with its files of accounting."""
    name = network.name
    inputs_made = {
        published.unit.day: MadeFacts.of(published).inputs
        for published in warehouse.published_units("leases", name)
        if warehouse.is_intact(published)
    }
    files = warehouse.files_by_date(ACCOUNTING, name)
    offsets = [timedelta(days=k) for k in range(-DAYS_AROUND, DAYS_AROUND + 1)]
    purged_before = warehouse.purged_before(name, ACCOUNTING, LEASES)
    for day in sorted({day + offset for day in files for offset in offsets} | set(inputs_made)):
        if day in inputs_made and day - timedelta(DAYS_AROUND) < purged_before:
            continue  # the accounting that it was made from was purged
        paths = [path for offset in offsets for path in files.get(day + offset, [])]
        if inputs_made.get(day) != _inputs(paths):
            yield NamesOfDay.of(network, day), paths


def _inputs(paths: list[Path]) -> str:
    return fingerprint(SQL.read_text(), [path.name for path in paths])


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
        if all(map(names.apply_to, paths)):
            connection.read_parquet(duckdb_paths(paths)).create_view("messages")
        else:
            connection.register("messages", names.rows(ACCOUNTING, paths))
        settings = {
            "midnight": midnight,
            "next_midnight": midnight + timedelta(days=1),
            "silence": MAX_SILENCE // timedelta(microseconds=1),
        }
        found = connection.sql(SQL.read_text(), params=settings)
        return found.to_arrow_table().cast(LEASES.arrow)
