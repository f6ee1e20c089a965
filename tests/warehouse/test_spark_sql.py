"""Spark SQL sees what DuckDB sees."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from conftest import EMPTY_IN_DEMO, ROOT

from schemas import NETWORKS
from spark_jobs.engine import thrift_server
from spark_jobs.engine.spark import spark_session
from spark_jobs.engine.spark_sql import read_table, register
from spark_jobs.figures.tables import TABLES
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.small_warehouse import publish
from tests.helpers.spark_programs import SPARK, WAIT_S, asked, comes, free_port

ASKED = 12


@pytest.mark.parametrize("name", ["[a-z]", "{a,b}", "what?", "s*r"])
def test_a_path_is_not_read_as_a_pattern(tmp_path, name):
    warehouse = Warehouse(tmp_path / name)
    publish(warehouse, "AA", "BB")
    found = read_table(spark_session(), warehouse, NETWORKS, warehouse.files(NETWORKS))
    assert {row.country for row in found.collect()} == {"AA", "BB"}


def test_every_type_is_read_as_it_was_written(demo):
    """The largest values of unsigned columns, lists, maps, times and dates."""
    spark, duck = spark_session(), demo.warehouse.connect()
    register(spark, demo.warehouse)
    for query in (
        "select max(user_port), max(seq), max(ip_len), max(date) from packets",
        "select frame, sack from packets where sack is not null order by capture, frame limit 1",
        "select capture, skipped from ingest_log where network = 'bb-gprs'",
        "select network, max(setup_delay), min(start_ts) from flows group by 1 order by 1",
    ):
        theirs = spark.sql(query).toArrow().to_pylist()
        assert theirs == duck.sql(query).to_arrow_table().to_pylist()


def test_every_table_has_the_same_rows_and_every_column_is_read(demo):
    """Spark reads some encodings of some types only."""
    spark, duck = spark_session(), demo.warehouse.connect()
    register(spark, demo.warehouse)
    for name, table in TABLES.items():
        assert spark.table(name).columns == table.arrow_with_partitions.names
        scalar = [c.name for c in table.columns if c.type[-1] != ">"]
        largest = "select {}, count(*) as rows from {}"
        in_spark = largest.format(", ".join(f"max(`{column}`)" for column in scalar), name)
        in_duck = largest.format(", ".join(f'max("{column}")' for column in scalar), name)
        [theirs] = spark.sql(in_spark).toArrow().to_pylist()
        [ours] = duck.sql(in_duck).to_arrow_table().to_pylist()
        assert list(theirs.values()) == list(ours.values())
        assert ours["rows"] or table in EMPTY_IN_DEMO


def test_tables_without_files_are_empty(tmp_path):
    spark = spark_session()
    register(spark, Warehouse(tmp_path))
    assert spark.table("flows").count() == 0
    assert spark.table("flows").columns == TABLES["flows"].arrow_with_partitions.names


def test_a_column_that_an_earlier_version_did_not_write_is_null(tmp_path):
    warehouse = Warehouse(tmp_path)
    publish(warehouse, "AA")
    (file,) = warehouse.files(NETWORKS)
    pq.write_table(pq.ParquetFile(file).read().drop_columns("slot_rate"), file)
    (row,) = read_table(spark_session(), warehouse, NETWORKS, [file]).collect()
    assert (row.network, row.country, row.slot_rate) == ("aa-gprs", "AA", None)


def publish_until(warehouse: Warehouse, stop: Path) -> list[str]:
    """Publish one country after the other until the file `stop` exists."""
    names = []
    while not stop.exists():
        names.append(f"C{len(names)}")
        publish(warehouse, names[-1])
        warehouse.update_views()
        time.sleep(0.5)
    return names


@pytest.mark.slow
def test_thrift_server_answers_beeline_and_follows_the_warehouse(tmp_path):
    warehouse = Warehouse(tmp_path / "w")
    publish(warehouse, "AA")
    warehouse.update_views()
    port = free_port()
    command = [
        SPARK / "bin/spark-submit", "--master", "local[1]",
        "--conf", f"spark.hadoop.hive.server2.thrift.port={port}",
        "--conf", "spark.hadoop.hive.server2.thrift.bind.host=127.0.0.1",
        thrift_server.__file__, str(warehouse.root),
    ]  # fmt: skip
    settings = {"SPARK_HOME": str(SPARK), "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            command, cwd=tmp_path, stdout=log, stderr=log, env=os.environ | settings
        )
    try:
        assert comes(port, "select country from networks", "AA"), (tmp_path / "log").read_text()
        publish(warehouse, "BB")
        warehouse.update_views()
        assert comes(port, "select country from networks", "BB")
        with ThreadPoolExecutor() as pool:
            busy = Warehouse(warehouse.root, grace_time=timedelta(seconds=10))
            publishing = pool.submit(publish_until, busy, tmp_path / "stop")
            answers = {asked(port, "select country from networks") for _ in range(ASKED)}
            (tmp_path / "stop").touch()
            names = publishing.result()
        assert answers <= {"BB", *names}, answers
    finally:
        server.terminate()
        server.wait(WAIT_S)
