"""The package in zeek_scripts/ as a site installs it, and its entries."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from capture_files import Frame, pcap, timed
from conftest import CAPTURES, NETWORKS_FILE, ROOT
from layers import DATA, DATAGRAM, PING, SYN, SYN6
from scapy.layers.inet import IP, UDP
from typer.testing import CliRunner

from spark_jobs.capture.front_end import FrontEnd
from spark_jobs.cli import app
from spark_jobs.jobs.ingest import ingest_capture
from spark_jobs.warehouse import Warehouse

CAPTURE = CAPTURES / "aa-gprs/peak.pcap.zst"
TOOLS = Path(sys.executable).parent
"""Where btest and zkg are installed."""


@pytest.fixture
def tools(zeek, monkeypatch) -> None:
    """btest and zkg are on the PATH."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.usefixtures("tools", "zeek_plugin")
def test_btest_of_the_package():
    """Of the script and of the plugin."""
    folder = ROOT / "zeek_scripts/testing"
    done = subprocess.run(["btest", "-d"], cwd=folder, capture_output=True, text=True)
    assert "all 2 tests successful" in done.stdout + done.stderr


def test_packets_of_the_btest_are_those_of_the_tests():
    trace = ROOT / "zeek_scripts/testing/traces/packets.pcap"
    assert trace.read_bytes() == pcap(timed([SYN, DATA, DATAGRAM, PING, SYN6]))


@pytest.mark.usefixtures("tools", "zeek_plugin")
def test_zkg_installs_tests_and_builds_the_package(tmp_path):
    """From a git repository; then Zeek with its own logs takes packets by the plugin, and by the
    script where there is none."""
    package = tmp_path / "giscope"
    shutil.copytree(ROOT / "zeek_scripts", package, ignore=shutil.ignore_patterns(".tmp"))
    author = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    for command in (["init", "-q"], ["add", "-A"], [*author, "commit", "-qm", "giscope"]):
        subprocess.run(["git", "-C", package, *command], check=True)
    config = tmp_path / "config"
    places = {f"{name}_dir": tmp_path / name for name in ("state", "script", "plugin", "bin")}
    lines = [f"{name} = {path}" for name, path in places.items()]
    config.write_text("\n".join(["[sources]", "[paths]", *lines, "zeek_dist =", ""]))
    install = ["zkg", "--configfile", config, "install", "--force", package]
    said = subprocess.run(install, capture_output=True, text=True)
    assert "Running unit tests for" in said.stdout, said.stderr
    assert f'Loaded "{package}"' in said.stdout, said.stdout

    trace = ROOT / "zeek_scripts/testing/traces/packets.pcap"
    scripts = os.pathsep.join([os.environ["ZEEKPATH"], str(places["script_dir"])])
    (tmp_path / "subscribers.zeek").write_text("redef GiScope::subscribers += { 10.64.0.0/14 };")
    for plugins, packets in (
        (places["plugin_dir"], "giscope_packets.pcap"),
        ("", "giscope_packets.log"),
    ):
        folder = tmp_path / packets
        folder.mkdir()
        subprocess.run(
            ["zeek", "-C", "-r", trace, "packages", tmp_path / "subscribers.zeek"],
            cwd=folder,
            env=os.environ | {"ZEEKPATH": scripts, "ZEEK_PLUGIN_PATH": str(plugins)},
            check=True,
        )
        assert (folder / packets).exists()
        assert (folder / "conn.log").exists()


def test_without_zeek_the_front_end_says_what_it_needs(tmp_path, networks, monkeypatch):
    monkeypatch.setenv("PATH", "")
    result = ingest_capture(Warehouse(tmp_path), networks["aa-gprs"], CAPTURE, FrontEnd.ZEEK)
    assert result.error == f"{CAPTURE}: --front-end zeek needs the program zeek on the PATH"


def test_zeek_options_prints_the_network_prefixes():
    arguments = ["zeek-options", "--networks", str(NETWORKS_FILE), "--network", "aa-gprs"]
    said = CliRunner().invoke(app, arguments)
    assert said.stdout == "redef GiScope::subscribers += {\n\t10.64.0.0/14,\n};\n"


def attribute(kind: int, value: bytes) -> bytes:
    return bytes([kind, len(value) + 2]) + value


def radius(code: int, number: int, *attributes: bytes, server="192.0.2.2", answer=False) -> Frame:
    """A message between an access server's port 1813 and a server's 1812."""
    body = b"".join(attributes)
    data = bytes([code, number]) + (20 + len(body)).to_bytes(2, "big") + bytes(16) + body
    client, ports = "192.0.2.1", {"sport": 5000, "dport": 1812}
    if answer:
        return Frame(bytes(IP(src=server, dst=client) / UDP(sport=1812, dport=5000) / data))
    return Frame(bytes(IP(src=client, dst=server) / UDP(**ports) / data))


@pytest.mark.usefixtures("zeek")
def test_accounting_script_on_attributes_that_are_not_as_they_should_be(tmp_path):
    """Two servers asked by the same number; an empty calling number; an address of 3 bytes; a
    status that accounting does not have; vendors' attributes that are cut."""
    name, address, calling, status, vendor = 1, 8, 31, 40, 26
    here = attribute(address, bytes([10, 64, 0, 1]))
    there = attribute(address, bytes([10, 64, 0, 2]))
    other = "192.0.2.3"
    frames = [
        radius(1, 7, attribute(name, b"anna"), attribute(calling, b"")),
        radius(1, 7, attribute(name, b"bert"), server=other),
        radius(2, 7, here, answer=True),
        radius(2, 7, there, server=other, answer=True),
        radius(1, 8, attribute(name, b"cleo")),
        radius(2, 8, attribute(address, b"abc"), answer=True),
        radius(4, 9, attribute(status, b""), attribute(name, b"dora"), here),
        radius(
            4,
            10,
            attribute(status, bytes([0, 0, 0, 1])),
            attribute(name, b"ewa"),
            there,
            attribute(vendor, b"a"),
            attribute(vendor, b"\0\0\x28\xaf\x01\xff12"),
        ),
    ]
    (tmp_path / "radius.pcap").write_bytes(pcap(frames))
    script = ROOT / "zeek_scripts/scripts/accounting.zeek"
    command = ["zeek", "-b", "-C", "-r", "radius.pcap", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    lines = (tmp_path / "giscope_accounting.log").read_text().splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    assert [(row[2], row[4], row[5]) for row in rows] == [
        ("0", "10.64.0.1", "anna"),
        ("0", "10.64.0.2", "bert"),
        ("1", "10.64.0.2", "ewa"),
    ]


@pytest.mark.usefixtures("zeek")
def test_accounting_script_logs_start_and_stop(tmp_path, networks):
    """A start that names the IMSI (3GPP TS 29.061), and a stop two hours later."""

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
