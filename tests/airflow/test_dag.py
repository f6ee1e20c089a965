"""The daily DAG as `airflow dags test` runs it: real tasks in Airflow's own environment, Spark by
spark-submit, the shipped captures. There is no scheduler: test_make_airflow.py has one."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import zstandard
from conftest import CAPTURES, DAY, ROOT, Demo
from live import between
from many_days import moved

from schemas import Table
from spark_jobs.figures.tables import MARTS
from spark_jobs.warehouse import Warehouse

AIRFLOW = ROOT / "infra/airflow/airflow"
STEPS = [
    "complete", "folders", "ingest", "flows", "check", "marts", "passed", "published",
]  # fmt: skip


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess]:
    """Run the airflow command with metadata of its own."""
    home = tmp_path_factory.mktemp("airflow")
    environment = os.environ | {
        "AIRFLOW_HOME": str(home),
        "GISCOPE_LANDING": str(home / "landing"),
        "GISCOPE_WAREHOUSE": str(home / "warehouse"),
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
    assert set(listed.stdout.split()) >= {"networks", *(f"network_day.{step}" for step in STEPS)}


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


def rows(warehouse: Warehouse, table: Table, where: str = "true") -> list[tuple]:
    """Return a table's rows; sums to nine digits, as Spark adds in any order."""
    found = query(warehouse, f"from {table.name} where {where}")
    return sorted(
        (tuple(f"{v:.9g}" if isinstance(v, float) else v for v in row) for row in found), key=repr
    )


def land(landing: Path, network: str, names: list[str], marker: str = "") -> Path:
    """Put capture files of the demo into the day's landing folder."""
    folder = landing / network / DAY.isoformat()
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copy(CAPTURES / network / f"{name}.pcap.zst", folder)
    (folder / "_COMPLETE").write_text(marker)
    return folder


@pytest.mark.slow
def test_bad_day_is_held_and_reported_then_corrected_and_published(airflow, demo: Demo, webhook):
    """One network with a corrupt file, one with a missing file, one good; all corrected; a third
    run. A webhook on this machine gets a message from Airflow's callback, for the held day only."""
    home = airflow.home
    posted = {"config": {"path": f"json://127.0.0.1:{webhook.server_port}"}}
    alerts = json.dumps({"conn_type": "apprise", "extra": posted})
    warehouse = Warehouse(home / "warehouse")
    corrupt = land(home / "landing", "aa-gprs", ["peak"]) / "off-peak.pcap.zst"
    corrupt.write_bytes(b"no capture at all")
    land(home / "landing", "bb-gprs", ["peak"])
    land(home / "landing", "cc-dialup", [], "peak.pcap.zst\n")

    def run() -> subprocess.CompletedProcess:
        command = ("dags", "test", "giscope_daily", DAY.isoformat())
        return airflow(*command, AIRFLOW_CONN_GISCOPE_ALERTS=alerts)

    first = run()
    assert first.returncode != 0
    assert "off-peak.pcap" in first.stdout + first.stderr
    [held] = query(warehouse, "select distinct network, finding from quality where not passed")
    assert held[0] == "aa-gprs"
    assert "off-peak.pcap" in held[1]
    [message] = webhook.messages
    assert message["title"] == "giscope: aa-gprs is held back"
    assert f"aa-gprs {DAY} is held back: {held[1]}" in message["message"]
    assert query(warehouse, "select distinct network from flows order by all") == [
        ("aa-gprs",), ("bb-gprs",),
    ]  # fmt: skip
    assert query(warehouse, "select distinct network from table1_summary") == [("bb-gprs",)]

    land(home / "landing", "aa-gprs", ["off-peak", "peak"])
    land(home / "landing", "cc-dialup", ["peak"], "peak.pcap.zst\n")
    second = run()
    assert second.returncode == 0, second.stdout[-3000:]
    for table in MARTS:
        assert rows(warehouse, table) == rows(demo.warehouse, table), table.name
    assert query(warehouse, "from quality where not passed") == []

    files = sorted(home.glob("warehouse/*/network=*/**/*.parquet"))
    third = run()
    assert third.returncode == 0, third.stdout[-3000:]
    assert sorted(home.glob("warehouse/*/network=*/**/*.parquet")) == files
    assert webhook.messages == [message]


def land_later(landing: Path, network: str, hours: int) -> None:
    """Put the peak hours of aa-gprs, so many hours later, into the folder of their day."""
    with (CAPTURES / "aa-gprs/peak.pcap.zst").open("rb") as file:
        capture = zstandard.ZstdDecompressor().stream_reader(file).read()
    begins = datetime.combine(DAY, datetime.min.time()) + timedelta(hours=10 + hours)
    folder = landing / network / begins.date().isoformat()
    folder.mkdir(parents=True)
    (folder / "peak.pcap").write_bytes(moved(capture, timedelta(hours=hours)))
    (folder / "_COMPLETE").touch()


@pytest.mark.slow
def test_days_of_two_time_zones_with_a_late_file(airflow, demo: Demo, tmp_path):
    """Budapest and Auckland, twelve hours apart, have their peak hours on one UTC day. On the next
    Auckland's captures are missing; a file of Budapest's first day comes with the second's, and
    leaves the day two before as it was."""
    file, landing, home = tmp_path / "networks.toml", tmp_path / "landing", tmp_path / "warehouse"
    budapest = (
        '[[network]]\nname = "aa-gprs"\ncountry = "AA"\naccess = "gprs"\n'
        'timezone = "Europe/Budapest"\nsubscribers = ["10.64.0.0/14"]\n'
    )
    auckland = budapest.replace("aa-gprs", "nz").replace("Europe/Budapest", "Pacific/Auckland")
    file.write_text(budapest + auckland)
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

    land(landing, "aa-gprs", ["peak"])
    land_later(landing, "aa-gprs", -48)
    land_later(landing, "nz", 12)
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
    land_later(landing, "aa-gprs", 24)
    assert run(after) != 0  # Auckland's captures are missing
    for table in MARTS:
        of_day = f"network = 'aa-gprs' and date = '{DAY}'"
        assert rows(warehouse, table, of_day) == rows(demo.warehouse, table, of_day), table.name
    assert query(warehouse, "select distinct network, date from table1_summary order by all") == [
        ("aa-gprs", before), ("aa-gprs", DAY), ("aa-gprs", after), ("nz", DAY),
    ]  # fmt: skip
    assert files(before) == untouched


@pytest.mark.slow
def test_held_day_is_reported_once_and_holds_no_other_day(airflow, tmp_path, webhook):
    """The next day's packets end no connection of the day that is held: its flows are made anew and
    come out the same, so it is not checked and reported again."""
    file, landing = tmp_path / "networks.toml", tmp_path / "landing"
    file.write_text(
        '[[network]]\nname = "aa-gprs"\ncountry = "AA"\naccess = "gprs"\n'
        'timezone = "Europe/Budapest"\nsubscribers = ["10.64.0.0/14"]\n'
    )
    posted = {"config": {"path": f"json://127.0.0.1:{webhook.server_port}"}}
    variables = {
        "GISCOPE_NETWORKS": str(file),
        "GISCOPE_LANDING": str(landing),
        "GISCOPE_WAREHOUSE": str(tmp_path / "warehouse"),
        "AIRFLOW_CONN_GISCOPE_ALERTS": json.dumps({"conn_type": "apprise", "extra": posted}),
    }
    next_day = DAY + timedelta(days=1)
    (land(landing, "aa-gprs", ["peak"]) / "off-peak.pcap").write_bytes(b"no capture at all")
    assert airflow("dags", "test", "giscope_daily", DAY.isoformat(), **variables).returncode != 0
    land_later(landing, "aa-gprs", 24)
    second = airflow("dags", "test", "giscope_daily", next_day.isoformat(), **variables)
    assert second.returncode == 0, second.stdout[-3000:]
    published = query(Warehouse(tmp_path / "warehouse"), "select distinct date from table1_summary")
    assert published == [(next_day,)]
    (message,) = webhook.messages
    assert f"aa-gprs {DAY} is held back: captures not read to their end" in message["message"]


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


def query(warehouse: Warehouse, sql: str) -> list[tuple]:
    return warehouse.connect().sql(sql).fetchall()
