"""A read-only warehouse: commands that read work, those that write fail with a line."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import CAPTURES, DAY, NETWORKS_FILE, ROOT, ask

from spark_jobs.commands.cli import main
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit

COMMANDS = """
import contextlib, json, sys, tempfile
from spark_jobs.commands.cli import main
answers = []
for command in json.loads(sys.argv[1]):
    status, said = 0, tempfile.TemporaryFile("w+")  # a fork writes to it, too
    with contextlib.redirect_stderr(said):
        try:
            main(command)
        except SystemExit as end:
            status = end.code
    said.seek(0)
    answers.append((status, said.read()))
print(json.dumps(answers))
"""
NETWORKS = ["--networks", str(NETWORKS_FILE)]
CAPTURE = str(CAPTURES / "bb-gprs/peak.pcap.zst")
OBEYS_MODES = [] if os.geteuid() else ["setpriv", "--bounding-set=-dac_override"]
"""Prefix of commands, so that root obeys file modes, too."""


@pytest.fixture(scope="module")
def read_only(whole_demo, tmp_path_factory) -> Path:
    """Make a read-only copy of the demo's warehouse, its day of bb-gprs not up to date."""
    root = tmp_path_factory.mktemp("read-only") / "w"
    shutil.copytree(whole_demo.warehouse.root, root)
    warehouse, day = Warehouse(root), Unit.of_day("day", "bb-gprs", DAY)
    warehouse.publish(day, {}, warehouse.published(day).facts | {"inputs": ""})
    for path in [root, *root.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    return root


def answers(*commands: list[str]) -> list[tuple[int, str]]:
    """Run commands one after the other, obeying file modes; return status and stderr of each."""
    done = subprocess.run(
        [*OBEYS_MODES, sys.executable, "-c", COMMANDS, json.dumps(commands)],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(bool(OBEYS_MODES) and not shutil.which("setpriv"), reason="root, no setpriv")
def test_commands_that_read_work(whole_demo, read_only, tmp_path):
    query = "select min(flow_id) from flows where network = 'aa-gprs'"
    (row,) = ask(whole_demo.warehouse, query).fetchall()
    store = ["--warehouse", str(read_only)]
    flow = str(row[0])
    pages = [tmp_path / "report.html", tmp_path / "compared.html", tmp_path / "flow.html"]
    halves = ["--compare", "hours=peak", "--compare", "hours=off-peak"]
    found = answers(
        ["sql", *store, "select count(*) from flows"],
        ["why", *store, flow],
        ["report", *store, "--output", str(pages[0])],
        ["report", *store, "--output", str(pages[1]), *halves],
        ["plot", *store, flow, "--output", str(pages[2])],
        ["schema", "flows"],
    )
    assert found == [[0, ""]] * 6
    assert all(page.stat().st_size > 10_000 for page in pages)


@pytest.mark.skipif(bool(OBEYS_MODES) and not shutil.which("setpriv"), reason="root, no setpriv")
def test_commands_that_write_name_the_folder_they_may_not_write(read_only):
    store = ["--warehouse", str(read_only)]
    network = ["--network", "bb-gprs"]
    commands = [
        ["run", *store, *NETWORKS, str(CAPTURES)],
        ["ingest", *store, *NETWORKS, *network, CAPTURE],
        ["flows", *store, *NETWORKS, *network],
        ["flows", *store, *NETWORKS, *network, "--date", str(DAY)],
        ["marts", *store],
        ["report", *store, "--output", str(read_only / "mine.html")],
        ["sql", *store, "--write", f"copy (select 1) to '{read_only}/mine.csv'"],
    ]
    for command, (status, said) in zip(commands, answers(*commands), strict=True):
        assert status == 2, command
        assert len(said.splitlines()) == 1, said
        assert "Permission denied" in said
        assert str(read_only) in said


@pytest.mark.parametrize("command", ["run", "ingest", "flows"])
def test_warehouse_that_cannot_be_made_is_reported_in_a_line(command, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    rest = {"run": [str(CAPTURES)], "ingest": ["--network", "bb-gprs", CAPTURE]}
    store = ["--warehouse", str(tmp_path / "file/w"), *NETWORKS]
    with pytest.raises(SystemExit) as end:
        main([command, *store, *rest.get(command, ["--network", "bb-gprs"])])
    assert end.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"giscope: {tmp_path}/file/w")
    assert line.endswith(": Not a directory")
