"""Queries, programs, commands, names and links that the documentation shows are right."""

import json
import os
import re
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
import zstandard
from conftest import CAPTURES, ROOT, ask

from schemas import FROM_ZEEK_LOGS
from spark_jobs.base.sources import compiled_folder
from spark_jobs.commands import cli
from spark_jobs.engine.queries import run_query
from spark_jobs.figures.sql_functions import register
from spark_jobs.figures.tables import TABLES
from spark_jobs.queries.limits import MEMORY, SUPERSET_SECONDS, Limits
from spark_jobs.tables.registry import ROWS
from spark_jobs.warehouse.storage import VIEWS
from tests.helpers.command import giscope
from tests.programs.accuracy.sensitivity import constants
from tests.programs.many_days import moved


def blocks(page: Path, language: str) -> list[str]:
    """Return the page's code blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "zeek_scripts/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
QUERIES = blocks(ROOT / "docs/queries.md", "sql")
LIMITS = Limits.of(SUPERSET_SECONDS, MEMORY)


@pytest.mark.parametrize("query", QUERIES)
def test_query_answers_on_the_shipped_captures(demo, query):
    """Some rows, and a value in every column; within the limits of a query."""
    with duckdb.connect(demo.warehouse.root / VIEWS, read_only=True) as connection:
        register(connection)
        answer = connection.sql(query).to_arrow_table()
    assert len(answer)
    assert [name for name in answer.column_names if answer[name].null_count == len(answer)] == []
    with run_query(demo.warehouse, query, LIMITS) as answered:
        columns, rows = answered.columns_and_rows()
        assert (columns, len(list(rows))) == (answer.column_names, len(answer))


def test_users_who_stall_together_stand_out(demo):
    """Half of a network's users, made to stall in the same minute: beyond chance, as none were."""
    (query,) = (query for query in QUERIES if "variance_ratio" in query)
    with duckdb.connect(demo.warehouse.root / VIEWS, read_only=True) as connection:
        before = connection.sql(query).fetchall()
        connection.execute("""
            create temporary table together as
            select stalls.* replace (
                first + interval 5 minutes as start_ts, first + interval 6 minutes as end_ts,
                'packet_delay' as class
            )
            from stalls
            join flows using (network, date, flow_id)
            cross join (select min(start_ts) as first from flows where network = 'bb-gprs')
            where network = 'bb-gprs' and hash(user) % 2 = 0
            qualify row_number() over (partition by user order by stalls.start_ts) = 1
        """)
        connection.execute("""
            create temporary view published_stalls as
            select * from warehouse.stalls union all by name select * from together
        """)
        together = connection.sql(query).fetchall()
    assert {row[0] for row in before} >= {"aa-gprs", "bb-gprs", "cc-dialup"}
    assert all(times < 2 for *_, times in before)
    (network, *_, times), *others = together
    assert network == "bb-gprs"
    assert times > 10
    assert all(times < 2 for *_, times in others)


@pytest.mark.integration
def test_iceberg_program_runs(demo):
    """And the program for past snapshots: at a future time it finds the present one."""
    program, _ = blocks(ROOT / "docs/iceberg.md", "python")
    past, _ = blocks(ROOT / "docs/queries.md", "python")
    for text in (program, past.replace("1795424400000", "4102444800000")):
        *before, last = text.replace("/data/W", str(demo.warehouse.root)).splitlines()
        known: dict[str, Any] = {}
        exec("\n".join(before), known)
        assert len(eval(last, known))


def test_queries_show_the_main_tables():
    """Connections, retransmissions, channel rates, the log of captures and the networks."""
    page = " ".join(QUERIES)
    named = {name for name in TABLES if re.search(rf"\b(published_)?{name}\b", page)}
    assert {"flows", "retransmissions", "channel_rates", "ingest_log", "networks"} <= named


@pytest.mark.integration
def test_spark_program_runs(demo, monkeypatch, tmp_path):
    _, program = blocks(ROOT / "docs/queries.md", "python")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "build").mkdir()
    (tmp_path / "build/demo").symlink_to(demo.warehouse.root)
    exec(program, {})


def test_every_constant_of_the_loss_model_is_listed_with_its_value():
    page = (ROOT / "docs/losses.md").read_text()
    listed = re.findall(r"^\| `(\w+\.\w+)` \| ([\d. ]+) \|", page, re.MULTILINE)
    assert {name: float(value.replace(" ", "")) for name, value in listed} == constants()


def run_script(script: str, folder: Path, **variables: str) -> str:
    """Run a page's script in a folder with these variables, and return its output."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", f"set -euo pipefail\n{script}"],
        cwd=folder,
        env={**os.environ, "PATH": programs, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow  # Spark starts, and more than a minute on two busy cores
@pytest.mark.parametrize("hours_later", [0, 12], ids=["at peak", "at night"])
def test_tutorial_works_word_for_word(tmp_path, hours_later):
    """Its commands, one after the other, with a shipped capture as the reader's own."""
    with (CAPTURES / "bb-gprs/peak.pcap.zst").open("rb") as file:
        capture = zstandard.ZstdDecompressor().stream_reader(file).read()
    later = moved(capture, timedelta(hours=hours_later))
    (tmp_path / "monday.pcap").write_bytes(later)
    script = "\n".join(blocks(ROOT / "docs/tutorial.md", "sh"))
    own = {"HOME": str(tmp_path), "NUMBA_CACHE_DIR": str(compiled_folder())}
    printed = run_script(script, tmp_path, PYTHONPATH=str(ROOT), **own)
    report = (tmp_path / "gi/W/report.html").read_text()
    assert (">mine all hours<" in report) == bool(hours_later)
    assert (">mine peak<" in report) != bool(hours_later)
    *_, speed, limits, losses, retransmissions, stalls, page = printed.splitlines()
    assert Path(page).is_file()
    for sentence, word in (
        (speed, "kbit/s"),
        (limits, "access link"),
        (losses, "lost"),
        (retransmissions, "retransmitted"),
        (stalls, "stalled"),
    ):
        assert word in sentence


@pytest.mark.integration
def test_the_new_figure_of_contributing_is_on_its_pages(demo, tmp_path):
    """Its files and commands, word for word, in a copy of the code."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    (name,) = re.findall(r"^`spark_jobs/figures/(\w+)/` with these", page, re.MULTILINE)
    for folder in ("schemas", "spark_jobs"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copytree(demo.warehouse.root, tmp_path / "build/demo")
    figure = tmp_path / "spark_jobs/figures" / name
    figure.mkdir(exist_ok=True)
    block = r"^`(\w+\.\w+)`: .*?^```\w+\n(.*?)^```$"
    files = re.findall(block, page, re.MULTILINE | re.DOTALL)
    assert [file for file, _ in files] == ["mart.sql", "figure.py", "example.toml"]
    assert sum(len(text.splitlines()) for _, text in files) <= 60
    for file, text in files:
        (figure / file).write_text(text)
    (script,) = blocks(ROOT / "CONTRIBUTING.md", "sh")
    run_script(script, tmp_path, PYTHONPATH=str(tmp_path))
    query = """
        select avg(if(rto_expiries > 0, 100, 0)) from flows
        where network = 'bb-gprs' and initiator = 'mobile' and rto_expiries is not null
    """
    ((share,),) = ask(demo.warehouse, query).fetchall()
    report = (tmp_path / "build/report.html").read_text()
    (section,) = re.findall(r'<section id="connections-with-rto-expiry".*?</section>', report, re.S)
    assert f">{share:.1f}\N{NO-BREAK SPACE}% (" in section
    assets = json.loads((tmp_path / "build/assets.json").read_text())
    assert "charts/connections_with_an_rto_expiry_by_local_hour.yaml" in assets


README_COMMANDS = re.findall(
    r'^\$ ask "(.*?)"\n(.*?)(?=^#|^```)',
    (ROOT / "README.md").read_text(),
    re.MULTILINE | re.DOTALL,
)


@pytest.mark.parametrize(("query", "answer"), README_COMMANDS)
def test_readme_shows_the_answers_that_the_command_prints(whole_demo, query, answer):
    assert (
        giscope("sql", "--warehouse", whole_demo.warehouse.root, "--format", "csv", query).stdout
        == answer
    )


def test_readme_explains_the_connection_as_the_command_does(whole_demo):
    """The user's name depends on the key."""
    [(arguments, answer)] = re.findall(
        r"^\$ giscope why --warehouse build/demo (.*?)\n(.*?)^```",
        (ROOT / "README.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    said = giscope("why", "--warehouse", whole_demo.warehouse.root, *arguments.split()).stdout
    assert [re.sub(r"\b[a-z2-7]{16}\b", "USER", text) for text in (said, answer)] == [
        re.sub(r"\b[a-z2-7]{16}\b", "USER", answer)
    ] * 2


def test_readme_answers_six_questions():
    assert len(README_COMMANDS) == 5
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_reference_page_is_what_the_commands_print():
    """To repair it: make docs."""
    command = "typer spark_jobs.commands.cli utils docs --name giscope --title Commands"
    printed = subprocess.run(
        [sys.executable, "-m", *command.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (ROOT / "docs/reference.md").read_text() == printed.stdout


def test_schema_page_is_what_the_command_prints(capsys):
    """To repair it: make docs."""
    cli.main(["schema", "--format", "markdown"])
    assert (ROOT / "docs/schema.md").read_text() == capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_columns_named_in_prose_exist(page):
    """`table.column`, but for names of files."""
    named = re.findall(r"`(\w+)\.(\w+)`", page.read_text())
    columns = {name: set(table.arrow_with_partitions.names) for name, table in TABLES.items()}
    missing = {
        f"{table}.{column}"
        for table, column in named
        if table in columns and column not in {*columns[table], "py", "toml"}
    }
    assert missing == set()


def test_method_page_names_every_table_made_by_estimators():
    """Tables read from Zeek's logs, as sessions, are not estimated."""
    page = (ROOT / "docs/method.md").read_text()
    estimated = [table.name for table in ROWS if table not in FROM_ZEEK_LOGS]
    assert [name for name in estimated if f"`{name}" not in page] == []


def test_tests_named_on_the_threats_page_exist():
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", (ROOT / "docs/threats.md").read_text())
    assert len(named) > 25
    for file, name in named:
        assert f"\ndef {name}(" in (ROOT / "tests" / file).read_text(), (file, name)
