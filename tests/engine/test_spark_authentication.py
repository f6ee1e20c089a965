"""Spark's master takes workers and drivers that have its secret, as docker-compose.yml sets it up,
and no others."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from conftest import ROOT

from tests.helpers.spark_programs import SPARK, WAIT_S, free_port

SETTINGS = "spark-defaults.conf"
JOB = """
import sys
import urllib.request
import psutil
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
context = spark.sparkContext
numbers = context.parallelize(range(1000), 4).map(lambda n: (n % 10, 2 * n))
assert sum(value for _, value in numbers.reduceByKey(lambda a, b: a + b).collect()) == 999_000
assert len(context.parallelize([0], 1).flatMap(lambda _: [b"x" * 4096] * 1000).collect()) == 1000
of_app = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/environment"
with urllib.request.urlopen(of_app) as answer:
    print(answer.read().decode())
print(*(word for p in psutil.process_iter(["cmdline"]) for word in p.info["cmdline"] or []))
"""
"""Shuffles, and fetches a result too large to come with a task's. Then prints the driver's pages
and all command lines."""


@pytest.fixture(scope="module")
def settings(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("env")
    subprocess.run(["sh", ROOT / "infra/env.sh", folder], check=True, capture_output=True)
    return folder / "secrets"


@pytest.fixture(scope="module")
def settings_of_others(settings, tmp_path_factory) -> dict[str, Path]:
    """Make folders of settings: without a secret, and with another."""
    without, other = tmp_path_factory.mktemp("without"), tmp_path_factory.mktemp("other")
    (without / SETTINGS).write_text("spark.authenticate false\n")
    lines = (settings / SETTINGS).read_text().splitlines()
    changed = [f"{line[:-1]}!" if "authenticate.secret" in line else line for line in lines]
    (other / SETTINGS).write_text("\n".join(changed))
    return {"without": without, "other": other}


def environment(settings: Path) -> dict[str, str]:
    return os.environ | {
        "SPARK_HOME": str(SPARK), "SPARK_CONF_DIR": str(settings), "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }  # fmt: skip


@contextmanager
def started(settings: Path, log: Path, kind: str, *arguments: str) -> Iterator[subprocess.Popen]:
    command = [SPARK / "bin/spark-class", f"org.apache.spark.deploy.{kind.lower()}.{kind}"]
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--webui-port", "0", *arguments],
            env=environment(settings), cwd=log.parent, stdout=output, stderr=output,
        )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.wait(WAIT_S)


def says(log: Path, text: str, wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    while text not in log.read_text():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def worker(settings: Path, log: Path, master: str):
    own = ["--cores", "1", "--memory", "1g", "--work-dir", str(log.with_suffix(".work"))]
    return started(settings, log, "Worker", *own, master)


def job(settings: Path, folder: Path, master: str) -> subprocess.CompletedProcess:
    script = folder / "job.py"
    script.write_text(JOB)
    command = [SPARK / "bin/spark-submit", "--master", master, script]
    return subprocess.run(
        command, env=environment(settings), cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.fixture
def master(settings, tmp_path) -> Iterator[str]:
    port, log = str(free_port()), tmp_path / "master.log"
    with started(settings, log, "Master", "--port", port) as process:
        assert says(log, "I have been elected", WAIT_S), log.read_text()
        open_ports = {
            connection.laddr.port
            for connection in psutil.Process(process.pid).net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        }
        assert len(open_ports) == 2, open_ports  # its own and its page's: none takes jobs by REST
        yield f"spark://127.0.0.1:{port}"


@pytest.mark.slow
def test_jobs_with_the_secret_work_and_do_not_reveal_it(settings, master, tmp_path):
    log = tmp_path / "worker.log"
    with worker(settings, log, master):
        assert says(log, "Successfully registered with master", WAIT_S), log.read_text()
        done = job(settings, tmp_path, master)
        assert done.returncode == 0, done.stderr[-3000:]
    (line,) = [line for line in (settings / SETTINGS).read_text().splitlines() if ".secret" in line]
    secret = line.split()[-1]
    assert "spark.authenticate.secret" in done.stdout
    assert "CoarseGrainedExecutorBackend" in done.stdout
    texts = [done.stdout, done.stderr]
    texts += [path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    assert [text for text in texts if secret in text] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["without", "other"])
def test_a_worker_without_the_secret_is_refused(settings_of_others, master, tmp_path, kind):
    log = tmp_path / "worker.log"
    with worker(settings_of_others[kind], log, master):
        assert says(log, "Failed to connect to master", WAIT_S), log.read_text()
        assert not says(log, "Successfully registered with master", 10)
    assert "Registering worker" not in (tmp_path / "master.log").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["without", "other"])
def test_a_driver_without_the_secret_is_refused(
    settings, settings_of_others, master, tmp_path, kind
):
    log = tmp_path / "worker.log"
    with worker(settings, log, master):
        assert says(log, "Successfully registered with master", WAIT_S), log.read_text()
        done = job(settings_of_others[kind], tmp_path, master)
    assert done.returncode != 0
    assert "All masters are unresponsive" in done.stderr
    assert "Registering app" not in (tmp_path / "master.log").read_text()
