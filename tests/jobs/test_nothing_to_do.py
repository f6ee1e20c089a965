"""What is up to date is not made again, and the modules that would make it are not imported."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import CAPTURES, DAY, NETWORKS_FILE, ROOT

from spark_jobs.figures.tables import MARTS
from spark_jobs.report.build import REPORT, step
from spark_jobs.warehouse.database import LOCKS
from spark_jobs.warehouse.files import read_rows
from spark_jobs.warehouse.storage import VIEWS
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit
from tests.programs.many_days import write_captures

MAKERS = ("duckdb", "numba", "pandas", "plotly", "pyspark", "scipy.special", "statsmodels")
RUN = f"""
import json, sys
from spark_jobs.commands.cli import main
main(sys.argv[1:])
print(json.dumps([name for name in {MAKERS} if name in sys.modules]))
"""


def run(warehouse: Path, networks: Path, captures: Path) -> list[str]:
    """Run `giscope run`; return those of the MAKERS that it imported."""
    command = ["run", "--warehouse", warehouse, "--networks", networks, captures]
    done = subprocess.run(
        [sys.executable, "-c", RUN, *map(str, command)],
        check=True, cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def made(whole_demo, tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("made") / "w"
    shutil.copytree(whole_demo.warehouse.root, root)
    run(root, NETWORKS_FILE, CAPTURES)
    return root


def state(root: Path) -> dict[Path, int]:
    """Return when each file of a warehouse was written, but for its locks."""
    files = [path for path in root.rglob("*") if path.is_file() and LOCKS not in path.parts]
    return {path: path.stat().st_mtime_ns for path in files}


def test_a_repeated_run_writes_nothing_and_imports_no_maker(made):
    before = state(made)
    assert run(made, NETWORKS_FILE, CAPTURES) == []
    assert state(made) == before


def test_a_repeated_run_reads_no_table(made):
    """Only sizes of the tables' files are checked, not their content."""
    files = {path: path.read_bytes() for path in made.rglob("*.parquet")}
    for path, content in files.items():
        path.write_bytes(bytes(len(content)))
    run(made, NETWORKS_FILE, CAPTURES)
    for path, content in files.items():
        assert path.read_bytes() == bytes(len(content))
        path.write_bytes(content)


@pytest.mark.parametrize("name", [REPORT, VIEWS])
def test_a_deleted_report_or_view_file_is_made_again(made, name):
    (made / name).unlink()
    run(made, NETWORKS_FILE, CAPTURES)
    assert (made / name).exists()


def test_report_is_made_again_when_a_mart_changes(made):
    warehouse = Warehouse(made)
    step(warehouse).bring_up_to_date(warehouse)
    page = warehouse.root / REPORT
    before = page.stat().st_mtime_ns
    step(warehouse).bring_up_to_date(warehouse)
    assert page.stat().st_mtime_ns == before
    day = Unit.of_day("marts", "aa-gprs", DAY)
    facts = warehouse.published(day).facts
    with warehouse.staging() as staging:
        for table in MARTS[:-1]:
            rows = read_rows(table, warehouse.files(table, "aa-gprs", DAY))
            staging.write(table, "aa-gprs", DAY, "mart", rows)
        warehouse.publish(day, staging.files, facts)
    step(warehouse).bring_up_to_date(warehouse)
    assert page.stat().st_mtime_ns > before


@pytest.mark.slow
def test_nothing_to_do_in_a_thousand_network_days(tmp_path):
    networks = write_captures(tmp_path, networks=5, days=200)
    warehouse, captures = tmp_path / "w", tmp_path / "captures"
    run(warehouse, networks, captures)
    before = state(warehouse)
    started = time.monotonic()
    assert run(warehouse, networks, captures) == []
    took = time.monotonic() - started
    assert state(warehouse) == before
    print(f"nothing to do in 1000 network-days: {took:.2f} s")
