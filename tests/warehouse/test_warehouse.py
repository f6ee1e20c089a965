"""Publishing: a reader sees a unit before the change or after it, and no file is left over."""

import json
import time
from datetime import date, timedelta

import duckdb
import pytest
from conftest import EMPTY_IN_DEMO

from schemas import NETWORKS
from spark_jobs.figures.tables import TABLES
from spark_jobs.warehouse.catalog import UnitCatalog
from spark_jobs.warehouse.database import database_of
from spark_jobs.warehouse.staging import OWNER
from spark_jobs.warehouse.store import STAGING, VIEWS, Warehouse
from spark_jobs.warehouse.units import Unit
from tests.helpers.small_warehouse import (
    UNIT,
    Killed,
    countries,
    data_files,
    kill_at_step,
    publish,
    rows,
)


def test_replacing_a_unit_replaces_its_rows(tmp_path):
    warehouse = Warehouse(tmp_path, grace_time=timedelta(0))
    publish(warehouse, "AA", "BB")
    publish(warehouse, "CC")
    warehouse.update_views()
    assert countries(warehouse) == ["CC"]
    assert len(data_files(warehouse)) == 1


def test_units_do_not_affect_each_other(tmp_path):
    warehouse = Warehouse(tmp_path)
    publish(warehouse, "AA")
    with warehouse.staging() as staging:
        staging.write(NETWORKS, "bb-gprs", None, "BB", rows("BB"))
        warehouse.publish(Unit("network", "bb-gprs"), staging.files, {})
    publish(warehouse, "CC")
    assert countries(warehouse) == ["BB", "CC"]


STEPS = 7
"""Steps of a change of two files: each is moved; the catalog is changed before and after;
superseded files are removed."""


@pytest.mark.parametrize("step", range(STEPS))
def test_job_killed_at_any_step_leaves_the_old_or_the_new_rows(tmp_path, monkeypatch, step):
    warehouse = Warehouse(tmp_path, grace_time=timedelta(0))
    publish(warehouse, "AA", "BB")
    with monkeypatch.context() as patch:
        kill_at_step(patch, step)
        try:
            publish(warehouse, "CC", "DD")
            killed = False
        except Killed:
            killed = True
    seen = countries(warehouse)
    assert seen in (["AA", "BB"], ["CC", "DD"])
    assert killed or seen == ["CC", "DD"]
    publish(warehouse, "EE")
    warehouse.update_views()
    assert countries(warehouse) == ["EE"]
    assert len(data_files(warehouse)) == 1


def test_the_kill_test_reaches_the_end_of_publishing(tmp_path, monkeypatch):
    """Publishing has fewer steps than the parametrized test tries."""
    warehouse = Warehouse(tmp_path)
    publish(warehouse, "AA", "BB")
    taken = kill_at_step(monkeypatch, STEPS)
    publish(warehouse, "CC", "DD")
    assert {"register", "replace", "publish"} <= set(taken)
    assert len(taken) < STEPS


def test_staged_files_of_a_failed_change_are_removed(tmp_path):
    warehouse = Warehouse(tmp_path)
    with pytest.raises(KeyError), warehouse.staging() as staging:
        staging.write(NETWORKS, "aa-gprs", None, "AA", rows("AA").drop_columns("country"))
    assert list((tmp_path / STAGING).iterdir()) == []
    assert countries(warehouse) == []


def test_staged_files_of_a_killed_job_are_removed_by_the_next(tmp_path):
    warehouse = Warehouse(tmp_path)
    killed = tmp_path / STAGING / "0123"
    killed.mkdir(parents=True)
    (killed / OWNER).touch()
    (killed / "00000-89abcdef.parquet").touch()
    with warehouse.staging(), warehouse.staging():
        assert len(list((tmp_path / STAGING).iterdir())) == 2
    assert list((tmp_path / STAGING).iterdir()) == []


def test_every_table_can_be_asked_when_empty(tmp_path):
    connection = Warehouse(tmp_path).connect()
    for name, table in TABLES.items():
        answer = connection.sql(f'select * from "{name}"')
        assert answer.columns == table.arrow_with_partitions.names
        assert answer.fetchall() == []


def test_views_have_the_schemas_columns(demo):
    connection = demo.warehouse.connect()
    for name, table in TABLES.items():
        answer = connection.sql(f'select * from "{name}" limit 1')
        assert answer.columns == table.arrow_with_partitions.names
        assert len(answer.fetchall()) == (0 if table in EMPTY_IN_DEMO else 1)


def test_files_of_a_network_and_day(demo):
    files = demo.warehouse.files(TABLES["packets"], "aa-gprs", date(2004, 3, 2))
    assert len(files) == 2
    assert demo.warehouse.files(TABLES["packets"], "aa-gprs", date(2004, 3, 3)) == []


def test_folders_hold_published_and_superseded_files_only(demo):
    """Superseded files, of other tests, stay until their grace time is over."""
    root = demo.warehouse.root
    published = {path for table in TABLES.values() for path in demo.warehouse.files(table)}
    known = {root / path for path in UnitCatalog(database_of(root)).removable_files(time.time_ns())}
    assert published <= data_files(demo.warehouse) <= published | known


def test_a_reader_sees_each_change_of_another_at_once(tmp_path):
    reader, writer = Warehouse(tmp_path), Warehouse(tmp_path)
    for n in range(100):
        writer.publish(UNIT, {}, {"n": n})
        assert reader.published(UNIT).facts["n"] == n
        (seen,) = reader.published_units("network")
        assert seen.facts["n"] == n
    publish(writer, "AA")
    (file,) = reader.files(NETWORKS, "aa-gprs")
    assert file.exists()


def test_published_facts_are_parsed_once(tmp_path, monkeypatch):
    warehouse = Warehouse(tmp_path)
    publish(warehouse, "AA")
    warehouse.update_views()
    time.sleep(0.1)
    warehouse.update_views()
    read = []
    monkeypatch.setattr("json.loads", lambda text, loads=json.loads: read.append(1) or loads(text))
    for _ in range(10):
        warehouse.files(NETWORKS, "aa-gprs")
        warehouse.published_units("network")
        warehouse.update_views()
    assert not read


def test_views_are_made_again_only_when_their_rows_changed(tmp_path):
    warehouse = Warehouse(tmp_path)
    publish(warehouse, "AA")
    warehouse.update_views()
    made = (tmp_path / VIEWS).stat().st_ino
    warehouse.update_views()
    assert (tmp_path / VIEWS).stat().st_ino == made
    publish(warehouse, "BB")
    warehouse.update_views()
    assert duckdb.connect(tmp_path / VIEWS).sql("select country from networks").fetchall() == [
        ("BB",)
    ]
