"""`giscope sql` within its limits: a query without end, or one for all memory, ends with a line."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from conftest import GISCOPE

from spark_jobs.base.errors import UserError
from spark_jobs.queries.limits import DISK_BYTES_PER_MEMORY_BYTE, MEMORY, SQL_SECONDS, Limits

MIB = 2**20
CROSS_JOIN = "range(10000000) a(i), range(10000000) b(j)"
FOR_EVER = f"select count(*) from {CROSS_JOIN} where hash(i + j) = 3"
ENDLESS = f"select i, j from {CROSS_JOIN}"
ONE_VALUE = "select levenshtein(repeat('a', 2000000), repeat('b', 2000000))"
"""Takes hours for one value: DuckDB looks at an interrupt before and after."""
TOO_LONG = re.compile(r"giscope: sql: stopped after [13] s; .*--time-limit.*\n")
TOO_LARGE = re.compile(r"giscope: sql: stopped: it needs more than .* GiB .*--memory-limit.*\n")


@dataclass
class Ended:
    """A command that has ended; most_mib: its peak memory."""

    stdout: str
    stderr: str
    status: int
    seconds: float
    most_mib: float


MEASURED = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[2:]).returncode
with open(sys.argv[1], "w") as most:
    most.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024))
sys.exit(status)
"""
"""A small process in between: a process's memory at its start counts as its child's."""


def sql(folder: Path, *arguments: str, **environment: str) -> Ended:
    """Run `giscope sql` on a warehouse without tables; temporary files are in folder/tmp."""
    (folder / "tmp").mkdir()
    command = [GISCOPE, "sql", "--warehouse", folder, *arguments]
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, folder / "most", *command],
        env=os.environ | {"TMPDIR": str(folder / "tmp")} | environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    seconds = time.monotonic() - began
    assert list((folder / "tmp").iterdir()) == []
    most_mib = float((folder / "most").read_text())
    return Ended(done.stdout, done.stderr, done.returncode, seconds, most_mib)


@pytest.mark.parametrize("query", [FOR_EVER, ONE_VALUE], ids=["many rows", "one value"])
@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_a_query_without_end_is_stopped(tmp_path, form, query):
    ended = sql(tmp_path, "--format", form, "--time-limit", "1", query)
    assert (ended.status, ended.stdout) == (2, "")
    assert TOO_LONG.fullmatch(ended.stderr)
    assert 1 < ended.seconds < 15


def fork_of(command: subprocess.Popen) -> psutil.Process:
    """Return the process of the query, once the command has started it."""
    while not (queries := psutil.Process(command.pid).children()):
        assert command.poll() is None
        time.sleep(0.1)
    return queries[0]


@pytest.mark.parametrize(
    ("ends", "number", "status"),
    [
        (os.killpg, signal.SIGINT, 130),  # by Ctrl-C in a terminal
        (os.kill, signal.SIGINT, 130),
        (os.kill, signal.SIGKILL, -signal.SIGKILL),
    ],
    ids=["Ctrl-C", "SIGINT", "SIGKILL"],
)
def test_a_query_ends_at_once_with_its_command(tmp_path, ends, number, status):
    with subprocess.Popen(
        [GISCOPE, "sql", "--warehouse", tmp_path, "--time-limit", "60", ONE_VALUE],
        start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"TMPDIR": str(tmp_path)},
    ) as command:  # fmt: skip
        query = fork_of(command)
        while sum(query.cpu_times()[:2]) < 3:  # it computes
            time.sleep(0.1)
        ends(command.pid, number)
        printed = command.communicate(timeout=15)  # both have closed their ends
    assert (command.returncode, *printed) == (status, b"", b"")
    if number == signal.SIGINT:
        assert list(tmp_path.iterdir()) == []


def test_a_killed_query_is_reported_in_a_line(tmp_path):
    """By the kernel, for example, if the memory of a container is less than the limit."""
    with subprocess.Popen(
        [GISCOPE, "sql", "--warehouse", tmp_path, "--time-limit", "60", ONE_VALUE],
        stderr=subprocess.PIPE, text=True,
    ) as command:  # fmt: skip
        fork_of(command).kill()
        _, stderr = command.communicate(timeout=15)
    assert command.returncode == 2
    assert re.fullmatch("giscope: sql: stopped: SIGKILL ended it, .*--memory-limit.*\n", stderr)


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_query_without_end_is_stopped_while_its_rows_are_printed(tmp_path, form):
    ended = sql(tmp_path, "--format", form, "--time-limit", "1", ENDLESS)
    assert ended.status == 2
    assert TOO_LONG.fullmatch(ended.stderr)
    assert ended.stdout.count("\n") > 1000
    assert ended.seconds < 15


def test_a_query_without_end_is_stopped_while_nobody_reads_its_rows(tmp_path):
    """It waits for its reader past its time, then prints only the rows already fetched."""
    command = ["sql", "--warehouse", tmp_path, "--format", "csv", "--time-limit", "3", ENDLESS]
    with subprocess.Popen(
        [GISCOPE, *command],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == "i,j\n"
        time.sleep(5)
        printed, stderr = process.communicate(timeout=15)
    assert process.returncode == 2
    assert TOO_LONG.fullmatch(stderr)
    assert printed.count("\n") < 100_000


@pytest.mark.parametrize(
    ("form", "query"),
    [
        ("table", f"select list(i) from {CROSS_JOIN}"),
        ("csv", f"select i, j from {CROSS_JOIN} order by hash(i + j)"),
        ("json", f"select count(*) from (select distinct i, j from {CROSS_JOIN})"),
    ],
    ids=["list", "order", "distinct"],
)
def test_a_query_that_would_take_all_memory_is_stopped(tmp_path, form, query):
    """Also where temporary files could replace memory: they have a limit, too."""
    ended = sql(tmp_path, "--format", form, "--memory-limit", "64MiB", query)
    assert (ended.status, ended.stdout) == (2, "")
    assert TOO_LARGE.fullmatch(ended.stderr)
    assert ended.most_mib < 300


@pytest.mark.parametrize(
    "value", ["{'a': i % 2 = 0, 'b': null}", "i % 2 = 0"], ids=["structs", "booleans"]
)
def test_a_query_whose_rows_are_large_in_python_is_stopped(tmp_path, value):
    """Python needs up to some hundred bytes for a byte in DuckDB."""
    query = f"select list({value}) from range(100000000) t(i)"
    ended = sql(tmp_path, "--format", "csv", "--memory-limit", "200MiB", query)
    assert (ended.status, ended.stdout) == (2, "")
    assert TOO_LARGE.fullmatch(ended.stderr)
    assert ended.most_mib < 2 * 200 + 1024


@pytest.mark.parametrize("form", ["csv", "json"])
def test_memory_does_not_grow_with_the_rows(tmp_path, form):
    query = "select i, repeat('x', 1000) as x from range({}) t(i)"
    least, most = (
        sql(tmp_path / size, "--format", form, query.format(size))
        for size in ("2000", "200000")
        if (tmp_path / size).mkdir() is None
    )
    assert least.status == most.status == 0
    assert most.stdout.count("\n") == {"csv": 200_001, "json": 4 * 200_000 + 2}[form]
    assert most.most_mib < least.most_mib + 100


def test_rows_in_batches_are_all_there_in_order(tmp_path):
    query = "select i, {'of': i} as made from range(2500) t(i) order by i desc"
    ended = [
        sql(tmp_path / form, "--format", form, query)
        for form in ("csv", "json")
        if (tmp_path / form).mkdir() is None
    ]
    rows = list(csv.DictReader(io.StringIO(ended[0].stdout)))
    assert [int(row["i"]) for row in rows] == list(range(2499, -1, -1))
    made = [{"i": i, "made": {"of": i}} for i in range(2499, -1, -1)]
    assert ended[1].stdout == json.dumps(made, indent=1) + "\n"


def test_json_of_no_rows_is_an_empty_list(tmp_path):
    assert sql(tmp_path, "--format", "json", "select 1 as i limit 0").stdout == "[]\n"


def test_variables_set_the_limits_and_options_override_them(tmp_path):
    for name in "abc":
        (tmp_path / name).mkdir()
    ended = sql(tmp_path / "a", FOR_EVER, GISCOPE_QUERY_SECONDS="1")
    assert TOO_LONG.fullmatch(ended.stderr)
    large = f"select list(i) from {CROSS_JOIN}"
    ended = sql(tmp_path / "b", "--time-limit", "60", large, GISCOPE_QUERY_MEMORY="64 MiB")
    assert "more than 0.0625 GiB of memory, or 0.25 GiB of temporary files" in ended.stderr
    quick = "select count(*) from range(1000)"
    environment = {"GISCOPE_QUERY_SECONDS": "0.01"}
    assert sql(tmp_path / "c", "--time-limit", "0", quick, **environment).status == 0


@pytest.mark.parametrize(
    ("seconds", "memory", "reason"),
    [
        ("-1", MEMORY, "GISCOPE_QUERY_SECONDS: -1.0 is not"),
        ("nan", MEMORY, "GISCOPE_QUERY_SECONDS"),
        ("soon", MEMORY, "--time-limit"),
        (
            "1",
            "much",
            "GISCOPE_QUERY_MEMORY: 'much' is not a size from 64MiB to 1024TiB, such as 2GiB",
        ),
        ("1", "1KB", "GISCOPE_QUERY_MEMORY"),
        ("1", "80%", "GISCOPE_QUERY_MEMORY"),
    ],
)
def test_invalid_limits_are_reported_in_a_line(tmp_path, seconds, memory, reason):
    ended = sql(tmp_path, "--time-limit", seconds, "--memory-limit", memory, "select 1")
    assert (ended.status, ended.stdout) == (2, "")
    (line,) = ended.stderr.splitlines()
    assert reason in line


def test_invalid_limits_raise_an_error_for_superset():
    with pytest.raises(UserError, match="'soon' is not a number of seconds"):
        Limits.of("soon", MEMORY)


def test_duckdb_takes_the_limits(tmp_path):
    query = "select current_setting('memory_limit'), current_setting('max_temp_directory_size')"
    printed = sql(tmp_path, "--format", "csv", query, GISCOPE_QUERY_MEMORY="1.5GiB").stdout
    assert printed.splitlines()[1] == "1.5 GiB,6.0 GiB"
    assert DISK_BYTES_PER_MEMORY_BYTE * Limits.of(SQL_SECONDS, "1.5GiB").memory == 6 * 1024 * MIB
