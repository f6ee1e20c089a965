"""RADIUS accounting to leases: one task a day."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pyarrow as pa

from schemas import ACCOUNTING, LEASES
from spark_jobs.capture.removal_filter import RemovalFilter, drop_rows
from spark_jobs.engine.tasks import run_tasks
from spark_jobs.jobs.forgotten import removed_of
from spark_jobs.networks import Network
from spark_jobs.warehouse import Staging, Unit, Warehouse, Written, fingerprint
from spark_jobs.warehouse.periods import NamesOfDay
from spark_jobs.warehouse.views import duckdb_paths, register_object_store

SQL = Path(__file__).with_name("leases.sql")
DAYS_AROUND = 3
"""A lease is known from the messages of so many days before and after the one it lies in."""
SILENCE = timedelta(days=1)
"""A session of which nothing more is heard has ended by then."""

Item = tuple[NamesOfDay, list[Path]]
"""A network's day, and its files of accounting."""


def leases(warehouse: Warehouse, networks: list[Network]) -> None:
    """Bring the leases of every day up to date with the accounting there is."""
    items = [item for network in networks for item in _stale(warehouse, network)]
    if not items:
        return
    with warehouse.staging() as staging:

        def publish(item: Item, files: list[Written]) -> None:
            names, paths = item
            unit = Unit.of_day("leases", names.network, names.day)
            warehouse.publish(unit, files, {"inputs": _inputs(paths)})

        removed = {network.name: removed_of(warehouse, network.name) for network in networks}
        run_tasks(_LeasesTask(staging, removed), items, "leases", publish)


def _stale(warehouse: Warehouse, of: Network) -> Iterator[Item]:
    """Days of which the leases are not up to date, each with its files of accounting."""
    network = of.name
    made = {
        commit.unit.day: commit.facts["inputs"]
        for commit in warehouse.published_units("leases", network)
        if warehouse.is_intact(commit)
    }
    files = warehouse.files_by_date(ACCOUNTING, network)
    around = [timedelta(days=k) for k in range(-DAYS_AROUND, DAYS_AROUND + 1)]
    gone = warehouse.purged_before(network, ACCOUNTING, LEASES)
    for day in sorted({day + near for day in files for near in around} | set(made)):
        if day in made and day - timedelta(DAYS_AROUND) < gone:
            continue  # made of what is there no more
        paths = [path for near in around for path in files.get(day + near, [])]
        if made.get(day) != _inputs(paths):
            yield NamesOfDay.of(of, day), paths


def _inputs(paths: list[Path]) -> str:
    return fingerprint(SQL.read_text(), [path.name for path in paths])


@dataclass
class _LeasesTask:
    staging: Staging
    removed: dict[str, RemovalFilter]

    def __call__(self, item: Item) -> list[Written]:
        """One day's leases. Where pseudonyms change, messages of the next period may tell of a user
        who was forgotten in this one."""
        names, paths = item
        rows = _leases_of(paths, names)
        rows = drop_rows(LEASES, rows, self.removed[names.network].matches(rows)).cast(LEASES.arrow)
        with self.staging.part() as part:
            if len(rows):
                part.write(LEASES, names.network, names.day, "leases", rows)
        return part.files


def _leases_of(paths: list[Path], names: NamesOfDay) -> pa.Table:
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
            "silence": SILENCE // timedelta(microseconds=1),
        }
        found = connection.sql(SQL.read_text(), params=settings)
        return found.to_arrow_table().cast(LEASES.arrow)
