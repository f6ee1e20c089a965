"""The package in zeek_scripts/, where a zeek is on the PATH."""

import shutil
import subprocess

import pytest
from conftest import CAPTURES, NETWORKS_FILE, ROOT
from typer.testing import CliRunner

from spark_jobs.capture.front_end import FrontEnd
from spark_jobs.cli import app
from spark_jobs.ingest import ingest_capture
from spark_jobs.warehouse import Warehouse

CAPTURE = CAPTURES / "aa-gprs/peak.pcap.zst"
needs_zeek = pytest.mark.skipif(not shutil.which("zeek"), reason="no zeek on the PATH")
needs_btest = pytest.mark.skipif(
    not (shutil.which("zeek") and shutil.which("btest")), reason="no zeek and btest on the PATH"
)


@needs_zeek
def test_zeek_gives_the_packets_of_the_built_in_reader(tmp_path, networks):
    rows = []
    for front_end in (FrontEnd.ZEEK, FrontEnd.BUILTIN):
        warehouse = Warehouse(tmp_path / front_end)
        result = ingest_capture(warehouse, networks["aa-gprs"], CAPTURE, front_end)
        assert result.error is None
        rows.append(warehouse.connect().execute("select * from packets order by frame").arrow())
    assert rows[0] == rows[1]


@needs_btest
def test_btest_of_the_package():
    subprocess.run(["btest", "-d"], cwd=ROOT / "zeek_scripts/testing", check=True)


def test_without_zeek_the_front_end_says_what_it_needs(tmp_path, networks, monkeypatch):
    monkeypatch.setenv("PATH", "")
    result = ingest_capture(Warehouse(tmp_path), networks["aa-gprs"], CAPTURE, FrontEnd.ZEEK)
    assert result.error == f"{CAPTURE}: --front-end zeek needs the program zeek on the PATH"


def test_zeek_options_prints_the_network_prefixes():
    arguments = ["zeek-options", "--networks", str(NETWORKS_FILE), "--network", "aa-gprs"]
    said = CliRunner().invoke(app, arguments)
    assert said.stdout == "redef GiScope::subscribers += {\n\t10.64.0.0/14,\n};\n"
