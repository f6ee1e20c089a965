"""The package in zeek_scripts/, where a zeek is on the PATH."""

import shutil
import subprocess

import pytest
from conftest import CAPTURES, NETWORKS_FILE, ROOT
from typer.testing import CliRunner

from spark_jobs.capture.front_end import FrontEnd
from spark_jobs.cli import app
from spark_jobs.jobs.ingest import ingest_capture
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


@needs_zeek
def test_accounting_script_logs_start_and_stop(tmp_path, networks):
    """A start that names the IMSI (3GPP TS 29.061), and a stop two hours later."""
    from capture_files import Frame, pcap
    from scapy.layers.inet import IP, UDP

    def attribute(kind: int, value: bytes) -> bytes:
        return bytes([kind, len(value) + 2]) + value

    def request(status: int, *more: bytes) -> bytes:
        imsi = b"001010123456789"
        body = attribute(40, status.to_bytes(4, "big")) + attribute(8, bytes([10, 64, 0, 1]))
        body += attribute(44, b"s1") + attribute(1, b"anyone")
        body += attribute(26, b"\0\0\x28\xaf\x01" + bytes([len(imsi) + 2]) + imsi) + b"".join(more)
        data = bytes([4, status]) + (20 + len(body)).to_bytes(2, "big") + bytes(16) + body
        return bytes(IP(src="192.0.2.1", dst="192.0.2.2") / UDP(sport=1813, dport=1813) / data)

    noon = 1_078_228_800
    session_time = attribute(46, (7200).to_bytes(4, "big"))
    frames = [
        Frame(request(1), noon * 1_000_000),
        Frame(request(2, session_time), (noon + 7200) * 1_000_000),
    ]
    (tmp_path / "radius.pcap").write_bytes(pcap(frames))
    script = ROOT / "zeek_scripts/scripts/accounting.zeek"
    subprocess.run(["zeek", "-b", "-C", "-r", "radius.pcap", script], cwd=tmp_path, check=True)
    warehouse = Warehouse(tmp_path / "w")
    log = tmp_path / "giscope_accounting.log"
    assert ingest_capture(warehouse, networks["aa-gprs"], log).error is None
    found = warehouse.connect().execute(
        "select status, address, subscriber, session_time from accounting order by ts"
    )
    assert found.fetchall() == [
        ("start", "10.64.0.1", "001010123456789", None),
        ("stop", "10.64.0.1", "001010123456789", 7200.0),
    ]
