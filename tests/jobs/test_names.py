"""Captures and warehouses of any name are ingested, or refused in a line."""

import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import duckdb
import pytest
from conftest import NETWORKS_FILE, ask, count

from spark_jobs.commands import cli
from spark_jobs.ingest.files import capture_name
from spark_jobs.ingest.job import ingest
from spark_jobs.warehouse.storage import VIEWS
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.bad_input import changed
from tests.helpers.capture_files import NOON, Frame, pcap
from tests.helpers.layers import DATA, SYN

LONG = "ü" * 110
"""A name of 220 bytes, and of 660 once percent-quoted."""
NAMES = {
    "long": f"{LONG}.pcap",
    "long, quoted": f"{'%[]~+ ' * 35}.pcap",
    "not UTF-8": os.fsdecode(b"Gi \xff\xfe link.pcap"),
    "markup": "[red]x[blink] :boom:.pcap",
    "markup that ends, with its folder": "[/bold] x.pcap",
    "two lines": "one\ntwo\r\u2028.pcap",
    "of a terminal": "\x1b[31mred\x07.pcap",
    "quotes": "'\"` $(x) \\n %0a.pcap",
}


def capture(path: Path, packets: int = 2, when: int = NOON) -> Path:
    """Write a capture of the first network with so many packets; its content depends on `when`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ids = [changed((SYN, DATA)[i % 2], 4, bytes([i, 0])) for i in range(packets)]
    path.write_bytes(pcap([Frame(packet, when + i) for i, packet in enumerate(ids)]))
    return path


@pytest.fixture
def giscope(capfd, monkeypatch, in_this_process):
    """Run a command in this process: its exit status, and the lines printed to either stream."""
    monkeypatch.setattr("spark_jobs.commands.text_grid.PIPE_WIDTH", 500)

    def run(*args: object) -> tuple[int, list[str], list[str]]:
        status = 0
        try:
            cli.main([str(arg) for arg in args])
        except SystemExit as end:
            status = int(end.code or 0)
        printed = capfd.readouterr()
        return status, printed.out.split("\n")[:-1], printed.err.split("\n")[:-1]

    return run


@pytest.fixture
def ingested(giscope, tmp_path):
    def run(*files: Path):
        options = ("--warehouse", tmp_path / "w", "--networks", NETWORKS_FILE)
        return giscope("ingest", *options, "--network", "aa-gprs", *files)

    return run


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_capture_of_any_name_is_ingested(ingested, tmp_path, name):
    path = capture(tmp_path / name)
    status, out, err = ingested(path)
    assert (status, err) == (0, [])
    warehouse = Warehouse(tmp_path / "w")
    assert count(warehouse) == 2
    names = ask(warehouse, "select capture from ingest_log").fetchall()
    assert names == [(capture_name(path),)]
    assert sum(capture_name(path) in line for line in out) == 1
    assert ingested(path)[0] == 0
    capture(path, 4)
    assert ingested(path)[0] == 0
    assert count(Warehouse(tmp_path / "w")) == 4


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_an_error_about_a_capture_of_any_name_is_one_printable_line(ingested, tmp_path, name):
    path = capture(tmp_path / name)
    path.write_bytes(b"no capture at all")
    status, _, err = ingested(path)
    assert status == 2
    (line,) = err
    assert line.startswith("giscope: ")
    assert "not a pcap or pcapng capture" in line
    assert line.isprintable()


def test_a_name_that_no_file_can_have_is_refused_in_a_line(ingested):
    status, _, err = ingested(Path("x" * 300 + ".pcap"))
    assert status == 2
    (line,) = err
    assert "too long" in line


def test_names_that_differ_only_at_their_ends_are_different_captures(ingested, tmp_path):
    stem = "é" * 120
    paths = [capture(tmp_path / f"{stem}{i}.pcap", 2, NOON + i * 1000) for i in range(3)]
    for path in paths:
        assert ingested(path)[0] == 0
    assert count(Warehouse(tmp_path / "w")) == 6
    assert count(Warehouse(tmp_path / "w"), "ingest_log") == 3
    capture(paths[1], 3, NOON + 1000)
    assert ingested(paths[1])[0] == 0
    assert count(Warehouse(tmp_path / "w")) == 7


def test_two_names_that_are_printed_alike_are_refused(ingested, tmp_path):
    status, _, err = ingested(capture(tmp_path / "a\nb.pcap"), capture(tmp_path / "a\\nb.pcap"))
    assert (status, len(err)) == (2, 1)
    assert "same capture name" in err[0]


ODD_FOLDERS = ["what?", "[a-z]", "s*r", "{a,b}", "it's", "back\\slash", "per%20cent", "[x"]


def make_folders_that_a_pattern_would_match(folder: Path) -> None:
    """Make folders that the folder's name would match if it were a pattern."""
    for other in ("whatX", "a", "sr", "b", "x"):
        (folder.parent / other).mkdir(exist_ok=True)


@pytest.mark.parametrize("name", ODD_FOLDERS)
def test_a_warehouse_may_lie_anywhere(giscope, tmp_path, network, name):
    root = tmp_path / name / "w"
    make_folders_that_a_pattern_would_match(root.parent)
    common = ("--warehouse", root, "--networks", NETWORKS_FILE, "--network", "aa-gprs")
    assert giscope("ingest", *common, capture(tmp_path / "x.pcap"))[0] == 0
    for other in root.parent.parent.iterdir():
        if other.is_dir() and other != root.parent:
            ingest(Warehouse(other / "w"), [(network, capture(tmp_path / "y.pcap", 4))])
    assert giscope("flows", *common)[0] == 0
    query = "select (select count(*) from packets), (select count(*) from flows)"
    status, out, err = giscope("sql", "--warehouse", root, "--format", "csv", query)
    assert (status, out[1:], err) == (0, ["2,1"], [])
    assert count(Warehouse(root), f"packets where date = '{date(2023, 11, 14)}'") == 2
    assert (root / VIEWS).exists()
    if "\\" not in name:
        with duckdb.connect(root / VIEWS, read_only=True) as views:
            assert views.sql("select count(*) from packets").fetchall() == [(2,)]


@pytest.mark.parametrize("part", ["network=x", "date=2001-01-01"])
def test_a_warehouse_within_a_partition_of_another_is_refused_in_a_line(giscope, tmp_path, part):
    root = tmp_path / part
    root.mkdir()
    status, _, err = giscope("sql", "--warehouse", root, "select 1")
    assert (status, len(err)) == (2, 1)
    assert part in err[0]


def test_the_installed_command_prints_bytes_that_are_no_text(tmp_path):
    path = capture(tmp_path / os.fsdecode(b"\xff\n[b].pcap"))
    options = ["--warehouse", tmp_path / "w", "--networks", NETWORKS_FILE, "--network", "aa-gprs"]
    command = [Path(sys.executable).with_name("giscope"), "ingest", *options, path]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0
    assert rb"\xff\n[b].pcap" in done.stdout
    assert b"Traceback" not in done.stderr
