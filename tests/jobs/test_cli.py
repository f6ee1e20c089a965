"""The command: what it prints, what it refuses."""

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import CAPTURES, NETWORKS_FILE, ROOT

from schemas import TABLES
from spark_jobs import cli

COMMANDS = ("run", "ingest", "flows", "check", "release", "marts", "report", "sql", "schema")


@dataclass
class Answer:
    """What a command printed and how it ended."""

    stdout: str
    stderr: str
    status: int


@pytest.fixture
def giscope(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Run a command in this process."""

    def run(*args: object) -> Answer:
        status = 0
        try:
            cli.main([str(arg) for arg in args])
        except SystemExit as end:
            status = int(end.code or 0)
        printed = capsys.readouterr()
        return Answer(printed.out, printed.err, status)

    return run


def installed(*args: object) -> Answer:
    """Run a command as users do."""
    command = [str(Path(sys.executable).with_name("giscope")), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return Answer(done.stdout, done.stderr, done.returncode)


def test_sql_formats_hold_the_same_rows(giscope, demo):
    query = "select network, count(*) as flows from flows group by all order by all"
    root = demo.warehouse.root
    table = giscope("sql", "--warehouse", root, query)
    as_csv = giscope("sql", "--warehouse", root, "--format", "csv", query)
    as_json = giscope("sql", "--warehouse", root, "--format", "json", query)
    rows = list(csv.DictReader(io.StringIO(as_csv.stdout)))
    assert [row["network"] for row in rows] == ["aa-gprs", "bb-gprs", "cc-dialup"]
    assert [int(row["flows"]) for row in rows] == [r["flows"] for r in json.loads(as_json.stdout)]
    assert all(row["flows"] in table.stdout for row in rows)


def test_schema_prints_every_column(giscope):
    printed = giscope("schema").stdout
    for table in TABLES.values():
        assert f"{table.name}: one row is" in printed
    for column in TABLES["flows"].columns:
        assert column.name in giscope("schema", "flows").stdout


def test_schema_as_markdown_is_one_section_a_table(giscope):
    page = giscope("schema", "--format", "markdown").stdout
    assert [line[3:] for line in page.splitlines() if line.startswith("## ")] == list(TABLES)
    section = giscope("schema", "losses", "--format", "markdown").stdout
    assert section in page
    for column in TABLES["losses"].columns:
        assert f"| `{column.name}` | {column.type} | {column.unit} |" in section


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example(giscope, command):
    answer = giscope(command, "--help")
    assert answer.status == 0
    assert f"Example: giscope {command}" in answer.stdout


STORE = ("--warehouse", "w", "--networks", NETWORKS_FILE)
AA_GPRS = ("--network", "aa-gprs")


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (("fly",), "No such command 'fly'"),
        (("sql",), "Missing argument 'query'"),
        (("marts",), "Missing option '--warehouse'"),
        (("sql", "--warehouse", "nowhere", "select 1"), "nowhere: no such warehouse"),
        (("sql", "--warehouse", ".", "selct 1"), "syntax error"),
        (("sql", "--warehouse", ".", "--format", "xml", "select 1"), "--format"),
        (("schema", "nothing"), "no table 'nothing'"),
        (("run", "--warehouse", "w", "--networks", "none.toml", "."), "none.toml: No such file"),
        (("run", *STORE, "nowhere"), "no such folder"),
        (("run", *STORE, ROOT / "docs"), "no <network>/*.pcap* or *.log* in it"),
        (("ingest", *STORE, "--network", "zz", "a.pcap"), "no network 'zz'"),
        (("flows", *STORE, *AA_GPRS, "--date", "yesterday"), "--date"),
        (("flows", *STORE, *AA_GPRS, "--date", "2004-03-02"), "no packets of aa-gprs"),
        (("report", "--warehouse", "nowhere", "--output", "r.html"), "no such warehouse"),
        (("marts", "--warehouse", "nowhere"), "no such warehouse"),
    ],
)
def test_mistakes_give_one_line_and_status_2(giscope, tmp_path, monkeypatch, args, reason):
    monkeypatch.chdir(tmp_path)
    answer = giscope(*args)
    assert answer.status == 2
    assert reason in answer.stderr
    assert len(answer.stderr.splitlines()) == 1
    assert answer.stderr.startswith("giscope: ")
    assert list(tmp_path.iterdir()) == []


def test_run_does_all_and_names_the_bad_file(tmp_path):
    captures = tmp_path / "captures" / "bb-gprs"
    captures.mkdir(parents=True)
    (captures / "good.pcap.zst").symlink_to(CAPTURES / "bb-gprs/peak.pcap.zst")
    bad = captures / "bad.pcap"
    bad.write_bytes(b"")
    warehouse = tmp_path / "w"
    answer = installed(
        "run", "--warehouse", warehouse, "--networks", NETWORKS_FILE, tmp_path / "captures"
    )
    assert answer.status == 2
    assert f"giscope: {bad}: the file is empty" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert "157,600" in answer.stdout
    assert (warehouse / "report.html").stat().st_size > 100_000
    bad.unlink()
    again = installed(
        "run", "--warehouse", warehouse, "--networks", NETWORKS_FILE, tmp_path / "captures"
    )
    assert again.status == 0
    assert "unchanged" in again.stdout


def test_folder_of_an_unknown_network_is_named(giscope, tmp_path):
    (tmp_path / "zz").mkdir()
    (tmp_path / "zz" / "a.pcap").write_bytes(b"")
    answer = giscope("run", "--warehouse", tmp_path / "w", "--networks", NETWORKS_FILE, tmp_path)
    assert answer.status == 2
    assert "no network 'zz'; it has aa-gprs, bb-gprs, cc-dialup" in answer.stderr


@pytest.mark.parametrize(
    "command",
    [["--help"], ["schema", "flows"], ["run", "--help"], ["sql", "--warehouse", ".", "select 1"]],
    ids=lambda command: command[0],
)
def test_answers_at_once(command, tmp_path):
    """What takes seconds to import is left to the commands that need it."""
    code = "import sys; from spark_jobs.cli import main\n"
    code += "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
    code += "print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, *command], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout
    slow = {"numba", "pandas", "plotly", "pyspark", "scipy", "statsmodels"}
    assert slow & set(done.stderr.split()) == set()
