"""The command: what it prints, what it refuses."""

import csv
import errno
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import CAPTURES, DAY, GISCOPE, NETWORKS_FILE, ROOT

from spark_jobs.commands import cli
from spark_jobs.figures.tables import TABLES
from spark_jobs.ingest.publish import CaptureOutcome
from spark_jobs.jobs import marts
from spark_jobs.warehouse.facts import CaptureFacts
from spark_jobs.warehouse.storage import VIEWS
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit
from tests.helpers.command import giscope as run_giscope

COMMANDS = (
    *("run", "ingest", "flows", "check", "release", "marts", "report", "sql", "schema"),
    *("why", "plot", "serve"),
)


@dataclass
class Answer:
    """A command's output and exit status."""

    stdout: str
    stderr: str
    status: int


@pytest.fixture
def giscope() -> Callable[..., Answer]:
    """Run a command in this process."""

    def run(*args: object) -> Answer:
        done = run_giscope(*args)
        return Answer(done.stdout, done.stderr, done.returncode)

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


QUERIES = [
    "select count(*) from flows;",
    "from flows select count(*) -- so many",
    "with few as (from flows limit 2) select count(*) from few order by all",
    "values (1)",
    "show tables",
    "describe flows",
    "summarize select network from flows",
    "pivot (select network, setup_class from flows) on setup_class using count(*)",
    "explain select 1",
    "explain analyze select 1",
    "explain (format json) pivot flows on network using count(*)",
    "/* columns */ pragma table_info('flows')",
]


@pytest.mark.parametrize("query", QUERIES)
def test_sql_answers_every_kind_of_query(giscope, demo, query):
    answer = giscope("sql", "--warehouse", demo.warehouse.root, "--format", "csv", query)
    assert answer.stderr == ""
    assert len(answer.stdout.splitlines()) > 1


def test_sql_keeps_the_querys_order(giscope, demo):
    query = "select flow_id from flows order by flow_id desc"
    answer = giscope("sql", "--warehouse", demo.warehouse.root, "--format", "csv", query)
    found = [int(line) for line in answer.stdout.splitlines()[1:]]
    assert len(found) > 1000
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize(
    "statement",
    [
        "copy (select 1) to '{there}'",
        "copy (select 1) to '{elsewhere}'",
        "explain analyze copy (select 1) to '{there}'",
        "with said as (copy (select 1) to '{there}') from said",
        "copy (pivot flows on network using count(*)) to '{there}'",
        "with said as (copy (select 1) to '{there}') pivot said on \"Count\" using count(*)",
        "from json_execute_serialized_sql(json_serialize_sql("
        "'with said as (copy (select 1) to ''{there}'') from said'))",
        "from query('with said as (copy (select 1) to ''{there}'') from said')",
        "pragma json_execute_serialized_sql(json_serialize_sql('select 1'))",
        "attach '{there}'",
        "attach '{elsewhere}'",
        "attach '{views}' as views; drop view views.flows",
        "export database '{there}'",
        "select 1; copy (select 1) to '{there}'",
        "drop view flows",
        "create table mine as select 1",
        "set threads = 1",
        "from read_text('/etc/hosts')",
        "from read_text('{root}/../outside.csv')",
        "from read_text('{root}-2.csv')",
        "from glob('/etc/*')",
        "-- nothing",
    ],
)
def test_sql_neither_writes_nor_leaves_the_warehouse(giscope, demo, statement, tmp_path):
    root = tmp_path / "w"
    root.symlink_to(demo.warehouse.root)
    (tmp_path / "outside.csv").write_text("1")
    (tmp_path / "w-2.csv").write_text("1")
    before = _state(demo.warehouse.root), _state(tmp_path)
    query = statement.format(
        root=root, there=root / "x.csv", elsewhere=tmp_path / "x.csv", views=root / VIEWS
    )
    answer = giscope("sql", "--warehouse", root, query)
    assert answer.status == 2
    assert answer.stdout == ""
    assert len(answer.stderr.splitlines()) == 1
    assert (_state(demo.warehouse.root), _state(tmp_path)) == before


def _state(folder: Path) -> set[tuple[Path, int, int]]:
    return {(p, p.stat().st_mtime_ns, p.stat().st_size) for p in folder.rglob("*")}


def test_sql_names_the_option_to_write_and_writes_with_it(giscope, demo, tmp_path):
    copied = tmp_path / "x.csv"
    query = f"copy (select 7 as n) to '{copied}'; select n from read_csv('{copied}')"
    command = ("sql", "--warehouse", demo.warehouse.root, "--format", "csv", query)
    assert "--write" in giscope(*command).stderr
    assert not copied.exists()
    assert giscope(*command, "--write").stdout == "n\n7\n"
    read = f"from read_csv('{copied}')"
    assert "--write" in giscope("sql", "--warehouse", demo.warehouse.root, read).stderr


@pytest.mark.parametrize("write", [[], ["--write"]], ids=["reads", "writes"])
@pytest.mark.parametrize("name", ["report", "answer", "warehouse", "TABLES", "sys"])
def test_sql_sees_no_variable_of_the_program(giscope, demo, name, write):
    answer = giscope("sql", "--warehouse", demo.warehouse.root, *write, f"select * from {name}")
    assert answer.status == 2
    assert f"{name} does not exist" in answer.stderr


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_query_that_fails_while_it_runs_gives_one_line(giscope, demo, form):
    query = "select cast(network as int) as n from flows"
    answer = giscope("sql", "--warehouse", demo.warehouse.root, "--format", form, query)
    assert answer.status == 2
    assert answer.stdout == ""
    (line,) = answer.stderr.splitlines()
    assert re.match(r"giscope: sql: Conversion Error: Could not convert string '..-\w+'", line)


@pytest.mark.parametrize(
    ("query", "error"),
    [
        (
            "select rtt_acces from flows",
            'Binder Error: Referenced column "rtt_acces" not found in FROM clause! '
            'Candidate bindings: "rtt_access", ',
        ),
        (
            "select levenshtein(1)",
            "explicit type casts. Candidate functions: levenshtein(s1 VARCHAR, s2 VARCHAR) -> ",
        ),
        ("from flow", 'Table with name flow does not exist! "show tables" lists the tables'),
    ],
    ids=["column", "function", "table"],
)
def test_a_misspelt_name_gives_candidates_in_one_line(giscope, demo, query, error):
    answer = giscope("sql", "--warehouse", demo.warehouse.root, query)
    (line,) = answer.stderr.splitlines()
    assert (answer.status, answer.stdout) == (2, "")
    assert line.startswith("giscope: sql: ")
    assert error in line
    assert "LINE 1" not in line


def test_an_error_in_a_row_of_a_file_does_not_print_the_row(giscope, demo, tmp_path):
    """DuckDB's message has it from the second line on."""
    (tmp_path / "x.csv").write_text("a,b\n1,2\nx,secret\n")
    query = f"from read_csv('{tmp_path}/x.csv', columns = {{'a': 'int', 'b': 'varchar'}})"
    answer = giscope("sql", "--warehouse", demo.warehouse.root, "--write", query)
    assert (answer.status, answer.stdout) == (2, "")
    assert answer.stderr == "giscope: sql: Conversion Error: CSV Error on Line: 3\n"


@pytest.mark.parametrize(
    "command",
    [["sql", "--warehouse", ".", "select 1"], ["schema", "--format", "markdown"]],
    ids=lambda command: command[0],
)
def test_command_ends_silently_when_its_reader_has_closed_the_pipe(command, tmp_path):
    """Output is buffered, as in a shell's pipe: it is written when the program ends, or before."""
    environment = {name: v for name, v in os.environ.items() if name != "PYTHONUNBUFFERED"}
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-c", "from spark_jobs.commands.cli import main; main()", *command],
        stdout=write, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    os.close(write)
    assert done.stderr == ""
    assert done.returncode == 1


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
        assert f"| `{column.name}` | {column.stored_type} | {column.unit} |" in section


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
        (("run", *STORE, ROOT / "docs"), "no capture or log in a folder of it"),
        (("ingest", *STORE, "--network", "zz", "a.pcap"), "no network 'zz'"),
        (("flows", *STORE, *AA_GPRS, "--date", "yesterday"), "--date"),
        (("flows", *STORE, *AA_GPRS, "--date", "2004-03-02"), "no packets of aa-gprs"),
        (("report", "--warehouse", "nowhere", "--output", "r.html"), "no such warehouse"),
        (("marts", "--warehouse", "nowhere"), "no such warehouse"),
        (("marts", *STORE, "--network", "zz"), "no network 'zz'"),
        (("serve", "--warehouse", "nowhere"), "no such warehouse"),
        (("serve", "--warehouse", ".", "--port", "65536"), "--port"),
    ],
)
def test_user_errors_give_one_line_and_status_2(giscope, tmp_path, monkeypatch, args, reason):
    monkeypatch.chdir(tmp_path)
    answer = giscope(*args)
    assert answer.status == 2
    assert reason in answer.stderr
    assert len(answer.stderr.splitlines()) == 1
    assert answer.stderr.startswith("giscope: ")
    assert list(tmp_path.iterdir()) == []


def test_run_makes_everything_and_names_the_bad_file(tmp_path):
    captures = tmp_path / "captures" / "bb-gprs"
    captures.mkdir(parents=True)
    shutil.copy(CAPTURES / "bb-gprs/peak.pcap.zst", captures / "good.pcap.zst")
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


@pytest.mark.parametrize("more", [[], ["--keep-going"]], ids=["", "keep-going"])
def test_missing_capture_is_named_and_the_others_are_ingested(
    giscope, tmp_path, in_this_process, more
):
    good, wrong = tmp_path / "good.pcap.zst", tmp_path / "god.pcap.zst"
    good.symlink_to(CAPTURES / "bb-gprs/peak.pcap.zst")
    store = ("--warehouse", tmp_path / "w", "--networks", NETWORKS_FILE)
    answer = giscope("ingest", *store, "--network", "bb-gprs", *more, wrong, good)
    assert answer.status == 2
    assert answer.stderr == f"giscope: {wrong}: No such file or directory\n"
    query = "select capture, packets from ingest_log"
    logged = giscope("sql", *store[:2], "--format", "csv", query)
    assert logged.stdout == "capture,packets\ngood.pcap,157600\n"


def test_errors_for_lack_of_memory_are_one_line(giscope, monkeypatch):
    """Libraries raise these where memory is limited (ulimit -v), directly or as an error's
    cause."""
    import duckdb
    import pyarrow as pa

    of_memory = [
        MemoryError(),
        pa.ArrowMemoryError("malloc of size 56704 failed"),
        duckdb.OutOfMemoryException("Out of Memory Error: failed to allocate\n\nPossible"),
        ImportError("x.so: failed to map segment from shared object"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("can't start new thread"),
        KeyError("of another"),
    ]
    of_memory[-1].__cause__ = MemoryError()
    for error in of_memory:

        def failing(*_: object, error: Exception = error, **__: object) -> None:
            raise error

        monkeypatch.setattr(cli, "app", failing)
        answer = giscope("marts")
        assert (answer.status, len(answer.stderr.splitlines())) == (2, 1)
        assert answer.stderr.startswith("giscope: not enough memory: ")
    monkeypatch.setattr(cli, "app", lambda *_, **__: [][0])
    with pytest.raises(IndexError):
        giscope("marts")


def test_marts_with_too_little_memory_say_so_in_a_line(giscope, demo, tmp_path, monkeypatch):
    root = tmp_path / "w"
    shutil.copytree(demo.warehouse.root, root)
    for path in root.glob("table1_summary/**/*.parquet"):
        path.unlink()
    monkeypatch.setattr(marts, "GIB_PER_THREAD", 0.0001)
    answer = giscope("marts", "--warehouse", root)
    assert answer.status == 2
    *lines, _ = answer.stderr.splitlines()
    pattern = f"giscope: withheld: all marts of (.+) on {DAY}: not enough memory: Out of Memory "
    found = [re.match(pattern, line)[1] for line in lines]
    assert sorted(found) == [network for network, _ in Warehouse(root).days("marts")]


def test_folder_of_an_unknown_network_is_named(giscope, tmp_path):
    (tmp_path / "zz").mkdir()
    (tmp_path / "zz" / "a.pcap").write_bytes(b"")
    answer = giscope("run", "--warehouse", tmp_path / "w", "--networks", NETWORKS_FILE, tmp_path)
    assert answer.status == 2
    assert "no network 'zz'; it has aa-gprs, bb-gprs, cc-dialup" in answer.stderr


def imported_modules(command: list[str], folder: Path) -> set[str]:
    """Return the names of the modules that a command and its forks import."""
    program = [sys.executable, "-X", "importtime", GISCOPE]
    done = subprocess.run([*program, *command], capture_output=True, text=True, cwd=folder)
    assert done.stdout
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


@pytest.mark.parametrize(
    "command",
    [["--help"], ["schema", "flows"], ["run", "--help"], ["sql", "--warehouse", ".", "select 1"]],
    ids=lambda command: command[0],
)
def test_light_commands_import_no_slow_module(command, tmp_path):
    """Modules that take seconds to import are left to the commands that need them."""
    slow = {"numba", "pandas", "plotly", "pyspark", "scipy", "statsmodels"}
    assert slow & imported_modules(command, tmp_path) == set()


@pytest.mark.parametrize(
    ("command", "by_typer"),
    [(["--help"], set()), (["schema", "flows"], {"pydantic"})],
    ids=["help", "schema"],
)
def test_commands_without_a_warehouse_import_next_to_nothing(command, by_typer, tmp_path):
    """Each of these modules takes as long to import as such a command runs.

    by_typer: typer itself imports Pydantic for the value of an option or argument.
    """
    others = {"duckdb", "numpy", "pyarrow", "pydantic", "rich", "sqlalchemy", "xxhash"}
    others |= {"spark_jobs.settings.networks", "spark_jobs.warehouse"}
    assert others & imported_modules(command, tmp_path) == by_typer


def test_full_disk_is_said_once_and_blames_no_file(giscope, monkeypatch, tmp_path):
    """Each task has its own number of free bytes; a damaged file is still blamed."""
    captures = tmp_path / "captures" / "aa-gprs"
    captures.mkdir(parents=True)
    for name in ("a.pcap", "b.pcap", "c.pcap"):
        (captures / name).write_bytes(b"")
    full = ["no space left: 1 byte is free", "no space left: 2 bytes are free"]

    def ingest(_store, work, _front_end):
        return [
            CaptureOutcome(
                "aa-gprs", path.name, path, CaptureFacts(error=error), disk_full="space" in error
            )
            for (_, path), error in zip(work, [*full, "c.pcap: the file is empty"], strict=True)
        ]

    monkeypatch.setattr("spark_jobs.ingest.job.ingest", ingest)
    answer = giscope("ingest", "--warehouse", tmp_path / "w", *STORE[2:], *AA_GPRS, captures)
    assert answer.status == 2
    assert sorted(answer.stderr.splitlines()) == [
        "giscope: c.pcap: the file is empty",
        f"giscope: {full[1]}",
    ]
    assert answer.stdout.count("not stored: no space left") == 2
    assert answer.stdout.count("gave nothing") == 1


def test_marts_of_the_networks_in_a_file(giscope, demo, tmp_path):
    """As with `check`: the file names the networks; the others stay as they are."""
    one = tmp_path / "one.toml"
    one.write_text(
        '[[network]]\nname = "cc-dialup"\ncountry = "CC"\naccess = "dialup"\n'
        'timezone = "Europe/Budapest"\nsubscribers = ["10.64.0.0/14"]\n'
    )
    root = tmp_path / "w"
    shutil.copytree(demo.warehouse.root, root)
    store = Warehouse(root)
    for network, day in store.days("marts"):
        store.publish(Unit.of_day("marts", network, day), [], {"inputs": ""})
    options = ("--warehouse", root, "--networks")
    assert giscope("marts", *options, one).stdout == "marts of 1 network days made\n"
    assert {network for network, _ in days_with_marts(root)} == {"cc-dialup"}
    assert giscope("marts", *options, NETWORKS_FILE).stdout == "marts of 2 network days made\n"
    assert len(days_with_marts(root)) == 3


def days_with_marts(root: Path) -> list[tuple]:
    query = "select distinct network, date from table1_summary"
    return Warehouse(root).connect(query).sql(query).fetchall()
