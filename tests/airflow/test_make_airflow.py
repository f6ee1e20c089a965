"""`make airflow` for real: Airflow's own environment, its four processes, the scheduler, and the
shipped captures. Only the pause before a repetition is shorter."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import psutil
import pytest
from conftest import CAPTURES, DAY, NETWORKS_FILE, ROOT, Demo
from playwright.sync_api import Browser, Page, expect

from spark_jobs.figures.tables import MARTS
from spark_jobs.settings.networks import load_networks
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.airflow_program import AIRFLOW, STEPS, rows
from tests.helpers.listening import Seen, watched
from tests.helpers.spark_programs import free_port
from tests.helpers.subscribers_found import Finder, subscribers

pytestmark = pytest.mark.slow
NETWORKS = ["aa-gprs", "bb-gprs", "cc-dialup", "dd-lte"]
RUN = f"scheduled__{DAY}"
DAG = "/api/v2/dags/giscope_daily"
START_S, RUN_S = 120, 1200


def until(true: Callable[[], Any], seconds: float) -> Any:
    """Wait until the function returns something true; return it."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.5)
    return found


@dataclass
class Server:
    """A running Airflow."""

    home: Path
    environment: dict[str, str]
    address: str
    process: subprocess.Popen
    seen: Seen

    def __post_init__(self) -> None:
        kept = self.home / "simple_auth_manager_passwords.json.generated"
        self.password = json.loads(kept.read_text())["admin"]
        user = {"username": "admin", "password": self.password}
        self.token = self.ask("/auth/token", user)["access_token"]

    def ask(self, path: str, body: dict | None = None) -> Any:
        headers = {"Content-Type": "application/json"}
        if body is None:
            headers["Authorization"] = f"Bearer {self.token}"
        data = json.dumps(body).encode() if body else None
        request = Request(self.address + path, data, headers)
        return json.load(build_opener(ProxyHandler({})).open(request, timeout=60))

    def runs(self) -> list[dict]:
        """Return the DAG's runs; none before Airflow has read the DAG."""
        try:
            return self.ask(f"{DAG}/dagRuns")["dag_runs"]
        except HTTPError as error:
            if error.code != HTTPStatus.NOT_FOUND:
                raise
            return []

    def tasks(self) -> list[dict]:
        """Return the task instances of the day's run."""
        return self.ask(f"{DAG}/dagRuns/{RUN}/taskInstances?limit=100")["task_instances"]

    def at_end(self) -> str | None:
        """Return the state of the one run, once it has ended."""
        [run] = self.runs()
        return run["state"] if run["state"] in ("success", "failed") else None


def processes(home: Path) -> list[psutil.Process]:
    """Return all processes that an Airflow started."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("AIRFLOW_HOME") == str(home):
                found.append(process)
        except psutil.Error:
            pass
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("make_airflow")
    port = free_port()
    environment = os.environ | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "1",
    }
    process = subprocess.Popen(
        ["make", "-s", "airflow"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        said = process.stdout.readline()
        assert said.startswith(f"Airflow: http://127.0.0.1:{port},"), said
        with watched(process) as seen:
            yield Server(home, environment, f"http://127.0.0.1:{port}", process, seen)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(120)
        for left in processes(home):
            left.kill()


@pytest.fixture(scope="module")
def killed(server: Server) -> dict:
    """Kill a task's process while it makes flows, and wait for the run's end; return the
    instance."""
    until(lambda: server.runs(), START_S)
    running = until(
        lambda: next(
            (
                task
                for task in server.tasks()
                if task["task_id"].endswith(".flows") and task["state"] == "running"
            ),
            None,
        ),
        RUN_S,
    )
    process = psutil.Process(running["pid"])
    assert running["id"] in " ".join(process.cmdline())
    until(lambda: process.children(), START_S)  # giscope
    process.send_signal(signal.SIGKILL)
    assert until(server.at_end, RUN_S) == "success"
    return running


def test_address_is_printed_once_the_server_answers(server: Server):
    """At once, with no second try."""
    assert server.ask("/api/v2/monitor/health")["metadatabase"]["status"] == "healthy"


def test_demo_runs_to_its_end_and_only_a_killed_task_is_repeated(
    server: Server, killed: dict, whole_demo: Demo
):
    tries = {task["task_id"]: task["try_number"] for task in server.tasks()}
    once = {"maintain", *(f"{network}.{step}" for network in NETWORKS for step in STEPS)}
    assert tries == dict.fromkeys(once, 1) | {killed["task_id"]: 2}
    for log in server.home.glob("output/*.log"):
        assert "Connection refused" not in log.read_text(), log.name
    for table in MARTS:
        assert rows(Warehouse(server.home / "warehouse"), table) == rows(
            whole_demo.warehouse, table
        )


@pytest.mark.usefixtures("killed")
def test_airflow_listens_on_loopback_and_needs_no_java(server: Server):
    assert server.seen.beyond_loopback == set()
    assert server.seen.sockets
    assert "java" not in {program for program, _ in server.seen.sockets}


@pytest.mark.usefixtures("killed")
def test_no_log_has_a_subscriber_or_the_key(server: Server):
    networks = load_networks(NETWORKS_FILE)
    known = set[str]()
    for path in CAPTURES.glob("*/*.pcap*"):
        known |= subscribers(path, networks[path.parent.name])
    finder = Finder(known, bytes.fromhex(server.environment["GISCOPE_KEY"]))
    logs = [server.home / name for name in ("logs", "output")]
    assert [found for folder in logs for found in finder.in_folder(folder)] == []
    assert len(list(logs[0].rglob("*.log"))) > len(NETWORKS) * len(STEPS)
    assert not finder.finds("\n".join(server.seen.commands).encode())


@pytest.fixture
def page(server: Server, browser: Browser) -> Iterator[Page]:
    """Open the page of the day's run, with the grid of its tasks."""
    page = browser.new_page(viewport={"width": 1600, "height": 1000})
    page.goto(server.address)
    page.locator("input[name=username]").fill("admin")
    page.locator("input[type=password]").fill(server.password)
    page.locator("button[type=submit]").click()
    page.wait_for_url("**/")
    page.goto(f"{server.address}/dags/giscope_daily/runs/{RUN}")
    yield page
    page.close()


@pytest.mark.usefixtures("killed")
def test_grid_shows_days_and_networks(server: Server, page: Page):
    assert [run["dag_run_id"] for run in server.runs()] == [RUN]
    for network in NETWORKS:
        expect(page.get_by_text(network, exact=True).first).to_be_visible(timeout=30_000)


@pytest.mark.usefixtures("killed")
def test_backfill_repeats_the_day_and_changes_nothing(server: Server):
    """The command is the one in docs/operations.md."""
    guide = (ROOT / "docs/operations.md").read_text()
    (line,) = re.findall(r"^infra/airflow/airflow (backfill create .*)$", guide, re.MULTILINE)
    [first] = server.runs()
    files = sorted(server.home.glob("warehouse/*/network=*/**/*.parquet"))
    subprocess.run(
        [AIRFLOW, *line.split()], env=server.environment, check=True, capture_output=True
    )
    until(lambda: server.runs()[0]["state"] in ("queued", "running"), START_S)
    assert until(server.at_end, RUN_S) == "success"
    [again] = server.runs()
    assert (again["dag_run_id"], again["run_type"]) == (RUN, "backfill")
    assert again["start_date"] > first["end_date"]
    assert sorted(server.home.glob("warehouse/*/network=*/**/*.parquet")) == files


@pytest.mark.usefixtures("killed")
def test_a_port_in_use_is_reported(server: Server):
    second = subprocess.run(
        ["sh", ROOT / "infra/airflow/start.sh"],
        env=server.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    port = server.environment["AIRFLOW__API__PORT"]
    assert second.returncode == 1
    assert f"port {port} is in use" in second.stderr


@pytest.mark.usefixtures("killed")
def test_a_failed_task_is_found_by_its_network_and_says_why(server: Server, page: Page):
    """A corrupt file comes late. The task has a note, and its log one line of an error."""
    network, day = NETWORKS[2], DAY.isoformat()
    (server.home / "landing" / network / day / "bad.pcap").write_bytes(b"no capture at all")
    command = ["tasks", "clear", "--yes", "--task-regex", f"{network}.", "giscope_daily"]
    subprocess.run([AIRFLOW, *command], env=server.environment, check=True, capture_output=True)
    until(lambda: server.runs()[0]["state"] in ("queued", "running"), START_S)
    assert until(server.at_end, RUN_S) == "failed"
    failed = {t["task_id"]: t for t in server.tasks() if t["state"] != "success"}
    assert {name: task["state"] for name, task in failed.items()} == {
        f"{network}.passed": "failed",
        f"{network}.published": "upstream_failed",
    }
    task = failed[f"{network}.passed"]
    reason = f"{network} {day} is held back: captures not read to their end: {day}/bad.pcap"
    assert task["note"] == f"attempt {task['try_number']} failed: {reason}"
    (log,) = server.home.glob(f"logs/**/task_id={network}.passed/attempt={task['try_number']}.log")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    (error,) = (line for line in lines if line["level"] == "error")
    assert (error["event"], error["exit_code"]) == ("Task exited", reason)
    assert [line for line in lines if "error_detail" in line] == []


@pytest.mark.usefixtures("killed")
def test_what_a_task_withheld_is_in_its_note(server: Server):
    """The files of packets are damaged, and a late file calls for new flows. The task succeeds, so
    that the network's other days go on; the day is held."""
    network = NETWORKS[3]
    tables = [*server.home.glob(f"warehouse/packets/network={network}/**/*.parquet")]
    assert tables
    for table in tables:
        table.write_bytes(bytes(table.stat().st_size))
    landed = server.home / "landing" / network / DAY.isoformat()
    shutil.copy(CAPTURES / NETWORKS[0] / "off-peak.pcap.zst", landed / "late.pcap.zst")
    command = ["tasks", "clear", "--yes", "--task-regex", f"{network}.", "giscope_daily"]
    subprocess.run([AIRFLOW, *command], env=server.environment, check=True, capture_output=True)
    until(lambda: server.runs()[0]["state"] in ("queued", "running"), START_S)
    assert until(server.at_end, RUN_S) == "failed"
    tasks = {task["task_id"]: task for task in server.tasks()}
    flows, passed = tasks[f"{network}.flows"], tasks[f"{network}.passed"]
    assert flows["state"] == "success"
    assert flows["note"].startswith(f"withheld: flows of {network} on {DAY}: ")
    assert passed["state"] == "failed"
    assert f"{network} {DAY} is held back: " in passed["note"]


@pytest.mark.usefixtures("killed")
def test_stopping_airflow_during_a_task_leaves_no_process(server: Server):
    """Tasks end with Airflow, and the commands with them. Last here: it stops the server."""
    command = ["tasks", "clear", "--yes", "--task-regex", "ingest", "giscope_daily"]
    subprocess.run([AIRFLOW, *command], env=server.environment, check=True, capture_output=True)
    until(
        lambda: [p for p in processes(server.home) if "giscope" in p.name()],
        START_S,
    )
    os.killpg(server.process.pid, signal.SIGTERM)
    server.process.wait(120)
    until(lambda: not processes(server.home), 30)
