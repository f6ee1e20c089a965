"""Readers while jobs publish see old rows or new ones, never an error; then no file is left."""

import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

from schemas import NETWORKS
from spark_jobs.engine.spark import spark_session
from spark_jobs.engine.spark_sql import register
from spark_jobs.warehouse.storage import VERSIONS, VIEWS
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.small_warehouse import countries, data_files, publish

ROUNDS = 40
PAUSE_S = 0.02
"""How long a reader waits between two questions, so that the job that publishes gets a core."""
KEPT_S = 0.2
NAMES = [f"A{chr(65 + n % 26)}" for n in range(1, ROUNDS)]
ICEBERG = """
import sys, time
from pathlib import Path
from pyiceberg.catalog import load_catalog
kind, root = sys.argv[1], Path(sys.argv[2])
catalog = load_catalog("giscope", type="sql", uri=f"sqlite:///{root}/catalog.sqlite")
table = catalog.load_table("giscope.networks")
print(*table.scan().to_arrow()["country"].to_pylist(), flush=True)
while not (root / "stop").exists():
    if kind == "iceberg":
        table = catalog.load_table("giscope.networks")
    print(*table.scan().to_arrow()["country"].to_pylist())
    time.sleep(PAUSE_S)
"""
READER = """
import sys, time, duckdb
from pathlib import Path
from spark_jobs.warehouse.storage import VIEWS
from spark_jobs.warehouse.store import Warehouse
kind, root = sys.argv[1], Path(sys.argv[2])
opened = lambda: duckdb.connect(root / VIEWS, read_only=True)
connection = {"notebook": opened, "library": Warehouse(root).connect, "fresh": opened}[kind]()
ask = "select country from networks"
print(connection.sql(ask).fetchall()[0][0], flush=True)
while not (root / "stop").exists():
    if kind == "fresh":
        connection.close()
        connection = opened()
    print(connection.sql(ask).fetchall()[0][0])
    time.sleep(PAUSE_S)
"""


def reader(kind: str, warehouse: Warehouse) -> subprocess.Popen:
    """Start a process that reads the country repeatedly; return once it reads."""
    program = ICEBERG if "iceberg" in kind else READER
    process = subprocess.Popen(
        [sys.executable, "-c", f"PAUSE_S = {PAUSE_S}{program}", kind, str(warehouse.root)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert process.stdout.readline() == "AA\n", process.stderr.read()
    return process


def test_no_reader_fails_while_jobs_publish(tmp_path):
    warehouse = Warehouse(tmp_path, timedelta(seconds=KEPT_S))
    publish(warehouse, "AA")
    warehouse.update_views()
    readers = {kind: reader(kind, warehouse) for kind in ("notebook", "library", "fresh")}
    for name in NAMES:
        publish(warehouse, name)
        warehouse.update_views()
    time.sleep(2 * KEPT_S)
    warehouse.update_views()
    (tmp_path / "stop").touch()
    outputs = {kind: process.communicate() for kind, process in readers.items()}
    for kind, process in readers.items():
        assert process.returncode == 0, (kind, outputs[kind][1])
    answers = {kind: answer.split() for kind, (answer, _) in outputs.items()}
    assert set(answers["notebook"]) == set(answers["library"]) == {"AA"}
    assert {"AA", NAMES[-1]} <= set(answers["fresh"]) <= {"AA", *NAMES}
    assert all(len(answer) > ROUNDS for answer in answers.values())


def test_no_reader_of_iceberg_fails_while_jobs_publish(tmp_path):
    warehouse = Warehouse(tmp_path)
    publish(warehouse, "AA")
    warehouse.update_views()
    readers = {kind: reader(kind, warehouse) for kind in ("iceberg", "iceberg snapshot")}
    for name in NAMES:
        publish(warehouse, name)
        warehouse.update_views()
    (tmp_path / "stop").touch()
    outputs = {kind: process.communicate() for kind, process in readers.items()}
    for kind, process in readers.items():
        assert process.returncode == 0, (kind, outputs[kind][1])
    answers = {kind: set(answer.splitlines()) for kind, (answer, _) in outputs.items()}
    assert answers["iceberg snapshot"] == {"AA"}
    assert {"AA", NAMES[-1]} <= answers["iceberg"] <= {"AA", *NAMES}
    assert len(data_files(warehouse)) == ROUNDS
    Warehouse(tmp_path, timedelta(0)).maintain()
    assert data_files(warehouse) == set(warehouse.files(NETWORKS))


def test_superseded_files_are_removed_once_nobody_reads_them(tmp_path):
    warehouse = Warehouse(tmp_path, grace_time=timedelta(0))
    publish(warehouse, "AA")
    warehouse.update_views()
    notebook = reader("notebook", warehouse)
    for name in ("BB", "CC"):
        publish(warehouse, name)
        warehouse.update_views()
    # The notebook's, and what was superseded since it was opened.
    assert len(data_files(warehouse)) == 3
    (tmp_path / "stop").touch()
    notebook.communicate()
    warehouse.update_views()
    assert len(data_files(warehouse)) == 1
    assert len(list((tmp_path / VERSIONS).iterdir())) == 1
    assert countries(warehouse) == ["CC"]


def test_a_superseded_file_stays_for_the_grace_time(tmp_path):
    warehouse = Warehouse(tmp_path, grace_time=timedelta(1))
    publish(warehouse, "AA")
    publish(warehouse, "BB")
    warehouse.update_views()
    assert len(data_files(warehouse)) == 2
    later = Warehouse(tmp_path, grace_time=timedelta(0))
    later.update_views()
    assert len(data_files(warehouse)) == 1


def test_views_work_on_a_file_system_without_hard_links(tmp_path, monkeypatch):
    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("os.link", refused)
    warehouse = Warehouse(tmp_path, grace_time=timedelta(0))
    publish(warehouse, "AA")
    warehouse.update_views()
    with duckdb.connect(tmp_path / VIEWS, read_only=True) as views:
        assert views.sql("select country from networks").fetchall() == [("AA",)]


def test_a_spark_session_keeps_reading_the_files_it_registered(tmp_path):
    warehouse, spark = Warehouse(tmp_path, grace_time=timedelta(0)), spark_session()
    publish(warehouse, "AA")
    warehouse.update_views()
    register(spark, warehouse)
    for name in ("BB", "CC"):
        publish(warehouse, name)
        warehouse.update_views()
        assert spark.sql("select country from networks").collect() == [("AA",)]
    register(spark, warehouse)
    warehouse.update_views()
    assert spark.sql("select country from networks").collect() == [("CC",)]
    assert len(data_files(warehouse)) == 1


@pytest.mark.parametrize("keep", [timedelta(0), timedelta(1)])
def test_a_staged_change_can_read_files_superseded_since_it_began(tmp_path, keep):
    warehouse, other = Warehouse(tmp_path, keep), Warehouse(tmp_path, keep)
    publish(warehouse, "AA")
    warehouse.update_views()
    (read,) = data_files(warehouse)
    with warehouse.staging():
        publish(other, "BB")
        other.update_views()
        assert read.exists()
    other.update_views()
    assert read.exists() == bool(keep)
