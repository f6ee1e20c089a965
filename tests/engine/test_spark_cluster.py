"""A Spark cluster (master, two workers, each its own process) and an object store, without a shared
folder, make the same tables as one machine. Only the driver knows the catalog, in PostgreSQL."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from conftest import CAPTURES, NETWORKS_FILE, ask, contents

from schemas import INGEST_LOG, NETWORKS, Table
from spark_jobs.base.places import path_of
from spark_jobs.figures.tables import MARTS, TABLES
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.object_store import new_bucket, object_store
from tests.helpers.spark_programs import SPARK, WAIT_S, free_port

GISCOPE = Path(sys.executable).with_name("giscope")


class Cluster:
    """The cluster's processes, a worker per name, and the environment of its drivers."""

    def __init__(self, folder: Path, environment: dict[str, str]):
        port = free_port()
        self.environment = os.environ | environment
        self.environment |= {
            "SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable, "GISCOPE_MASTER": f"spark://127.0.0.1:{port}",
        }  # fmt: skip
        self._folder = folder
        self.processes: dict[str, subprocess.Popen] = {}
        at = ["--host", "127.0.0.1", "--webui-port", "0"]
        self._start("master", "Master", [*at, "--port", str(port)])
        for name in ("one", "two"):
            own = ["--cores", "1", "--memory", "2g", "--work-dir", str(folder / name)]
            self._start(name, "Worker", [*at, *own, self.environment["GISCOPE_MASTER"]])

    def _start(self, name: str, kind: str, arguments: list[str]) -> None:
        home = self._folder / f"home of {name}"
        home.mkdir()
        with (self._folder / f"{name}.log").open("w") as log:
            self.processes[name] = subprocess.Popen(
                [SPARK / "bin" / "spark-class", f"org.apache.spark.deploy.{kind.lower()}.{kind}",
                 *arguments],
                env=self.environment, cwd=home, stdout=log, stderr=log,
            )  # fmt: skip
        said = "Successfully registered with master" if kind == "Worker" else "I have been elected"
        deadline = time.monotonic() + WAIT_S
        while said not in (self._folder / f"{name}.log").read_text():
            assert time.monotonic() < deadline, (self._folder / f"{name}.log").read_text()
            time.sleep(0.2)

    def kill(self, name: str) -> None:
        """Kill a worker with all its processes."""
        worker = psutil.Process(self.processes[name].pid)
        for process in [*worker.children(recursive=True), worker]:
            process.kill()

    def end(self) -> None:
        for process in self.processes.values():
            process.terminate()
            process.wait(WAIT_S)


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    with object_store() as found:
        yield found


@pytest.fixture
def cluster(environment, tmp_path, monkeypatch) -> Iterator[Cluster]:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    made = Cluster(tmp_path, environment)
    yield made
    made.end()


def has_the_tables_of_one_machine(root: Path, uri: str, one: Path) -> bool:
    """Assert that files have the same bytes; of ingest_log, which has durations, the same rows; of
    marts, whose sums may be added in another order, the same rows to nine digits."""
    assert contents(root, uri) == contents(one, "")
    warehouse, other = Warehouse(root, catalog=uri), Warehouse(one, catalog="")
    for table in set(TABLES.values()) - {INGEST_LOG, NETWORKS}:
        if warehouse.content_hashes(table) != other.content_hashes(table):
            assert table in MARTS, table.name
            for row, same in zip(rows(warehouse, table), rows(other, table), strict=True):
                assert row == pytest.approx(same, rel=1e-9, abs=0, nan_ok=True), table.name
    return True


def rows(warehouse: Warehouse, table: Table) -> list[dict]:
    return ask(warehouse, f"from {table.name} order by all").to_arrow_table().to_pylist()


@pytest.mark.slow
def test_a_cluster_makes_the_same_tables_in_an_object_store_as_one_machine_in_a_folder(
    cluster, whole_demo, environment, uri
):
    bucket = path_of(f"s3://{new_bucket(environment)}")
    for path in CAPTURES.glob("*/*.pcap*"):
        (bucket / "captures" / path.parent.name / path.name).write_bytes(path.read_bytes())
    run = [GISCOPE, "run", "--warehouse", str(bucket / "w"), "--networks", NETWORKS_FILE]
    catalog = {"GISCOPE_CATALOG": uri}
    subprocess.run([*run, str(bucket / "captures")], env=cluster.environment | catalog, check=True)
    assert has_the_tables_of_one_machine(bucket / "w", uri, whole_demo.warehouse.root)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["packets", "flows"])
def test_a_worker_that_is_killed_costs_nothing_but_time(
    cluster, whole_demo, environment, uri, tmp_path, when
):
    """It is killed once the first files of a table are written. Captures are in a shared folder,
    given by a relative path."""
    root = path_of(f"s3://{new_bucket(environment)}/w")
    shutil.copytree(CAPTURES, tmp_path / "captures")
    run = [GISCOPE, "run", "--warehouse", str(root), "--networks", NETWORKS_FILE, "captures"]
    catalog = {"GISCOPE_CATALOG": uri}
    job = subprocess.Popen(run, env=cluster.environment | catalog, cwd=tmp_path)
    while not (root / when).is_dir():
        assert job.poll() is None
        time.sleep(0.05)
    cluster.kill("two")
    assert job.wait(600) == 0
    assert has_the_tables_of_one_machine(root, uri, whole_demo.warehouse.root)
