"""The tables as Iceberg tables, read by Spark."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from conftest import ROOT

from spark_jobs.engine.spark import iceberg_settings
from spark_jobs.figures.tables import TABLES
from spark_jobs.warehouse.database import CATALOG
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.small_warehouse import publish

SESSION = """
import json, sys
from spark_jobs.engine.spark import spark_session
from spark_jobs.base.errors import UserError
try:
    spark = spark_session(json.loads(sys.argv[1]))
except UserError as error:
    print(error, flush=True)
    sys.exit(3)
print("ready", flush=True)
for query in sys.stdin:
    answer = [list(row.values()) for row in spark.sql(query).toArrow().to_pylist()]
    print(json.dumps(answer, default=str), flush=True)
"""
ROUNDS = 12


class Session:
    """Spark with the Iceberg tables of a warehouse, in a process of its own."""

    def __init__(self, root: Path):
        settings = iceberg_settings(f"sqlite:///{root / CATALOG}", str(root))
        self._process = subprocess.Popen(
            [sys.executable, "-c", SESSION, json.dumps(settings)], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        said = self._process.stdout.readline().strip()
        if said != "ready":
            self._process.communicate()
            pytest.skip(said)  # no network: its packages come from Maven Central

    def ask(self, query: str) -> list[list]:
        self._process.stdin.write(query.replace("\n", " ") + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def warehouse(demo, tmp_path_factory) -> Warehouse:
    """Return a copy of the demo's warehouse, with its Iceberg tables where it is now."""
    root = shutil.copytree(demo.warehouse.root, tmp_path_factory.mktemp("iceberg") / "w")
    warehouse = Warehouse(root)
    warehouse.update_views()
    return warehouse


@pytest.fixture(scope="module")
def session(warehouse) -> Iterator[Session]:
    started = Session(warehouse.root)
    yield started
    started.close()


def test_every_column_is_what_duckdb_reads(warehouse, session):
    duck = warehouse.connect()
    for name, table in TABLES.items():
        scalar = [
            field.name
            for field in table.arrow_with_partitions
            if not pa.types.is_nested(field.type)
        ]
        asked = ", ".join(f"count(`{c}`), min(`{c}`), max(`{c}`)" for c in scalar)
        theirs = session.ask(f"select count(*), {asked} from giscope.giscope.{name}")
        asked = asked.replace("`", '"')
        [ours] = duck.sql(f"select count(*), {asked} from {name}").to_arrow_table().to_pylist()
        assert theirs == json.loads(json.dumps([list(ours.values())], default=str)), name
    few = "select count(*) from {}packets where network = 'aa-gprs' and seq > 4000000000"
    [[found]] = session.ask(few.format("giscope.giscope."))
    assert found == duck.execute(few.format("")).fetchone()[0] > 0


def test_a_reader_sees_old_or_new_rows_while_jobs_publish(warehouse, session):
    """Countries of a network, beside those of the demo's others."""
    countries = "select country from giscope.giscope.networks {} order by 1"
    others = session.ask(countries.format("where network <> 'aa-gprs'"))
    publish(warehouse, "X", "Y")
    warehouse.update_views()
    seen = [session.ask(countries.format(""))]
    [[first]] = session.ask(
        "select snapshot_id from giscope.giscope.networks.snapshots "
        "order by committed_at desc limit 1"
    )
    for n in range(ROUNDS):
        publish(warehouse, f"X{n}", f"Y{n}")
        if n % 2:
            warehouse.update_views()
        seen.append(session.ask(countries.format("")))
    assert seen[0] == [*others, ["X"], ["Y"]]
    for n, shown_countries in enumerate(seen[1:]):
        shown = n if n % 2 else n - 1
        expected = [*others, [f"X{shown}"], [f"Y{shown}"]] if shown >= 0 else seen[0]
        assert shown_countries == expected
    assert session.ask(countries.format(f"version as of {first}")) == seen[0]
