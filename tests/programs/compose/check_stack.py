"""docker-compose.yml, started for real by `make up`, from a copy of this checkout.

`make compose-test` runs it, not `make test`: it needs root, the registries and half an hour. The
tests run in the order of this file. What runs is one deployment, from the first start to the last.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest
from conftest import CAPTURES, DAY, ROOT, Demo
from playwright.sync_api import Browser

from spark_jobs.figures.tables import MARTS
from tests.helpers import live
from tests.helpers.capture_files import pcap
from tests.helpers.spark_programs import asked
from tests.helpers.superset_server import logged_in, open_page
from tests.programs.compose.engine import engine
from tests.programs.compose.programs import CACHE, install, output_of, run
from tests.programs.compose.stand_ins import make_stand_in, missing_images

PROJECT = "giscope-compose-test"
READY_S = 240
"""Bound of a start from built images, on two cores."""
DAY_S = 1800
PATIENCE_S = 120
OF_ALL = ("--profile", "zeek", "--profile", "object-store")
ONE_SHOT = {"airflow-init", "superset-init", "zeek-init"}
ZEEKS_FOLDER = "/srv/giscope/landing/.zeek"
CAPTURING = {"NET_ADMIN": 12, "NET_RAW": 13}
"""Zeek's capabilities, and their bits."""


@dataclass(frozen=True)
class Stack:
    """The deployment in a copy of the checkout."""

    folder: Path
    ready_s: float

    @property
    def address(self) -> str:
        """Superset's, as `superset_server` uses it."""
        return f"http://{self.compose('port', 'superset', '8088')}"

    def compose(self, *arguments: str, given: str | None = None) -> str:
        """Run docker compose; return what it prints."""
        done = subprocess.run(
            ["docker", "compose", *arguments], cwd=self.folder, input=given, text=True,
            capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{arguments}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout.strip()

    def inside(self, service: str, *command: str, given: str | None = None) -> str:
        """Run a command in a service's container; return what it prints."""
        return self.compose("exec", "-T", service, *command, given=given)

    def up(self, *profiles: str) -> float:
        """Run infra/up.sh, as `make up` does; return the seconds until all services are healthy."""
        started = time.monotonic()
        run("sh", "infra/up.sh", *profiles, folder=self.folder)
        return time.monotonic() - started

    def containers(self) -> dict[str, dict]:
        """Return what docker inspect shows, by service."""
        names = self.compose(*OF_ALL, "ps", "--all", "--quiet").split()
        shown = json.loads(output_of("docker", "inspect", *names))
        return {entry["Config"]["Labels"]["com.docker.compose.service"]: entry for entry in shown}

    def sql(self, query: str) -> list[dict]:
        """Return what `giscope sql` answers in the scheduler's container."""
        where = ["--warehouse", "/srv/giscope/warehouse", "--format", "json"]
        return json.loads(self.inside("airflow-scheduler", "giscope", "sql", *where, query))

    def secret(self, name: str) -> str:
        return (self.folder / "secrets" / name).read_text()

    def set(self, **settings: object) -> None:
        """Write settings into .env, in the place of earlier values."""
        path = self.folder / ".env"
        kept = [s for s in path.read_text().splitlines() if s.split("=")[0] not in settings]
        path.write_text("\n".join([*kept, *(f"{k}={v}" for k, v in settings.items()), ""]))


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def until(met, within_s: float, what: str):
    """Return the first true value of `met()`; fail if there is none in time."""
    deadline = time.monotonic() + within_s
    while not (value := met()):
        assert time.monotonic() < deadline, f"not within {within_s:.0f} s: {what}"
        time.sleep(2)
    return value


def say(text: str) -> None:
    print(f"\n    {text}", flush=True)


@pytest.fixture(scope="session")
def absent() -> Iterator[set[str]]:
    """Start an engine and make stand-ins; yield the official images of which there is neither."""
    with engine() as described:
        say(f"engine: {described}")
        missing = missing_images()
        lacking = {name for name, tag in missing.items() if not make_stand_in(name, tag)}
        say(f"stand-ins: {', '.join(sorted(set(missing) - lacking)) or 'none'}")
        yield lacking


@pytest.fixture(scope="session")
def stack(absent: set[str], whole_demo: Demo) -> Iterator[Stack]:
    """The deployment after `make up`, with the tests' key of the pseudonyms."""
    folder = CACHE / "checkout"
    shutil.rmtree(folder, ignore_errors=True)
    for name in output_of("git", "ls-files", "--cached", "--others", "--exclude-standard").split(
        "\n"
    ):
        if not name.startswith(("tests/", "docs/")) and Path(name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(name, folder / name)
    (folder / "secrets").mkdir(mode=0o700)
    (folder / "secrets/giscope_key").write_text(os.environ["GISCOPE_KEY"])
    (folder / "secrets/giscope_key").chmod(0o444)
    run("sh", "infra/env.sh", folder=folder)
    os.environ["COMPOSE_PROJECT_NAME"] = PROJECT
    made = Stack(folder, 0)
    ports = ("AIRFLOW_PORT", "SUPERSET_PORT", "SPARK_UI_PORT", "SPARK_THRIFT_PORT")
    made.set(
        GISCOPE_FIRST_DAY=DAY, GISCOPE_LAST_DAY=DAY, GISCOPE_LOOK_SECONDS=10,
        SPARK_WORKER_CORES=2, **{name: free_port() for name in ports},
    )  # fmt: skip
    made.compose(*OF_ALL, "down", "--volumes")  # of a test that was interrupted
    started = time.monotonic()
    for service in ("spark-master", "airflow-init", "superset-init"):  # in the order of infra/up.sh
        made.compose("build", service)
    made.compose(*(OF_ALL if "zeek" not in absent else OF_ALL[2:]), "build")
    say(f"images built in {time.monotonic() - started:.0f} s")
    try:
        yield Stack(folder, made.up())
    finally:
        made.compose(*OF_ALL, "down", "--volumes", "--timeout", "30")


@pytest.fixture(scope="session")
def chromium() -> None:
    install("chromium")


@pytest.fixture(scope="module")
def browser(chromium: None, browser: Browser) -> Browser:
    """The tests' browser, installed first."""
    return browser


def land_and_wait(stack: Stack, folder: Path) -> None:
    """Land the demo's captures, and wait until the DAG's run has ended well."""
    run("sh", ROOT / "infra/airflow/demo.sh", folder)
    run("sh", "infra/land.sh", folder, folder=stack.folder)
    started = time.monotonic()
    states = until(lambda: ended_runs(stack), DAY_S, "the run of the day has ended")
    assert states == [(f"scheduled__{DAY}", "success")]
    say(f"from the captures to the published day: {time.monotonic() - started:.0f} s")


def ended_runs(stack: Stack) -> list[tuple[str, str]]:
    listed = stack.inside(
        "airflow-scheduler", "airflow", "dags", "list-runs", "giscope_daily", "--output", "json"
    )
    runs = json.loads(listed[listed.index("[{") :]) if "[{" in listed else []
    found = [(entry["run_id"], entry["state"]) for entry in runs]
    return found if found and not {"queued", "running"} & {state for _, state in found} else []


def test_it_is_ready_within_four_minutes(stack):
    say(f"ready {stack.ready_s:.0f} s after make up, from built images")
    assert stack.ready_s < READY_S
    for service, container in stack.containers().items():
        state = container["State"]
        if service in ONE_SHOT:
            assert (state["Status"], state["ExitCode"]) == ("exited", 0), service
        else:
            assert state["Health"]["Status"] == "healthy", service


def confined(stack: Stack, service: str, container: dict, capabilities: int) -> None:
    """Assert that a running container is confined as the file says: as the kernel has it."""
    assert container["HostConfig"]["Memory"] > 0, service
    pid = container["State"]["Pid"]
    status = dict(
        line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == capabilities, service
    assert status["NoNewPrivs"] == "1", service
    assert (status["Uid"].split()[0] == "0") == (service == "zeek"), service
    mounts = [line.split() for line in Path(f"/proc/{pid}/mounts").read_text().splitlines()]
    (root,) = [options for _, place, _, options, *_ in mounts if place == "/"]
    assert "ro" in root.split(","), service
    written = {
        place
        for _, place, kind, options, *_ in mounts
        if kind in ("ext4", "xfs", "btrfs", "overlay") and options.startswith("rw")
    }
    named = {mount["Destination"] for mount in container["Mounts"] if mount["Type"] == "volume"}
    assert written <= named | {"/etc/resolv.conf", "/etc/hostname", "/etc/hosts"}, service


def running(stack: Stack) -> dict[str, dict]:
    return {name: c for name, c in stack.containers().items() if c["State"]["Running"]}


def test_containers_have_no_capability_and_write_to_volumes_only(stack):
    for service, container in running(stack).items():
        confined(stack, service, container, 0)


def test_ports_are_open_on_loopback_only(stack):
    bound = [
        binding["HostIp"]
        for container in stack.containers().values()
        for bindings in (container["NetworkSettings"]["Ports"] or {}).values()
        for binding in bindings or ()
    ]
    assert bound == ["127.0.0.1"] * 4


def test_services_reach_only_those_that_they_use(stack):
    """A name of another network leads nowhere."""

    def reaches(service: str, host: str, port: int) -> bool:
        code = f"import socket; socket.create_connection(({host!r}, {port}), 3)"
        done = subprocess.run(
            ["docker", "compose", "exec", "-T", service, "python", "-c", code],
            cwd=stack.folder, capture_output=True, check=False,
        )  # fmt: skip
        return done.returncode == 0

    assert reaches("superset", "postgres", 5432)
    assert reaches("airflow-scheduler", "worker.spark", 8081)
    assert not reaches("superset", "spark-master", 7077)
    assert not reaches("spark-worker", "postgres", 5432)
    assert not reaches("airflow-triggerer", "spark-master", 7077)


def test_a_day_goes_from_the_captures_to_the_marts(stack, tmp_path):
    land_and_wait(stack, tmp_path)
    published = stack.sql("select distinct network from flows order by all")
    assert [row["network"] for row in published] == sorted(p.name for p in CAPTURES.iterdir())


def sql_here(whole_demo: Demo, query: str) -> str:
    """Return what `giscope sql` prints for the demo, in JSON."""
    program = Path(sys.executable).with_name("giscope")
    where = ("--warehouse", whole_demo.warehouse.root, "--format", "json")
    return output_of(program, "sql", *where, query)


def keys_and_sums(rows: list[dict]) -> tuple[list[str], list[float]]:
    """Return all values but floats, as sorted text, and the floats of the rows in this order."""
    parts = [
        (
            json.dumps({k: v for k, v in row.items() if not isinstance(v, float)}, sort_keys=True),
            [v for _, v in sorted(row.items()) if isinstance(v, float)],
        )
        for row in rows
    ]
    parts.sort()
    return [keys for keys, _ in parts], [value for _, sums in parts for value in sums]


def test_marts_equal_those_of_the_command_line(stack, whole_demo):
    compared = 0
    for mart in MARTS:
        query = f"select * from {mart.name}"
        here, there = json.loads(sql_here(whole_demo, query)), stack.sql(query)
        (keys, sums), (keys_here, sums_here) = keys_and_sums(there), keys_and_sums(here)
        assert keys == keys_here, mart.name
        assert sums == pytest.approx(sums_here, rel=1e-9), mart.name
        compared += len(there)
    assert compared
    say(f"{compared} rows of {len(MARTS)} marts are equal")


def test_every_dataset_of_superset_has_rows(stack, browser):
    empty, datasets = [], []
    with logged_in(stack, browser, "admin", stack.secret("superset_admin_password")) as admin:
        listed = admin.get("/api/v1/dataset/?q=(page_size:100)").json()["result"]
        for dataset in listed:
            query = {"metrics": ["count"], "columns": [], "row_limit": 1}
            query["metrics"] = [
                {"expressionType": "SQL", "sqlExpression": "count(*)", "label": "n"}
            ]
            answer = admin.post(
                "/api/v1/chart/data",
                data={
                    "datasource": {"id": dataset["id"], "type": "table"}, "queries": [query],
                    "result_format": "json", "result_type": "full",
                },
            )  # fmt: skip
            assert answer.status == 200, (dataset["table_name"], answer.text()[:500])
            (row,) = answer.json()["result"][0]["data"]
            datasets.append(dataset["table_name"])
            empty += [dataset["table_name"]] if not row["n"] else []
    say(f"{len(datasets)} datasets")
    assert datasets
    assert empty == []


def test_a_dashboard_is_drawn(stack, browser):
    page = open_page(stack, browser, "admin", stack.secret("superset_admin_password"), 2000)
    page.goto(f"{stack.address}/superset/dashboard/giscope/")
    page.wait_for_selector(".slice_container")
    page.wait_for_load_state("networkidle")
    page.wait_for_selector(".loading", state="detached")
    picture = CACHE / "peak.png"
    page.screenshot(path=picture)
    text = page.locator(".grid-container").inner_text()
    say(f"picture: {picture}")
    for sign in ("Error", "error", "No data", "No results", "NaN"):
        assert sign not in text, sign


def test_beeline_counts_the_flows_that_the_command_line_counts(stack):
    port = int(stack.compose("port", "spark-thrift", "10000").split(":")[1])
    (row,) = stack.sql("select count(*) as n from flows")
    assert row["n"] > 0
    assert asked(port, "select count(*) from flows") == str(row["n"])
    say(f"{row['n']} flows")


def secrets_in(stack: Stack, text: str) -> list[str]:
    """Return the names of the secrets that a text contains."""
    found = []
    for path in (stack.folder / "secrets").iterdir():
        values = [word for word in path.read_text().split() if len(word) >= 40]
        found += [path.name for value in values if value in text]
    return found


def spark_pages(stack: Stack) -> str:
    """Return the pages of Spark's master, and of its applications and workers behind it."""
    address = f"http://{stack.compose('port', 'spark-master', '8080')}"
    pages = [urlopen(f"{address}{path}", timeout=30).read().decode() for path in ("/", "/json/")]
    for application in set(re.findall(r"app-\d+-\d+", pages[0])):
        pages.append(urlopen(f"{address}/app/?appId={application}", timeout=30).read().decode())
    return "".join(pages)


def test_no_secret_is_shown_anywhere(stack):
    """In logs, arguments, inspect, Spark's pages, images' histories, settings, Airflow's logs."""
    task_logs = "find /srv/giscope/airflow/logs -type f -exec cat {} +"
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    images = {container["Config"]["Image"] for container in stack.containers().values()}
    places = {
        "logs": stack.compose(*OF_ALL, "logs"),
        "arguments": b"\n".join(commands).decode(errors="replace"),
        "inspect": json.dumps(stack.containers()),
        "Spark's pages": spark_pages(stack),
        "histories": "".join(output_of("docker", "history", "--no-trunc", i) for i in images),
        "settings": stack.compose(*OF_ALL, "config"),
        "logs of tasks": stack.inside("airflow-scheduler", "sh", "-c", task_logs),
    }
    assert {
        place: found for place, text in places.items() if (found := secrets_in(stack, text))
    } == {}
    assert all(len(text) > 100 for text in places.values())


def test_no_log_has_a_traceback(stack):
    logs = stack.compose(*OF_ALL, "logs", "--no-color")
    assert [
        line for line in logs.splitlines() if re.search("Traceback|Exception in thread", line)
    ] == []
    sizes = {
        c["HostConfig"]["LogConfig"]["Config"]["max-size"] for c in stack.containers().values()
    }
    assert sizes == {"10m"}


def test_a_changed_networks_file_reaches_airflow(stack):
    before = stack.containers()
    with (stack.folder / "infra/networks.toml").open("a") as networks:
        networks.write("# changed\n")
    stack.up()
    after = stack.containers()
    changed = {name for name in before if before[name]["Id"] != after[name]["Id"]}
    assert changed == {"airflow-dag-processor", "airflow-scheduler"}, changed
    for service in changed:
        last = stack.inside(service, "tail", "-n", "1", "/srv/giscope/networks.toml")
        assert last == "# changed", service


def test_a_start_without_changes_is_quick_and_loses_nothing(stack):
    count = "select count(*) as n, sum(ip_bytes_down) as bytes from flows"
    before = stack.sql(count)
    stack.compose(*OF_ALL, "down")
    took = stack.up()
    assert stack.sql(count) == before
    assert "up to date" in stack.compose("logs", "superset-init")
    say(f"started again in {took:.0f} s")


def test_a_range_of_days_that_is_too_long_is_refused_in_one_line(stack):
    first = stack.folder / ".env"
    kept = first.read_text()
    try:
        stack.set(GISCOPE_FIRST_DAY="2004-03-02", GISCOPE_LAST_DAY="")
        done = subprocess.run(
            ["sh", "infra/up.sh"], cwd=stack.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert "GISCOPE_LAST_DAY" in done.stderr
    finally:
        first.write_text(kept)
    stack.up()


@pytest.fixture
def link(stack: Stack, absent: set[str]) -> Iterator[tuple[str, str]]:
    """Yield two ends of a cable. Zeek stops before they go: it would start again and again."""
    if "zeek" in absent:
        pytest.skip("no image zeek/zeek:8.0.8 could be pulled, and there is no other Zeek")
    install("iproute2", "tcpreplay")
    ends = ("giscope-a", "giscope-b")
    run("ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
    for end in ends:
        run("sysctl", "-qw", f"net.ipv6.conf.{end}.disable_ipv6=1")
        run("ip", "link", "set", end, "mtu", "9000", "up")
    yield ends
    say(stack.compose("--profile", "zeek", "logs", "--no-log-prefix", "--tail", "3", "zeek"))
    stack.compose("--profile", "zeek", "stop", "zeek")
    run("ip", "link", "delete", ends[0])


def test_zeek_captures_from_an_interface_into_the_landing_folder(stack, link, tmp_path):
    capture = tmp_path / "peak.pcap"
    capture.write_bytes(pcap(live.recorded()[:20_000], live.ETHERNET))
    stack.inside("airflow-scheduler", "mkdir", "-p", "/srv/giscope/landing/aa-gprs")
    stack.set(ZEEK_INTERFACE=link[1], ZEEK_NETWORK="aa-gprs")
    stack.compose("--profile", "zeek", "up", "--detach", "zeek")
    zeeks_folder = Path(output_of("docker", "volume", "inspect", "--format", "{{.Mountpoint}}",
                                  f"{PROJECT}_landing")) / ".zeek"  # fmt: skip

    def seen() -> bool:
        run("tcpreplay", "--quiet", "--topspeed", "--intf1", link[0], capture)
        return bool(list(zeeks_folder.glob("giscope_packets*.log")))

    until(seen, PATIENCE_S, "Zeek writes packets")
    container = stack.containers()["zeek"]
    confined(stack, "zeek", container, sum(1 << bit for bit in CAPTURING.values()))
    networks = stack.folder / "infra/networks.toml"
    prefixes = '["10.64.0.0/14"]'
    networks.write_text(networks.read_text().replace(prefixes, '["10.64.0.0/14", "10.80.0.0/16"]'))
    stack.compose("--profile", "zeek", "up", "--detach", "zeek")
    # Not by a command in Zeek's container: it may be between its end and its next start.
    assert "10.80.0.0/16" in stack.inside(
        "airflow-scheduler", "cat", f"{ZEEKS_FOLDER}/subscribers.zeek"
    )
    until(lambda: stack.containers()["zeek"]["RestartCount"], PATIENCE_S, "Zeek starts anew")
    until(seen, PATIENCE_S, "Zeek writes packets again")
    assert stack.containers()["zeek"]["RestartCount"] == 1
    stack.compose("--profile", "zeek", "stop", "zeek")
    landed = stack.inside(
        "airflow-scheduler", "sh", "-c", "ls -d /srv/giscope/landing/aa-gprs/20[2-9]*/*packets*"
    ).split()
    assert len(landed) >= 2
    day = Path(landed[0]).parent
    stack.inside("airflow-scheduler", "touch", f"{day}/_COMPLETE")
    where = ["--warehouse", "/srv/giscope/warehouse", "--networks", "/srv/giscope/networks.toml"]
    stack.inside("airflow-scheduler", "giscope", "ingest", *where, "--network", "aa-gprs", str(day))
    say(f"Zeek landed {len(landed)} files in {day}; giscope ingest reads them")


def test_a_warehouse_in_the_object_store(stack, whole_demo, tmp_path):
    stack.compose(*OF_ALL, "down", "--volumes")
    place = "s3://giscope/warehouse"
    stack.set(GISCOPE_WAREHOUSE=place)
    stack.up("--profile", "object-store")
    confined(stack, "object-store", stack.containers()["object-store"], 0)
    land_and_wait(stack, tmp_path)
    totals = "count(*) as n, sum(ip_bytes_down) as bytes"
    query = f"select network, {totals} from flows group by 1 order by 1"
    command = ["giscope", "sql", "--warehouse", place, "--format", "json", query]
    assert stack.inside("airflow-scheduler", *command) == sql_here(whole_demo, query)


def test_nothing_is_left_after_down_with_volumes(stack):
    stack.compose(*OF_ALL, "down", "--volumes")
    label = f"label=com.docker.compose.project={PROJECT}"
    for kind in ("container", "network", "volume"):
        options = ["--all"] if kind == "container" else []
        assert output_of("docker", kind, "ls", "--quiet", *options, "--filter", label) == ""
