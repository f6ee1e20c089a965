"""Marts: which are made, when, and of which days."""

import shutil
from pathlib import Path

import pytest
from conftest import ask

from schemas import (
    RTO_VALUES,
    SKIP_REASONS,
)
from spark_jobs.base import errors
from spark_jobs.capture.decode import COUNTED_REASONS
from spark_jobs.figures import FOLDER
from spark_jobs.figures.mart_columns import USER_COUNT, USER_GROUP
from spark_jobs.figures.mart_sql import SHARED_VIEWS, SHARED_VIEWS_FOLDER
from spark_jobs.figures.tables import MARTS
from spark_jobs.jobs.marts import _batches, update_marts
from spark_jobs.warehouse.store import Warehouse


def rows(demo, query: str) -> list[tuple]:
    return ask(demo.warehouse, query).fetchall()


def test_every_mart_has_its_sql_and_every_sql_its_mart():
    assert {path.parent.name for path in FOLDER.glob("*/mart.sql")} == {t.name for t in MARTS}
    assert {path.stem for path in SHARED_VIEWS_FOLDER.glob("*.sql")} == {*SHARED_VIEWS}


def test_every_counted_reason_is_documented():
    assert set(COUNTED_REASONS) <= set(SKIP_REASONS)


def test_periods_are_local_hours(demo):
    """Budapest is an hour ahead of UTC in March: 4:30, 10:30, 10:15, 10:40 UTC."""
    query = "select distinct network, hour, period from table1_summary order by all"
    assert rows(demo, query) == [
        ("aa-gprs", 5, "off_peak"),
        ("aa-gprs", 11, "peak"),
        ("bb-gprs", 11, "peak"),
        ("cc-dialup", 11, "peak"),
    ]


def test_marts_are_made_once(demo):
    update_marts(demo.warehouse)
    assert update_marts(demo.warehouse) == []


def test_sql_files_say_what_a_row_is():
    for path in (*FOLDER.glob("*/mart.sql"), *SHARED_VIEWS_FOLDER.glob("*.sql")):
        head = Path(path).read_text().split("select")[0]
        assert "-- One row:" in head, path


MARTS_WITH_USERS = [
    mart.name
    for mart in MARTS
    if {"user_group", "user_groups"} & set(mart.arrow.names)
    and not {"category", "rate_bin"} & set(mart.arrow.names)
]


@pytest.mark.parametrize("mart", MARTS_WITH_USERS)
def test_users_are_counted(demo, mart):
    """A network has 48 users. At most marts' times and events fewer are there."""
    [table] = [table for table in MARTS if table.name == mart]
    count = "count(distinct user_group)" if USER_GROUP in table.columns else USER_COUNT
    for _, users in rows(demo, f"select network, {count} from {mart} group by network"):
        assert users == 48 if mart == "table1_summary" else 20 <= users <= 48


def test_distributions_bins_are_of_two_percent(demo):
    ((outside,),) = rows(
        demo,
        """
        select count(*) from distributions
        where weighted_sum / weight < exp(bin / 50.0) * (1 - 1e-9)
            or weighted_sum / weight > exp((bin + 1) / 50.0) * (1 + 1e-9)
    """,
    )
    assert outside == 0


def batches(warehouse: Warehouse, days: list, workers: int = 1) -> list[list]:
    return [batch.days for batch in _batches(warehouse, days, workers)]


def test_days_are_made_together_as_far_as_they_fit(demo, monkeypatch):
    days = demo.warehouse.days("day")
    assert len(days) == 3
    assert batches(demo.warehouse, days) == [days]
    monkeypatch.setattr("spark_jobs.jobs.marts.MAX_BATCH_BYTES", 1)
    assert batches(demo.warehouse, days) == [[day] for day in days]
    assert batches(demo.warehouse, []) == []


def test_tasks_share_the_days_evenly(demo, monkeypatch):
    first, second, third = days = demo.warehouse.days("day")
    assert batches(demo.warehouse, days, 2) == [[first, second], [third]]
    assert batches(demo.warehouse, days, 8) == [[first], [second], [third]]
    monkeypatch.setattr("spark_jobs.jobs.marts.MAX_BATCH_DAYS", 2)
    assert batches(demo.warehouse, days, 1) == [[first, second], [third]]


def test_marts_have_the_same_bytes_for_any_number_of_tasks(demo, tmp_path, monkeypatch):
    shutil.copytree(demo.warehouse.root, tmp_path / "w")
    warehouse = Warehouse(tmp_path / "w")
    days = warehouse.days("day")

    def contents() -> list:
        return [warehouse.content_hashes(table, *day) for table in MARTS for day in days]

    before = contents()
    for tasks in (1, 3):
        monkeypatch.setattr("spark_jobs.jobs.marts.SQL_AND_GROUPS", [f"as {tasks} make them"])
        monkeypatch.setattr("spark_jobs.jobs.marts.parallel_tasks", lambda n=tasks: n)
        assert update_marts(warehouse) == days
        assert contents() == before


def test_a_failed_batch_leaves_the_others_whole(demo, tmp_path, monkeypatch):
    """A day's file is broken: it keeps the marts it had, and the next run makes them."""
    shutil.copytree(demo.warehouse.root, tmp_path / "w")
    warehouse = Warehouse(tmp_path / "w")
    days = warehouse.days("day")
    monkeypatch.setattr("spark_jobs.jobs.marts.parallel_tasks", lambda: 3)
    monkeypatch.setattr("spark_jobs.jobs.marts.SQL_AND_GROUPS", ["again"])
    [broken] = warehouse.files(RTO_VALUES, *days[0])
    kept = broken.read_bytes()
    broken.write_bytes(b"PAR1")
    marts = {mart.name: warehouse.files(mart, *days[0]) for mart in MARTS}
    update_marts(warehouse)
    assert {mart.name: warehouse.files(mart, *days[0]) for mart in MARTS} == marts
    line = errors.withheld_lines[-1]
    assert line.startswith(f"withheld: all marts of {days[0][0]} on {days[0][1]}: ")
    broken.write_bytes(kept)
    assert days[0] in update_marts(warehouse)
    assert update_marts(warehouse) == []
