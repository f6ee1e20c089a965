"""A job killed at any moment leaves the old table or the new one, and the next job makes what is
missing. Slow: real processes."""

import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from conftest import CAPTURES, NETWORKS_FILE, ROOT, contents

from spark_jobs.ingest.job import ingest_capture
from spark_jobs.jobs import remove_data
from spark_jobs.removal.search import search_names
from spark_jobs.warehouse.store import STAGING, Warehouse

JOB = """
import sys
from pathlib import Path
from spark_jobs.ingest.job import ingest_capture
from spark_jobs.settings.networks import load_networks
from spark_jobs.warehouse.store import Warehouse
network = load_networks(Path(sys.argv[1]))["bb-gprs"]
print("ready", flush=True)
result = ingest_capture(Warehouse(Path(sys.argv[2])), network, Path(sys.argv[3]))
print(result.error, flush=True)
"""


def counts(warehouse: Warehouse) -> tuple[int, int]:
    """Return the packets in the table, and those that ingest_log counts."""
    connection = warehouse.connect()
    (packets,) = connection.execute("select count(*) from packets").fetchone()
    (logged,) = connection.execute("select coalesce(sum(packets), 0) from ingest_log").fetchone()
    return packets, int(logged)


@pytest.mark.slow
@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0])
def test_killed_ingest_leaves_the_old_or_the_new_packets(tmp_path, networks, after_s):
    first = CAPTURES / "bb-gprs/peak.pcap.zst"
    second = CAPTURES / "aa-gprs/peak.pcap.zst"
    capture = tmp_path / "peak.pcap.zst"
    warehouse = Warehouse(tmp_path / "w")
    capture.symlink_to(first)
    old = ingest_capture(warehouse, networks["bb-gprs"], capture).facts.packets
    capture.unlink()
    capture.symlink_to(second)
    job = subprocess.Popen(
        [sys.executable, "-c", JOB, str(NETWORKS_FILE), str(warehouse.root), str(capture)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert job.stdout.readline() == "ready\n"
    time.sleep(after_s)
    job.kill()
    job.wait()
    packets, logged = counts(warehouse)
    assert packets == logged
    assert packets in (old, 149_626)
    assert ingest_capture(warehouse, networks["bb-gprs"], capture).error is None
    assert counts(warehouse) == (149_626, 149_626)


COUNTED_RUN = """
import os, signal, sys
from spark_jobs.commands.cli import main
root, last = sys.argv[1], int(sys.argv[2])
seen = 0
def count(event, arguments):
    global seen
    if event in CHANGES and str(arguments[0]).startswith(root):
        seen += 1
        if seen == last:
            os.kill(os.getpid(), signal.SIGKILL)
CHANGES = {"open", "os.rename", "os.remove", "os.link", "os.mkdir", "shutil.rmtree"}
sys.addaudithook(count)
main(sys.argv[3:])
print(seen)
"""
"""`giscope run` that kills itself at the nth time that it touches a file of the warehouse."""
KILLS = 40
BEGUN_S = 120
OF_PROCESSES = [
    *(("forkserver", after_s) for after_s in (0.0, 0.2, 0.5, 1.0, 1.5, 2.0, 2.5)),
    *(("java", after_s) for after_s in (2.0, 10.0, 20.0)),
]
"""Which process (a worker, the JVM) is killed so long after it began."""


def command(root: Path, captures: Path) -> list[str]:
    """Return the arguments of `giscope run`."""
    files = ["--warehouse", root, "--networks", NETWORKS_FILE, captures]
    return ["run", *map(str, files)]


def counted_run(root: Path, captures: Path, last: int) -> subprocess.CompletedProcess:
    return counted(root, last, command(root, captures))


def counted(root: Path, last: int, words: list[str]) -> subprocess.CompletedProcess:
    """Run a command on a warehouse, counting its changes; kill it at the `last`."""
    if "--warehouse" not in words:
        words = [words[0], "--warehouse", str(root), *words[1:]]
    return subprocess.run(
        [sys.executable, "-c", COUNTED_RUN, str(root), str(last), *words],
        check=False, capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed(few_captures, tmp_path_factory) -> tuple[int, dict[str, tuple]]:
    """Return how often an undisturbed run touches the warehouse, and its contents."""
    root = tmp_path_factory.mktemp("undisturbed") / "w"
    done = counted_run(root, few_captures, 0)
    assert done.returncode == 0, done.stderr
    found = contents(root)
    assert found["packets"][0] > 0
    assert found["table1_summary"][0] > 0
    return int(done.stdout.split()[-1]), found


def assert_next_run_completes(root: Path, captures: Path, expected: dict[str, tuple]) -> None:
    """Assert that the next run completes the tables and leaves no other file."""
    done = counted_run(root, captures, 0)
    assert done.returncode == 0, done.stderr
    assert contents(root) == expected
    warehouse = Warehouse(root, grace_time=timedelta(0))
    warehouse.update_views()
    published = {path for files in warehouse.files_by_table().values() for path in files}
    assert set(root.rglob("*.parquet")) == published
    assert warehouse.damaged(all_bytes=True) == {}
    assert [path for path in root.rglob(".*") if path.is_file()] == []
    assert list((root / STAGING).iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("kill", range(KILLS))
def test_a_run_killed_anywhere_is_completed_by_the_next(few_captures, undisturbed, tmp_path, kill):
    touches, expected = undisturbed
    killed = counted_run(tmp_path / "w", few_captures, 1 + kill * (touches - 1) // (KILLS - 1))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert_next_run_completes(tmp_path / "w", few_captures, expected)


@pytest.fixture(scope="module")
def forgetting(few_captures, tmp_path_factory) -> tuple[Path, list[str], int]:
    """Return a warehouse, the arguments to forget one of its users, and the touches of that."""
    root = tmp_path_factory.mktemp("forgetting") / "w"
    assert counted_run(root, few_captures, 0).returncode == 0
    query = "select \"user\" from flows where network = 'aa-gprs' group by 1 order by count(*) desc"
    (user, *_) = Warehouse(root).connect(query).execute(query).fetchone()
    words = ["--networks", str(NETWORKS_FILE), "--network", "aa-gprs", "--user", user]
    done = counted(shutil.copytree(root, root.with_name("counted")), 0, ["forget", *words])
    assert done.returncode == 0, done.stderr
    return root, words, int(done.stdout.split()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("kill", range(KILLS // 2))
def test_a_removal_killed_anywhere_is_finished_by_the_next_command(
    few_captures, forgetting, tmp_path, kill
):
    """The next command is a removal in another network, a purge or a run."""
    made, words, touches = forgetting
    root = Path(shutil.copytree(made, tmp_path / "w", copy_function=shutil.copy2))
    killed = counted(root, 1 + kill * (touches - 1) // (KILLS // 2 - 1), ["forget", *words])
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    begun = remove_data.is_pending(Warehouse(root))
    query = "select \"user\" from flows where network = 'bb-gprs' limit 1"
    ((other,),) = Warehouse(root).connect(query).execute(query).fetchall()
    of_bb = [*words[:3], "bb-gprs", "--user", other]
    nexts = (["forget", *of_bb], ["purge", "--before", "1990-01-01"])
    ending = (*nexts, command(root, few_captures))[kill % 3]
    done = counted(root, 0, ending)
    assert done.returncode == 0, done.stderr
    assert ("finishing a removal that was interrupted" in done.stderr) == begun
    assert not remove_data.is_pending(Warehouse(root))
    if begun or not search_names(Warehouse(root), words[-1:]).found:
        assert search_names(Warehouse(root), words[-1:]).problems == []
        assert counted(root, 0, ["forget", *words]).stdout.startswith("0 rows removed")


@pytest.mark.slow
@pytest.mark.parametrize(("victim", "after_s"), OF_PROCESSES)
def test_a_run_that_loses_a_process_is_completed_by_the_next(
    few_captures, undisturbed, tmp_path, victim, after_s
):
    root = tmp_path / "w"
    spark = {"GISCOPE_MASTER": "local[2]"} if victim == "java" else {}
    giscope = Path(sys.executable).with_name("giscope")
    run = psutil.Popen(
        [giscope, *command(root, few_captures)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env=os.environ | spark,
    )  # fmt: skip
    child = begun(run, victim)
    time.sleep(after_s)
    if child.is_running():
        child.kill()
    _, stderr = run.communicate()
    assert run.returncode in (0, 2), stderr
    assert "Traceback" not in stderr
    assert_next_run_completes(root, few_captures, undisturbed[1])


def begun(run: psutil.Popen, name: str) -> psutil.Process:
    """Wait for a process of the run with this name; return the last one."""
    deadline = time.monotonic() + BEGUN_S
    while time.monotonic() < deadline and run.poll() is None:
        found = [
            process
            for process in run.children(recursive=True)
            if name in " ".join(cmdline(process))
        ]
        if found:
            return found[-1]
        time.sleep(0.05)
    raise AssertionError(run.stderr.read())


def cmdline(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
