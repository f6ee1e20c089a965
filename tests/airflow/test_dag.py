"""The daily DAG as `airflow dags test` runs it: real tasks in Airflow's own environment, and the
shipped captures. There is no scheduler: test_make_airflow.py has one."""

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from zoneinfo import ZoneInfo

import pytest
import zstandard
from conftest import CAPTURES, DAY, FEW, ROOT, Demo

from spark_jobs.figures.tables import MARTS
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.airflow_program import AIRFLOW, STEPS, query, rows
from tests.helpers.live import between
from tests.programs.many_days import moved, parts

NETWORK = """[[network]]
name = "{}"
country = "AA"
access = "gprs"
timezone = "{}"
subscribers = ["10.64.0.0/14"]
"""
BUDAPEST = NETWORK.format("aa-gprs", "Europe/Budapest")
SPARK = {"AIRFLOW_CONN_GISCOPE_SPARK": '{"conn_type": "spark", "host": "local[*]"}'}
"""Settings with which Airflow's tasks use spark-submit."""


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess]:
    """Run the airflow command with metadata of its own."""
    home = tmp_path_factory.mktemp("airflow")
    environment = os.environ | {
        "AIRFLOW_HOME": str(home),
        "GISCOPE_LANDING": str(home / "landing"),
        "GISCOPE_WAREHOUSE": str(home / "warehouse"),
        "GISCOPE_FIRST_DAY": "2004-01-01",
        "GISCOPE_LAST_DAY": "2004-12-31",
        "GISCOPE_WAIT_MINUTES": "0.05",
        "GISCOPE_LOOK_SECONDS": "1",
        "AIRFLOW__CORE__DEFAULT_TASK_RETRIES": "0",
    }
    subprocess.run(["sh", ROOT / "infra/airflow/setup.sh"], env=environment, check=True)

    def run(*args: str, **variables: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [str(AIRFLOW), *args],
            env=environment | variables,
            capture_output=True,
            text=True,
            check=False,
        )

    run.home = home  # type: ignore[attr-defined]
    return run


@pytest.mark.slow
def test_dag_loads_with_all_its_steps(airflow):
    listed = airflow("tasks", "list", "giscope_daily")
    assert listed.returncode == 0, listed.stdout
    networks = ("aa-gprs", "bb-gprs", "cc-dialup", "dd-lte")
    tasks = {f"{network}.{step}" for network in networks for step in STEPS}
    assert set(listed.stdout.split()) == {"maintain", *tasks}


def error_lines(run: subprocess.CompletedProcess) -> list[str]:
    """Return the errors that tasks logged, without time and place; assert: no traceback."""
    assert "Traceback" not in run.stdout + run.stderr
    said = (line.partition("[error    ] ")[2] for line in run.stdout.splitlines())
    return [line.partition(" loc=")[0] for line in said if line]


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, SPARK], ids=["processes", "spark"])
def test_a_failed_command_is_one_line(airflow, tmp_path, settings):
    """The networks file has a mistake, which `ingest` reports. A network's name may have a dot."""
    file, landing = tmp_path / "networks.toml", tmp_path / "landing"
    file.write_text(BUDAPEST.replace("aa-gprs", "aa.gprs") + "peak_hour = 11\n")
    land(landing, "aa-gprs", ["peak"])
    (landing / "aa-gprs").rename(landing / "aa.gprs")
    variables = settings | {
        "GISCOPE_NETWORKS": str(file),
        "GISCOPE_LANDING": str(landing),
        "GISCOPE_WAREHOUSE": str(tmp_path / "warehouse"),
    }
    command = ("dags", "test", "giscope_daily", DAY.isoformat())
    done = airflow(*command, **variables)
    assert done.returncode != 0
    (line,) = error_lines(done)
    assert line.startswith("Task exited")
    assert f"exit_code='{file}: network aa.gprs: peak_hour: " in line
    assert "aa-dot-gprs.ingest" in done.stdout


@pytest.fixture
def webhook() -> Iterator[HTTPServer]:
    """Start a server on this machine that keeps what is posted to it in `messages`."""

    class Keep(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.server.messages.append(
                json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            )
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Keep) as server:
        server.messages = []
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def land(landing: Path, network: str, names: list[str], marker: str = "") -> Path:
    """Put capture files of the demo into the day's landing folder."""
    folder = landing / network / DAY.isoformat()
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copy(CAPTURES / network / f"{name}.pcap.zst", folder)
    (folder / "_COMPLETE").write_text(marker)
    return folder


@pytest.mark.slow
def test_bad_day_is_held_and_reported_then_corrected_and_published(
    airflow, whole_demo: Demo, webhook
):
    """One network with a corrupt file, one with a missing file, two good; all corrected; a third
    run. A webhook on this machine gets a message from Airflow's callback, for the held day only."""
    home = airflow.home
    posted = {"config": {"path": f"json://127.0.0.1:{webhook.server_port}"}}
    alerts = json.dumps({"conn_type": "apprise", "extra": posted})
    warehouse = Warehouse(home / "warehouse")
    corrupt = land(home / "landing", "aa-gprs", ["peak"]) / "off-peak.pcap.zst"
    corrupt.write_bytes(b"no capture at all")
    land(home / "landing", "bb-gprs", ["peak"])
    land(home / "landing", "dd-lte", ["peak"])
    land(home / "landing", "cc-dialup", [], "peak.pcap.zst\n")

    def run() -> subprocess.CompletedProcess:
        command = ("dags", "test", "giscope_daily", DAY.isoformat())
        return airflow(*command, AIRFLOW_CONN_GISCOPE_ALERTS=alerts)

    first = run()
    assert first.returncode != 0
    assert sorted(error_lines(first)) == [
        f"Task exited                    [task] exit_code='{reason}'"
        for reason in (
            f"aa-gprs {DAY} is held back: captures not read to their end: {DAY}/off-peak.pcap",
            f"waited 0:00:03: {home}/landing/cc-dialup/{DAY}: files of _COMPLETE are missing: "
            "peak.pcap.zst",
        )
    ]
    [held] = query(warehouse, "select distinct network, finding from quality where not passed")
    assert held[0] == "aa-gprs"
    assert "off-peak.pcap" in held[1]
    by_title = {message["title"]: message["message"] for message in webhook.messages}
    absent = f"giscope: cc-dialup {DAY} is not published"
    assert len(webhook.messages) == len(by_title) == 2
    assert by_title["giscope: aa-gprs is held back"] == (
        f"giscope: aa-gprs {DAY} is held back: {held[1]}"
    )
    assert by_title[absent].startswith(f"{absent}: the task cc-dialup.complete failed: waited ")
    assert by_title[absent].endswith("files of _COMPLETE are missing: peak.pcap.zst")
    messages = [*webhook.messages]
    assert query(warehouse, "select distinct network from flows order by all") == [
        ("aa-gprs",), ("bb-gprs",), ("dd-lte",),
    ]  # fmt: skip
    assert query(warehouse, "select distinct network from table1_summary order by all") == [
        ("bb-gprs",), ("dd-lte",),
    ]  # fmt: skip

    land(home / "landing", "aa-gprs", ["off-peak", "peak"])
    land(home / "landing", "cc-dialup", ["peak"], "peak.pcap.zst\n")
    second = run()
    assert second.returncode == 0, second.stdout[-3000:]
    for table in MARTS:
        assert rows(warehouse, table) == rows(whole_demo.warehouse, table), table.name
    assert query(warehouse, "from quality where not passed") == []

    files = sorted(home.glob("warehouse/*/network=*/**/*.parquet"))
    third = run()
    assert third.returncode == 0, third.stdout[-3000:]
    assert sorted(home.glob("warehouse/*/network=*/**/*.parquet")) == files
    assert webhook.messages == messages


def land_later(
    landing: Path, network: str, begins: datetime, files: int = 1, packets: int | None = None
) -> None:
    """Put the first packets of the peak hours of aa-gprs, moved from 10:30 UTC to another time and
    cut into files, into the folder of that day."""
    with (CAPTURES / "aa-gprs/peak.pcap.zst").open("rb") as file:
        capture = zstandard.ZstdDecompressor().stream_reader(file).read()
    folder = landing / network / begins.date().isoformat()
    folder.mkdir(parents=True)
    later = begins - datetime.combine(DAY, time(10, 30))
    for number, part in enumerate(parts(moved(capture, later, packets), files)):
        (folder / f"{number:03d}.pcap").write_bytes(part)
    (folder / "_COMPLETE").touch()


@pytest.mark.slow
def test_days_of_two_time_zones_with_a_late_file(airflow, demo: Demo, tmp_path):
    """Budapest and Auckland, twelve hours apart, have their peak hours on one UTC day. On the next
    Auckland's captures are missing; a file of Budapest's first day comes with the second's, and
    leaves the day two before as it was."""
    file, landing, home = tmp_path / "networks.toml", tmp_path / "landing", tmp_path / "warehouse"
    file.write_text(BUDAPEST + NETWORK.format("nz", "Pacific/Auckland"))
    variables = {
        "GISCOPE_NETWORKS": str(file),
        "GISCOPE_LANDING": str(landing),
        "GISCOPE_WAREHOUSE": str(home),
    }
    warehouse = Warehouse(home)

    def run(day: date) -> int:
        return airflow("dags", "test", "giscope_daily", day.isoformat(), **variables).returncode

    def files(day: date) -> set[Path]:
        return set(home.glob(f"*/network=aa-gprs/date={day}/*.parquet"))

    peak = datetime.combine(DAY, time(10, 30))
    land(landing, "aa-gprs", ["peak"])
    land_later(landing, "aa-gprs", peak - timedelta(days=2))
    land_later(landing, "nz", peak + timedelta(hours=12))
    assert run(DAY) == 0
    hours = query(
        warehouse,
        "select network, date, hour, period, sum(flows) flows from table1_summary group by all",
    )
    [(_, _, _, _, flows)] = query(
        demo.warehouse,
        "select network, date, hour, period, sum(flows) from table1_summary "
        "where network = 'aa-gprs' and period = 'peak' group by all",
    )
    before, after = DAY - timedelta(days=2), DAY + timedelta(days=1)
    assert sorted(hours) == [
        ("aa-gprs", before, 11, "peak", flows),
        ("aa-gprs", DAY, 11, "peak", flows),
        ("nz", DAY, 11, "peak", flows),
    ]

    untouched = files(before)
    land(landing, "aa-gprs", ["off-peak"])
    land_later(landing, "aa-gprs", peak + timedelta(days=1))
    assert run(after) != 0  # Auckland's captures are missing
    for table in MARTS:
        of_day = f"network = 'aa-gprs' and date = '{DAY}'"
        assert rows(warehouse, table, of_day) == rows(demo.warehouse, table, of_day), table.name
    assert query(warehouse, "select distinct network, date from table1_summary order by all") == [
        ("aa-gprs", before), ("aa-gprs", DAY), ("aa-gprs", after), ("nz", DAY),
    ]  # fmt: skip
    assert files(before) == untouched


@pytest.mark.slow
def test_five_hundred_files_across_the_change_of_clocks_and_local_midnights(airflow, tmp_path):
    """On 2004-10-31 clocks in Budapest go back at 01:00 UTC, so the hour from 2:00 comes twice. At
    11:00 UTC it is midnight in Tongatapu, at 10:00 in Honolulu. Each network's files are the same
    packets, moved to such a time."""
    day = date(2004, 10, 31)
    zones = {"hu": "Europe/Budapest", "to": "Pacific/Tongatapu", "hi": "Pacific/Honolulu"}
    begins = {"hu": time(0, 59, 30), "to": time(10, 59, 30), "hi": time(9, 59, 30)}
    file, landing = tmp_path / "networks.toml", tmp_path / "landing"
    quality = "quality = {peak_flows = 0}\n"
    file.write_text("".join(NETWORK.format(*names) + quality for names in zones.items()))
    for network, begin in begins.items():
        land_later(landing, network, datetime.combine(day, begin), 170, FEW)
    done = airflow(
        *("dags", "test", "giscope_daily", day.isoformat()),
        TZ="Europe/Budapest",
        GISCOPE_NETWORKS=str(file),
        GISCOPE_LANDING=str(landing),
        GISCOPE_WAREHOUSE=str(tmp_path / "warehouse"),
    )
    assert done.returncode == 0, done.stdout[-3000:]
    warehouse = Warehouse(tmp_path / "warehouse")
    reported = query(
        warehouse,
        "select network, count(*), count(distinct capture), sum(packets), count(error) "
        "from ingest_log group by all order by all",
    )
    assert reported == [(network, 170, 170, FEW, 0) for network in sorted(zones)]
    starts = query(warehouse, "select network, start_ts from flows where initiator = 'mobile'")
    seconds = {
        network: Counter(
            int((start - datetime.combine(day, begin, UTC)).total_seconds())
            for name, start in starts
            if name == network
        )
        for network, begin in begins.items()
    }
    assert seconds["hu"] == seconds["to"] == seconds["hi"]
    expected = Counter(
        (network, day, start.astimezone(ZoneInfo(zones[network])).hour) for network, start in starts
    )
    assert len(expected) == 5  # two hours of two networks, one of Budapest's
    by_hour = query(
        warehouse, "select network, date, hour, sum(flows) from table1_summary group by all"
    )
    assert {row[:3]: row[3] for row in by_hour} == expected


@pytest.mark.slow
def test_held_day_is_reported_once_and_holds_no_other_day(airflow, tmp_path, webhook):
    """Here Spark runs the tasks. The next day's packets end no connection of the day that is held:
    its flows are made anew and come out the same, so it is not checked and reported again."""
    file, landing = tmp_path / "networks.toml", tmp_path / "landing"
    file.write_text(BUDAPEST)
    posted = {"config": {"path": f"json://127.0.0.1:{webhook.server_port}"}}
    variables = SPARK | {
        "GISCOPE_NETWORKS": str(file),
        "GISCOPE_LANDING": str(landing),
        "GISCOPE_WAREHOUSE": str(tmp_path / "warehouse"),
        "AIRFLOW_CONN_GISCOPE_ALERTS": json.dumps({"conn_type": "apprise", "extra": posted}),
    }
    next_day = DAY + timedelta(days=1)
    (land(landing, "aa-gprs", ["peak"]) / "off-peak.pcap").write_bytes(b"no capture at all")
    assert airflow("dags", "test", "giscope_daily", DAY.isoformat(), **variables).returncode != 0
    land_later(landing, "aa-gprs", datetime.combine(next_day, time(10, 30)))
    second = airflow("dags", "test", "giscope_daily", next_day.isoformat(), **variables)
    assert second.returncode == 0, second.stdout[-3000:]
    published = query(Warehouse(tmp_path / "warehouse"), "select distinct date from table1_summary")
    assert published == [(next_day,)]
    (message,) = webhook.messages
    assert f"aa-gprs {DAY} is held back: captures not read to their end" in message["message"]


FAILURES = {
    "crash": ("os.abort()", {}, "flows failed: RuntimeError: giscope flows: exit status -6"),
    "hang": (
        "time.sleep(600)", {"GISCOPE_TASK_MINUTES": "0.3"}, "flows failed: AirflowTaskTimeout"
    ),
    "late": ("time.sleep(60)", {}, "is not done"),
}  # fmt: skip
"""What `giscope flows` does when it begins, Airflow's settings, and what the alert says."""


@pytest.mark.slow
@pytest.mark.parametrize("failure", FAILURES)
def test_a_day_that_is_not_published_is_reported_once(airflow, tmp_path, webhook, failure):
    """`giscope flows` crashes, hangs, or takes until after the deadline."""
    does, settings, said = FAILURES[failure]
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys, time\n"
        "program, command = [*sys.orig_argv, '', ''][1:3]\n"
        f"if os.path.basename(program) == 'giscope' and command == 'flows': {does}\n"
    )
    file, landing = tmp_path / "networks.toml", tmp_path / "landing"
    file.write_text(BUDAPEST)
    land(landing, "aa-gprs", ["peak"])
    soon = datetime.now(UTC) + timedelta(seconds=45)
    posted = {"config": {"path": f"json://127.0.0.1:{webhook.server_port}"}}
    began = datetime.now(UTC)
    airflow(
        *("dags", "test", "giscope_daily", DAY.isoformat()),
        **settings,
        GISCOPE_NETWORKS=str(file),
        GISCOPE_LANDING=str(landing),
        GISCOPE_WAREHOUSE=str(tmp_path / "warehouse"),
        PYTHONPATH=str(tmp_path),
        GISCOPE_DEADLINE_HOUR=str(
            soon.hour + soon.minute / 60 + soon.second / 3600 if failure == "late" else 24
        ),
        AIRFLOW_CONN_GISCOPE_ALERTS=json.dumps({"conn_type": "apprise", "extra": posted}),
    )
    assert datetime.now(UTC) - began < timedelta(minutes=4)
    (message,) = webhook.messages
    assert message["title"] == f"giscope: aa-gprs {DAY} is not published"
    assert said in message["message"]


@pytest.mark.slow
@pytest.mark.usefixtures("zeek_plugin")
@pytest.mark.parametrize("place", ["bare"], indirect=True)
def test_logs_that_a_live_zeek_landed_are_published_for_their_day(
    airflow, place, expected, tmp_path
):
    """The day's folder as Zeek made it: logs of packets and of dropped ones."""
    frames = between(0, 60)
    zeek = place.start()
    place.link.send(frames, "--pps=1000")
    zeek.seen()
    assert zeek.stop() == 0
    networks = tmp_path / "networks.toml"
    networks.write_text(
        '[[network]]\nname = "aa-gprs"\ncountry = "AA"\naccess = "gprs"\n'
        'timezone = "UTC"\nsubscribers = ["10.64.0.0/14"]\nquality = {peak_flows = 0}\n'
    )
    landing = tmp_path / "landing"
    landing.mkdir()
    place.landing.rename(landing / "aa-gprs")
    (day,) = (folder.name for folder in (landing / "aa-gprs").iterdir())
    (landing / "aa-gprs" / day / "_COMPLETE").touch()
    done = airflow(
        *("dags", "test", "giscope_daily", day),
        GISCOPE_FIRST_DAY=day,
        GISCOPE_LAST_DAY=day,
        GISCOPE_NETWORKS=str(networks),
        GISCOPE_LANDING=str(landing),
        GISCOPE_WAREHOUSE=str(tmp_path / "warehouse"),
    )
    warehouse = Warehouse(tmp_path / "warehouse")
    assert query(warehouse, "from quality where not passed") == []
    assert done.returncode == 0, done.stdout[-3000:]
    assert len(query(warehouse, "from packets")) == len(expected(frames))
    assert query(warehouse, "select distinct date::varchar from flows") == [(day,)]
    assert query(warehouse, "select distinct date::varchar from table1_summary") == [(day,)]
    counted = (
        "select count(*), bool_and(error is null) from ingest_log where capture like '%monitor%'"
    )
    [(monitors, sound)] = query(warehouse, counted)
    assert monitors > 0
    assert sound
