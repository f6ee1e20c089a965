"""spark-submit with a Kubernetes master, as infra/kubernetes sets it up: its pods, and their work.

Kubernetes' API is simulated: it stores what Spark makes and starts each pod's command as a process.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

from tests.helpers.spark_programs import SPARK, WAIT_S
from tests.programs.kubernetes_check import INFRA, load, weaknesses

DRIVER = "airflow-scheduler-1"
JOB = """
import os
from pyspark.sql import SparkSession
context = SparkSession.builder.getOrCreate().sparkContext
pairs = context.parallelize(range(1000), 4).map(lambda n: (n % 10, 2 * n))
assert sum(value for _, value in pairs.reduceByKey(lambda a, b: a + b).collect()) == 999_000
executors = context.parallelize(range(8), 8).map(lambda _: os.environ["GISCOPE_KEY_FILE"])
print(set(executors.collect()))
"""
SMALL = """
spark.executor.cores 1
spark.executor.memory 600m
spark.executor.memoryOverhead 400m
spark.kubernetes.executor.enableApiWatcher false
spark.kubernetes.executor.apiPollingInterval 1s
"""
"""Settings for this machine. The simulated API cannot be watched; Spark asks it each second."""
VERBS = {
    "GET": ("list", "get"),
    "POST": ("create", "create"),
    "PATCH": ("patch", "patch"),
    "DELETE": ("deletecollection", "delete"),
}
"""Kubernetes' verbs by HTTP method: for all objects of a kind, and for one."""
pytestmark = pytest.mark.slow  # Spark and its executors start


class Cluster(ThreadingHTTPServer):
    """A simulated Kubernetes API, and a node whose pods are processes."""

    def __init__(self, folder: Path, places: dict[str, Path]) -> None:
        super().__init__(("127.0.0.1", 0), Requests)
        self.folder, self.places = folder, places
        self.asked: set[tuple[str, str]] = set()
        self.bodies: list[str] = []
        self.pods: list[dict] = []
        self.processes: list[subprocess.Popen] = []

    def here(self, text: str) -> str:
        """Return a text with the paths of an image and its volumes replaced by those here."""
        for there, place in self.places.items():
            text = text.replace(there, str(place))
        return text

    def start(self, pod: dict) -> None:
        """Start a pod's command."""
        (container,) = pod["spec"]["containers"]
        fields = {"status.podIP": "127.0.0.1", "metadata.name": pod["metadata"]["name"]}
        environment = {"SPARK_HOME": str(SPARK), "PATH": os.environ["PATH"]}
        for entry in container["env"]:
            value = entry.get("value") or fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
            environment[entry["name"]] = self.here(value)
        command = [self.here(word) for word in container["command"] + container["args"]]
        if not shutil.which(command[0]):  # tini
            del command[:2]
        with (self.folder / f"{pod['metadata']['name']}.log").open("w") as log:
            self.processes.append(
                subprocess.Popen(command, env=environment, cwd=self.folder, stdout=log, stderr=log)
            )


class Requests(BaseHTTPRequestHandler):
    """Answers of the simulated API."""

    server: Cluster
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Write nothing."""

    def answer(self, what: dict, status: int = 200) -> None:
        """Send an object."""
        body = json.dumps({"apiVersion": "v1", **what}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def read(self) -> Any:
        """Return the request's object, and note what was asked."""
        kind, name = re.search(r"/namespaces/giscope/(\w+)/?([\w.-]*)", self.path).groups()
        self.server.asked.add((kind, VERBS[self.command][bool(name)]))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self.server.bodies.append(body)
        return json.loads(body or "{}")

    def do_GET(self) -> None:
        self.read()
        driver = {"name": DRIVER, "namespace": "giscope", "uid": "1"}
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        if DRIVER in self.path:
            self.answer({"kind": "Pod", "metadata": driver, "spec": {}, "status": ready})
        else:
            self.answer({"kind": "PodList", "metadata": {}, "items": self.server.pods})

    def do_POST(self) -> None:
        made = self.read()
        made["metadata"] |= {"uid": "2", "creationTimestamp": "2026-01-01T00:00:00Z"}
        if made["kind"] == "Pod":
            self.server.pods.append(made | {"status": {"phase": "Running"}})
            self.server.start(made)
        self.answer(made, 201)

    def do_DELETE(self) -> None:
        self.read()
        self.answer({"kind": "Status", "status": "Success"})

    def do_PATCH(self) -> None:
        self.read()
        self.answer(self.server.pods[0])


def made_secrets(folder: Path) -> Path:
    subprocess.run(["sh", ROOT / "infra/env.sh", folder], check=True, capture_output=True)
    return folder / "secrets"


@pytest.fixture
def secrets(tmp_path) -> Path:
    return made_secrets(tmp_path / "env")


@contextmanager
def submitted(
    folder: Path, secrets: Path, of_executors: Path
) -> Iterator[tuple[Cluster, subprocess.Popen]]:
    """Run JOB as the scheduler's pod does; at the end stop everything that was started."""
    places = {str(secrets): of_executors, "/opt/giscope": ROOT, "/var/data": folder}
    cluster = Cluster(folder, places)
    threading.Thread(target=cluster.serve_forever, daemon=True).start()
    text = (INFRA / "spark-defaults.conf").read_text() + SMALL
    template = (INFRA / "executor.yaml").read_text()
    for name, content in (("spark-defaults.conf", text), ("executor.yaml", template)):
        content = content.replace("/etc/giscope/spark", str(folder))
        (folder / name).write_text(content.replace("/run/secrets", str(secrets)))
    (folder / "job.py").write_text(JOB)
    environment = os.environ | {
        "SPARK_HOME": str(SPARK), "SPARK_CONF_DIR": str(folder), "POD_NAME": DRIVER,
        "SPARK_LOCAL_HOSTNAME": "127.0.0.1", "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }  # fmt: skip
    master = f"k8s://http://127.0.0.1:{cluster.server_port}"
    with (folder / "driver.log").open("w") as log:
        driver = subprocess.Popen(
            [SPARK / "bin/spark-submit", "--master", master, folder / "job.py"],
            env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
    try:
        yield cluster, driver
    finally:
        for process in (driver, *cluster.processes):
            process.terminate()
            process.wait(WAIT_S)
        cluster.shutdown()


def test_executors_work_by_the_rules(secrets, tmp_path):
    with submitted(tmp_path, secrets, secrets) as (cluster, driver):
        output, _ = driver.communicate(timeout=WAIT_S)
        assert driver.returncode == 0, (tmp_path / "driver.log").read_text()
        assert f"{secrets}/giscope_key" in output
    assert len(cluster.pods) == 2
    for pod in cluster.pods:
        assert list(weaknesses(pod["spec"])) == []
        assert pod["metadata"]["ownerReferences"][0]["name"] == DRIVER
        assert pod["metadata"]["labels"]["component"] == "spark-executor"
    sent = "\n".join(cluster.bodies)
    for file in secrets.iterdir():
        assert [word for word in file.read_text().split() if len(word) > 40 and word in sent] == []
    assert base64.b64encode((secrets / "spark-defaults.conf").read_bytes()).decode() not in sent
    (role,) = [m for m in load((INFRA / "giscope.yaml").read_text()) if m["kind"] == "Role"]
    allowed = {
        (resource, verb)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert {("pods", "create"), ("configmaps", "create")} <= cluster.asked <= allowed


def test_executors_with_another_secret_are_refused(secrets, tmp_path):
    other = made_secrets(tmp_path / "other")
    with submitted(tmp_path, secrets, other) as (cluster, driver):
        deadline = time.monotonic() + WAIT_S
        while not cluster.processes and time.monotonic() < deadline:
            time.sleep(0.2)
        (executor, *_) = cluster.processes
        assert executor.wait(WAIT_S) != 0
        assert driver.poll() is None
        log = (tmp_path / f"{cluster.pods[0]['metadata']['name']}.log").read_text()
    assert "Exception while bootstrapping client" in log
