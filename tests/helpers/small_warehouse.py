"""A warehouse of one small table, and jobs that are killed."""

import os
from collections.abc import Iterable
from pathlib import Path
from threading import Event, Thread

import pyarrow as pa
import pytest
from conftest import ask

from schemas import NETWORKS
from spark_jobs.warehouse.catalog import UnitCatalog
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit

UNIT = Unit("network", "aa-gprs")


class Killed(BaseException):
    """Raised where the job is killed."""


def rows(*countries: str) -> pa.Table:
    fact = {
        "access": "gprs",
        "timezone": "UTC",
        "flight_size_bytes": 4500,
    }
    return pa.Table.from_pylist([{"country": c, **fact} for c in countries], NETWORKS.arrow)


def assert_one_at_a_time(one: Warehouse, other: Warehouse) -> None:
    """Assert that a job waits for a lock that another holds."""
    waits, got = Event(), Event()

    def take() -> None:
        with other.locked("x", waits.set):
            got.set()

    taking = Thread(target=take)
    with one.locked("x"), one.locked("y"):
        taking.start()
        assert waits.wait(10)
        assert not got.wait(0.5)
    assert got.wait(10)
    taking.join()


def age_all_files(root: Path) -> None:
    """Make all files older than any age limit."""
    for path in root.rglob("*"):
        os.utime(path, (1, 1))


def publish(warehouse: Warehouse, *countries: str) -> None:
    """Publish one file per country, so that a change has several files."""
    with warehouse.staging() as staging:
        for country in countries:
            staging.write(NETWORKS, "aa-gprs", None, country, rows(country))
        warehouse.publish(UNIT, staging.files, {})


def moved_warehouse(folder: Path) -> Warehouse:
    """Return a warehouse with views of AA in another folder and of BB where it is now."""
    warehouse = Warehouse(folder / "a")
    publish(warehouse, "AA")
    warehouse.update_views()
    (folder / "a").rename(folder / "b")
    moved = Warehouse(folder / "b")
    publish(moved, "BB")
    moved.update_views()
    return moved


def countries(warehouse: Warehouse) -> list[str]:
    found = ask(warehouse, "select country from networks order by 1").fetchall()
    return [country for (country,) in found]


def data_files(warehouse: Warehouse) -> set[Path]:
    return set(warehouse.root.rglob("*.parquet"))


def kill_at_step(
    patch: pytest.MonkeyPatch,
    after: int,
    paths: Iterable[str] = ("replace", "unlink"),
    catalog: Iterable[str] = ("register", "publish"),
) -> list[str]:
    """Kill the job after so many steps, which are calls of these methods; return those taken."""
    taken = []

    def count_steps(owner: type, name: str) -> None:
        original = getattr(owner, name)

        def step(self: object, *args: object) -> object:
            if len(taken) == after:
                raise Killed
            taken.append(name)
            return original(self, *args)

        patch.setattr(owner, name, step)

    for name in paths:
        count_steps(Path, name)
    for name in catalog:
        count_steps(UnitCatalog, name)
    return taken
