"""Tasks, by processes of this machine and by Spark: the same results."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import CAPTURES, NETWORKS_FILE, ROOT

from spark_jobs.base.errors import UserError
from spark_jobs.engine import processes, tasks
from spark_jobs.engine.memory import WORKER_KILLED
from spark_jobs.engine.tasks import Failure, run_tasks
from spark_jobs.figures.tables import MARTS, TABLES
from spark_jobs.warehouse.store import Warehouse

WAITS = """
import os, sys, time
from spark_jobs.engine.tasks import run_tasks
def wait(item):
    print(os.getpid(), flush=True)
    time.sleep(60)
if __name__ == "__main__":
    run_tasks(wait, [1], "wait")
"""


RUN_ALL = """
import json, sys
from spark_jobs.commands.cli import main
for command in json.loads(sys.argv[1]):
    main(command)
"""


@pytest.fixture(autouse=True)
def by_processes(monkeypatch):
    monkeypatch.delenv("GISCOPE_MASTER", raising=False)


def double(item: int) -> int:
    if item < 0:
        raise UserError(f"{item}: below nought")
    return 2 * item


def divide(item: int) -> float:
    return 1 / item


def fill_disk(item: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def double_or_die(item: int) -> int:
    if item < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * item


def test_results_come_in_the_items_order():
    assert run_tasks(double, list(range(20)), "double") == list(range(0, 40, 2))
    assert run_tasks(double, [], "double") == []


def test_each_result_is_reported_with_its_item():
    results = []
    run_tasks(double, [1, 2, 3], "double", lambda item, result: results.append((item, result)))
    assert sorted(results) == [(1, 2), (2, 4), (3, 6)]


def test_a_tasks_error_is_its_result_and_stops_no_other():
    expected = [2, 4, Failure("-3: below nought"), 8]
    assert run_tasks(double, [1, 2, -3, 4], "double") == expected


def test_an_unexpected_error_names_its_kind():
    [failure] = run_tasks(divide, [0], "divide")
    assert failure.reason.startswith("ZeroDivisionError: division by zero (spark_jobs/engine/")


def test_a_full_disk_ends_the_job():
    """Whatever follows would fail as well."""
    with pytest.raises(UserError, match="No space left on device"):
        run_tasks(fill_disk, [1, 2], "fill")


def test_a_killed_process_stops_no_other_task():
    """Four die, each of which may have been the reason why a task beside it was lost."""
    found = run_tasks(double_or_die, [1, -1, 2, 3, -1, -1, 4, 5, 6, -1], "double")
    killed = Failure(WORKER_KILLED.format("double"))
    assert found == [2, killed, 4, 6, killed, killed, 8, 10, 12, killed]
    assert run_tasks(double, [4], "double") == [8]


FAILS_BY_SPARK = """
import os, signal
from spark_jobs.commands.cli import app, main
from spark_jobs.engine.tasks import Failure, run_tasks
from spark_jobs.base.errors import UserError
def mistake(item):
    if item > 0:
        return item
    raise UserError(f"{item}: below nought")
def refused(item):
    open("/nowhere/at/all")
def bug(item):
    return {4: 8}[item]
def die(item):
    if item < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return item
@app.command()
def fail():
    for task in (mistake, refused, bug, die):
        for result in run_tasks(task, [-3, 4], "work"):
            print(result.reason if isinstance(result, Failure) else result)
main(["fail"])
"""


def test_errors_of_tasks_by_spark_are_reported_in_a_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FAILS_BY_SPARK],
        check=False, cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "GISCOPE_MASTER": "local[2]"},
    )  # fmt: skip
    refused = "/nowhere/at/all: No such file or directory"
    *printed, bug, of_bug, killed, of_killed = done.stdout.splitlines()
    assert printed == ["-3: below nought", "4", refused, refused]
    assert (bug.partition(" (")[0], of_bug) == ("KeyError", "8")
    assert (killed, of_killed) == (WORKER_KILLED.format("work"), "4")
    assert (done.stderr, done.returncode) == ("", 0)


@pytest.mark.parametrize(("master", "compiled"), [("local[2]", True), ("spark://host:7077", False)])
def test_a_local_spark_has_its_functions_compiled_first(monkeypatch, master, compiled):
    """Otherwise each of its workers compiles what it meets, for a minute and a half."""
    calls = []
    context = SimpleNamespace(sparkContext=SimpleNamespace(master=master))
    monkeypatch.setenv("GISCOPE_MASTER", master)
    monkeypatch.setattr("spark_jobs.engine.spark.spark_session", lambda: context)
    monkeypatch.setattr(processes, "compile_functions", lambda: calls.append("compile"))
    monkeypatch.setattr(tasks, "_run_by_spark", lambda *_: calls.append("run") or [2])
    assert run_tasks(double, [1], "double") == [2]
    assert calls == ["compile", "run"][not compiled :]


def test_no_worker_outlives_its_parent(tmp_path):
    script = tmp_path / "waits.py"
    script.write_text(WAITS)
    asked = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    worker = int(asked.stdout.readline())
    asked.kill()
    asked.wait()
    give_up = time.monotonic() + 20
    while _is_there(worker):
        assert time.monotonic() < give_up
        time.sleep(0.05)


def _is_there(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")")[-1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_spark_makes_the_same_tables(tmp_path, demo):
    """The demo's were made by processes and DuckDB; sums are added in another order."""
    where = ["--warehouse", str(tmp_path), "--network", "bb-gprs"]
    networks = ["--networks", str(NETWORKS_FILE)]
    commands = [
        ["ingest", *where, *networks, str(CAPTURES / "bb-gprs/peak.pcap.zst")],
        ["flows", *where, *networks],
        ["marts", *where],
    ]
    subprocess.run(
        [sys.executable, "-c", RUN_ALL, json.dumps(commands)],
        check=True, cwd=ROOT, capture_output=True,
        env={**os.environ, "GISCOPE_MASTER": "local[2]"},
    )  # fmt: skip
    mine, theirs = Warehouse(tmp_path).connect(), demo.warehouse.connect()
    for name in ("packets", "flows", "losses", "retransmissions", "channel_rates", "stalls"):
        columns = [c.name for c in TABLES[name].columns]
        query = f"select {', '.join(map(repr, columns)).replace(chr(39), chr(34))} from {name}"
        query += " where network = 'bb-gprs' order by all"
        rows = mine.sql(query).fetchall()
        assert rows
        assert rows == theirs.sql(query).fetchall()
    for table in MARTS:
        measured = [c.name for c in table.columns if c.type == "double" and c.name != "bin"]
        others = ", ".join(c.name for c in table.columns if c.name not in measured)
        sums = ", ".join(f"sum({name})" for name in measured) or "count(*)"
        query = f"from {table.name} where network = 'bb-gprs' group by all order by all"
        assert mine.sql(f"select {others} {query}").fetchall() == (
            theirs.sql(f"select {others} {query}").fetchall()
        )
        totals = f"select {sums} from {table.name} where network = 'bb-gprs'"
        (found,), (expected,) = mine.sql(totals).fetchall(), theirs.sql(totals).fetchall()
        if None in expected:  # a mart without rows
            assert found == expected
        else:
            assert found == pytest.approx(expected, rel=1e-9)
