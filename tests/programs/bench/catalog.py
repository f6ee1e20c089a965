"""Measures what a publication costs as days add up: `python -m tests.programs.bench.catalog
[DAYS]`.

Publishes a shipped network's day repeatedly, as so many days (1,000), of each table some rows,
and measures what a daily run adds: the units' transactions, the Iceberg tables' next snapshots, the
DuckDB views; and how long it takes to plan the reading of one day. Snapshots are kept for so long
that there are five of each table, as with one run a day.
"""

import sys
import time
from collections.abc import Callable
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from rich.console import Console
from rich.table import Table as Grid

from schemas import PACKETS, QUALITY, Table
from spark_jobs.figures.tables import MARTS, TABLES
from spark_jobs.tables.registry import ROWS
from spark_jobs.warehouse.database import CATALOG
from spark_jobs.warehouse.files import read_rows
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit

NETWORK, DAY = "aa-gprs", date(2004, 3, 2)
FIRST = date(2001, 1, 1)
ROWS_OF_A_DAY = 20
SHOWN = (1, 10, 100, 300, 1000, 3000)
KEPT = 5
UNITS: dict[str, tuple[Table, ...]] = {
    "capture": (PACKETS, TABLES["ingest_log"]),
    "day": tuple(ROWS),
    "quality": (QUALITY,),
    "marts": tuple(MARTS),
}


def some_rows(shipped: Warehouse) -> dict[Table, pa.Table]:
    """Returns a few rows of each table of the shipped network's day."""
    found = {
        table: read_rows(table, shipped.files(table, NETWORK, DAY))[:ROWS_OF_A_DAY]
        for tables in UNITS.values()
        for table in tables
    }
    return {table: rows for table, rows in found.items() if len(rows)}


def publish(warehouse: Warehouse, rows: dict[Table, pa.Table], day: date) -> None:
    """Publishes what a daily run does."""
    for kind, tables in UNITS.items():
        with warehouse.staging() as staging:
            for table in tables:
                if table in rows:
                    staging.write(table, NETWORK, day, kind, rows[table])
            facts = {"inputs": "", "dates": [day.isoformat()]}
            warehouse.publish(Unit.of_day(kind, NETWORK, day), staging.files, facts)


def seconds(action: Callable[[], Any]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def planning(warehouse: Warehouse, day: date) -> float:
    """Measures the seconds to find one day's packets by Iceberg."""
    catalog = load_catalog("giscope", type="sql", uri=f"sqlite:///{warehouse.root / CATALOG}")
    table = catalog.load_table(f"giscope.{PACKETS.name}")
    wanted = f"network = '{NETWORK}' and date = '{day}'"

    def plan() -> None:
        (file,) = table.scan(row_filter=wanted).plan_files()
        assert f"date={day}" in file.file.file_path

    return min(seconds(plan) for _ in range(3))


def main(days: int) -> None:
    shipped = Warehouse(Path(__file__).parents[3] / "build/demo")
    rows = some_rows(shipped)
    grid = Grid(title=f"one run a day, {len(rows)} tables, {KEPT} snapshots kept")
    for heading in (
        "days",
        "publish, ms",
        "Iceberg, ms",
        "views, ms",
        "plan a day, ms",
        "files of metadata",
        "their MB",
    ):
        grid.add_column(heading, justify="right")
    with TemporaryDirectory() as folder:
        warehouse = Warehouse(Path(folder) / "w")
        warehouse.root.mkdir()
        a_run, last = 0.0, time.perf_counter()
        for n in range(1, days + 1):
            day = FIRST + timedelta(n)
            published = seconds(partial(publish, warehouse, rows, day))
            shown = seconds(
                partial(warehouse._iceberg_tables.follow, time.time_ns() - int(KEPT * 1e9 * a_run))
            )
            if n in SHOWN or n == days:
                views = seconds(warehouse.update_views)
                metadata = [
                    path
                    for table in TABLES
                    for path in (warehouse.root / table / "metadata").iterdir()
                ]
                megabytes = sum(path.stat().st_size for path in metadata) / 1e6
                values = [1000 * x for x in (published, shown, views, planning(warehouse, day))]
                numbers = [*(f"{value:,.0f}" for value in values), f"{len(metadata):,}"]
                grid.add_row(f"{n:,}", *numbers, f"{megabytes:.1f}")
            a_run, last = time.perf_counter() - last, time.perf_counter()
    Console().print(grid)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
