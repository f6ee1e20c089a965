"""The daily DAG as Airflow runs it, in Airflow's own environment."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import CAPTURES, DAY, ROOT, Demo
from live import between

from schemas import MARTS, Table
from spark_jobs.warehouse import Warehouse

AIRFLOW = ROOT / "infra/airflow/airflow"
STEPS = ["complete", "folders", "ingest", "flows", "check", "marts", "published"]


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


def rows(warehouse: Warehouse, table: Table) -> list[tuple]:
    """A table's rows; sums to nine digits, for Spark adds in any order."""
    found = query(warehouse, f"from {table.name}")
    return sorted(
        (tuple(f"{v:.9g}" if isinstance(v, float) else v for v in row) for row in found), key=repr
    )


def land(landing: Path, network: str, names: list[str], marker: str = "") -> Path:
    """Capture files of the demo into the day's landing folder."""
    folder = landing / network / DAY.isoformat()
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copy(CAPTURES / network / f"{name}.pcap.zst", folder)
    (folder / "_COMPLETE").write_text(marker)
    return folder


@pytest.mark.slow
def test_bad_day_is_held_the_rest_published_then_mended_and_repeated(airflow, demo: Demo):
    """One network with a corrupt file, one with a missing file, one good; all mended; once more."""
    home = airflow.home
    warehouse = Warehouse(home / "warehouse")
    corrupt = land(home / "landing", "aa-gprs", ["peak"]) / "off-peak.pcap.zst"
    corrupt.write_bytes(b"no capture at all")
    land(home / "landing", "bb-gprs", ["peak"])
    land(home / "landing", "cc-dialup", [], "peak.pcap.zst\n")

    first = airflow("dags", "test", "giscope_daily", DAY.isoformat())
    assert first.returncode != 0
    assert "off-peak.pcap" in first.stdout + first.stderr
    [held] = query(warehouse, "select distinct network, finding from quality where not passed")
    assert held[0] == "aa-gprs"
    assert "off-peak.pcap" in held[1]
    assert query(warehouse, "select distinct network from flows order by all") == [
        ("aa-gprs",), ("bb-gprs",),
    ]  # fmt: skip
    assert query(warehouse, "select distinct network from table1_summary") == [("bb-gprs",)]

    land(home / "landing", "aa-gprs", ["off-peak", "peak"])
    land(home / "landing", "cc-dialup", ["peak"], "peak.pcap.zst\n")
    second = airflow("dags", "test", "giscope_daily", DAY.isoformat())
    assert second.returncode == 0, second.stdout[-3000:]
    for table in MARTS:
        assert rows(warehouse, table) == rows(demo.warehouse, table), table.name
    assert query(warehouse, "from quality where not passed") == []

    files = sorted(home.glob("warehouse/*/network=*/**/*.parquet"))
    third = airflow("dags", "test", "giscope_daily", DAY.isoformat())
    assert third.returncode == 0, third.stdout[-3000:]
    assert sorted(home.glob("warehouse/*/network=*/**/*.parquet")) == files


@pytest.mark.slow
@pytest.mark.usefixtures("zeek_plugin")
@pytest.mark.parametrize("place", ["bare"], indirect=True)
def test_what_a_live_zeek_landed_is_the_days(airflow, place, expected, tmp_path):
    """The day's folder as Zeek made it: logs of packets and of what it did not get."""
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
