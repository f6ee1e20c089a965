"""Nothing listens beyond loopback unless configured to. Airflow's processes and Superset's are
watched where they are started: tests/airflow/test_make_airflow.py,
tests/dashboards/test_superset.py."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from conftest import NETWORKS_FILE, ROOT

from spark_jobs.engine import thrift_server
from spark_jobs.engine.thrift_server import BIND
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.listening import Seen, is_loopback, watched
from tests.helpers.small_warehouse import publish
from tests.helpers.spark_programs import SPARK, WAIT_S, asked, comes, free_port

GISCOPE = Path(sys.executable).with_name("giscope")
PLANTED = """
import socket, subprocess, sys, time
if len(sys.argv) > 1:
    sockets = []
    for family, kind, address in (
        (socket.AF_INET, socket.SOCK_STREAM, "0.0.0.0"),
        (socket.AF_INET, socket.SOCK_DGRAM, "0.0.0.0"),
        (socket.AF_INET6, socket.SOCK_STREAM, "::"),
        (socket.AF_INET, socket.SOCK_STREAM, "127.0.0.1"),
    ):
        sockets.append(socket.socket(family, kind))
        sockets[-1].bind((address, 0))
        if kind is socket.SOCK_STREAM:
            sockets[-1].listen()
    time.sleep(1)
else:
    subprocess.run([sys.executable, __file__, "child"])
"""


def run(folder: Path, captures: Path, **settings: str) -> Seen:
    """Run the main job; return what is seen of it."""
    command = [GISCOPE, "run", "--warehouse", folder / "w", "--networks", NETWORKS_FILE, captures]
    with (folder / "log").open("w") as log:
        job = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | settings)
        with watched(job) as seen:
            assert job.wait(600) == 0, (folder / "log").read_text()
    return seen


def test_the_watcher_sees_listening_sockets_of_a_process_and_its_children(tmp_path):
    program = tmp_path / "listens.py"
    program.write_text(PLANTED)
    process = subprocess.Popen([sys.executable, program])
    with watched(process) as seen:
        assert process.wait(60) == 0
    assert {address for _, address in seen.beyond_loopback} == {"0.0.0.0", "::"}
    assert {address for _, address in seen.sockets} == {"0.0.0.0", "::", "127.0.0.1"}
    assert any(command.endswith("child") for command in seen.commands)
    assert is_loopback("::ffff:127.0.0.1")
    assert not is_loopback("::ffff:192.0.2.1")


def test_a_run_listens_nowhere(few_captures, tmp_path):
    seen = run(tmp_path, few_captures)
    assert seen.sockets == set()
    assert len(seen.commands) > 2


@pytest.mark.slow
def test_a_run_by_spark_listens_on_loopback(few_captures, tmp_path):
    seen = run(tmp_path, few_captures, GISCOPE_MASTER="local[2]")
    assert seen.beyond_loopback == set()
    assert "java" in {program for program, _ in seen.sockets}


def address_beyond_loopback() -> str | None:
    """Return an address of this host beyond loopback, or None."""
    found = (at for of in psutil.net_if_addrs().values() for at in of)
    return next(
        (at.address for at in found if at.family.name == "AF_INET" and not is_loopback(at.address)),
        None,
    )


@pytest.mark.slow
def test_spark_listens_beyond_loopback_when_configured(few_captures, tmp_path):
    """The watcher sees it."""
    if not (address_given := address_beyond_loopback()):
        pytest.skip("needs an address beyond loopback")
    seen = run(tmp_path, few_captures, GISCOPE_MASTER="local[2]", SPARK_LOCAL_IP=address_given)
    assert {address.removeprefix("::ffff:") for _, address in seen.beyond_loopback} == {
        address_given
    }


@pytest.mark.slow
@pytest.mark.parametrize("address_given", [None, "0.0.0.0"])
def test_spark_submit_and_the_thrift_server_listen_on_loopback(tmp_path, address_given):
    """Unless configured otherwise, as in a container, whose port is published on loopback."""
    warehouse, port = Warehouse(tmp_path / "w"), free_port()
    publish(warehouse, "AA")
    warehouse.update_views()
    command = [
        SPARK / "bin/spark-submit", "--master", "local[1]",
        "--conf", f"spark.hadoop.hive.server2.thrift.port={port}",
        *(["--conf", f"spark.hadoop.{BIND}={address_given}"] if address_given else []),
        thrift_server.__file__, str(warehouse.root),
    ]  # fmt: skip
    settings = {"SPARK_HOME": str(SPARK), "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    environment = os.environ | settings
    environment.pop("SPARK_LOCAL_IP", None)
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            command, cwd=tmp_path, stdout=log, stderr=log, env=environment
        )  # fmt: skip
    try:
        with watched(server) as seen:
            assert comes(port, "select country from networks", "AA"), (tmp_path / "log").read_text()
            assert asked(port, "select count(*) from flows") == "0"
    finally:
        server.terminate()
        server.wait(WAIT_S)
    assert {address for _, address in seen.beyond_loopback} == ({"::"} if address_given else set())
    assert len(seen.sockets) > 1
