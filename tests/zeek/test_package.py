"""The package in zeek_scripts/ as a site installs it, and its entries."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import CAPTURES, NETWORKS_FILE, NOON, ROOT, ask
from scapy.layers.inet import IP, UDP
from typer.testing import CliRunner

from spark_jobs.capture import FrontEnd
from spark_jobs.commands.cli import app
from spark_jobs.ingest.job import ingest_capture
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.capture_files import Frame, pcap, timed
from tests.helpers.layers import DATA, DATAGRAM, PING, SYN, SYN6
from tests.helpers.zeek_program import SCRIPTS, SUBSCRIBERS_SCRIPT

CAPTURE = CAPTURES / "aa-gprs/peak.pcap.zst"
TOOLS = Path(sys.executable).parent
"""Where btest and zkg are installed."""


@pytest.fixture
def tools(zeek, monkeypatch) -> None:
    """btest and zkg are on the PATH."""
    monkeypatch.setenv("PATH", f"{TOOLS}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.usefixtures("tools", "zeek_plugin")
def test_btests_of_the_package_pass():
    """Of the script and of the plugin."""
    folder = ROOT / "zeek_scripts/testing"
    done = subprocess.run(["btest", "-d"], cwd=folder, capture_output=True, text=True)
    assert "all 2 tests successful" in done.stdout + done.stderr


def test_packets_of_the_btest_are_those_of_the_tests():
    capture = ROOT / "zeek_scripts/testing/traces/packets.pcap"
    assert capture.read_bytes() == pcap(timed([SYN, DATA, DATAGRAM, PING, SYN6]))


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
    output = subprocess.run(install, capture_output=True, text=True)
    assert "Running unit tests for" in output.stdout, output.stderr
    assert f'Loaded "{package}"' in output.stdout, output.stdout

    capture = ROOT / "zeek_scripts/testing/traces/packets.pcap"
    scripts = os.pathsep.join([os.environ["ZEEKPATH"], str(places["script_dir"])])
    (tmp_path / "subscribers.zeek").write_text(SUBSCRIBERS_SCRIPT)
    for plugins, packets in (
        (places["plugin_dir"], "giscope_packets.pcap"),
        ("", "giscope_packets.log"),
    ):
        folder = tmp_path / packets
        folder.mkdir()
        subprocess.run(
            ["zeek", "-C", "-r", capture, "packages", tmp_path / "subscribers.zeek"],
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
    output = CliRunner().invoke(app, arguments)
    assert output.stdout == "redef GiScope::subscribers += {\n\t10.64.0.0/14,\n};\n"


REQUEST, ACCEPT, ACCOUNTING = 1, 2, 4
NAME, ADDRESS, VENDOR, CALLING, STATUS, SESSION, SESSION_TIME = 1, 8, 26, 31, 40, 44, 46
"""Codes and attributes of RFC 2865 and RFC 2866."""


def attribute(kind: int, value: bytes) -> bytes:
    return bytes([kind, len(value) + 2]) + value


def radius(code: int, number: int, *attributes: bytes, server="192.0.2.2") -> bytes:
    """A message between an access server and a server; 2: the server's answer."""
    body = b"".join(attributes)
    data = bytes([code, number]) + (20 + len(body)).to_bytes(2, "big") + bytes(16) + body
    if code == ACCEPT:
        return bytes(IP(src=server, dst="192.0.2.1") / UDP(sport=1812, dport=5000) / data)
    return bytes(IP(src="192.0.2.1", dst=server) / UDP(sport=5000, dport=1812) / data)


def accounting_log(folder: Path, frames: list[Frame]) -> Path:
    """Return the log that the package's script writes of them; it prints no warning."""
    (folder / "radius.pcap").write_bytes(pcap(frames))
    command = ["zeek", "-b", "-C", "-r", "radius.pcap", SCRIPTS / "accounting.zeek"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return folder / "giscope_accounting.log"


@pytest.mark.usefixtures("zeek")
def test_accounting_script_skips_malformed_attributes(tmp_path):
    """Two servers asked by the same number; an empty calling number; an address of 3 bytes; a
    status that accounting does not have; vendors' attributes that are cut."""
    here = attribute(ADDRESS, bytes([10, 64, 0, 1]))
    there = attribute(ADDRESS, bytes([10, 64, 0, 2]))
    other = "192.0.2.3"
    messages = [
        radius(REQUEST, 7, attribute(NAME, b"anna"), attribute(CALLING, b"")),
        radius(REQUEST, 7, attribute(NAME, b"bert"), server=other),
        radius(ACCEPT, 7, here),
        radius(ACCEPT, 7, there, server=other),
        radius(REQUEST, 8, attribute(NAME, b"cleo")),
        radius(ACCEPT, 8, attribute(ADDRESS, b"abc")),
        radius(ACCOUNTING, 9, attribute(STATUS, b""), attribute(NAME, b"dora"), here),
        radius(
            ACCOUNTING,
            10,
            attribute(STATUS, bytes([0, 0, 0, 1])),
            attribute(NAME, b"ewa"),
            there,
            attribute(VENDOR, b"a"),
            attribute(VENDOR, b"\0\0\x28\xaf\x01\xff12"),
        ),
    ]
    lines = accounting_log(tmp_path, timed(messages)).read_text().splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    assert [(row[2], row[4], row[6]) for row in rows] == [
        ("0", "10.64.0.1", "anna"),
        ("0", "10.64.0.2", "bert"),
        ("1", "10.64.0.2", "ewa"),
    ]


@pytest.mark.usefixtures("zeek")
def test_accounting_script_logs_prefixes_and_what_joins_sessions(tmp_path):
    """Prefixes as RFC 3162, 2.3, writes them: a reserved byte, the length, bytes that may be left
    out if they are 0. Of other lengths there are none."""
    kinds = {"framed": 97, "delegated": 123, "multi-session": 50}
    prefixes = [
        attribute(kinds["framed"], bytes([0, 64]) + bytes.fromhex("20010db800640001")),
        attribute(kinds["framed"], bytes([0, 60]) + bytes.fromhex("20010db80064001000000000")),
        attribute(kinds["delegated"], bytes([0, 56]) + bytes.fromhex("20010db8006401")),
    ]
    malformed = [
        attribute(kinds["framed"], value)
        for value in (b"", b"\0", b"\0\x40\x20\x01", b"\0\0", b"\0\x81" + bytes(16))
    ]
    charging = attribute(VENDOR, b"\0\0\x28\xaf" + attribute(2, bytes([0, 0, 1, 2])))
    together = attribute(kinds["multi-session"], b"m1")
    start, name = attribute(STATUS, bytes([0, 0, 0, 1])), attribute(NAME, b"anna")
    here = attribute(ADDRESS, bytes([10, 64, 0, 1]))
    messages = [
        radius(ACCOUNTING, 1, start, name, here, prefixes[0], charging),
        radius(ACCOUNTING, 2, start, name, *prefixes, together),
        radius(ACCOUNTING, 3, start, name, *malformed),
        radius(REQUEST, 4, name),
        radius(ACCEPT, 4, prefixes[0]),
        radius(REQUEST, 5, name),
        radius(ACCEPT, 5, *malformed),
    ]
    lines = accounting_log(tmp_path, timed(messages)).read_text().splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    assert [(row[4], row[5], *row[9:11]) for row in rows] == [
        ("10.64.0.1", "2001:db8:64:1::/64", "258", "-"),
        ("-", "2001:db8:64:1::/64,2001:db8:64:10::/60,2001:db8:64:100::/56", "-", "m1"),
        ("-", "-", "-", "-"),
        ("-", "2001:db8:64:1::/64", "-", "-"),
    ]


@pytest.mark.usefixtures("zeek")
def test_accounting_script_logs_labels(tmp_path):
    """Of a request in one attribute or several, and of the request of an accepted authentication.
    The serial number of a device is not logged."""
    location = bytes.fromhex("8262f2201a2b62f22000abcdef")
    of_3gpp = [
        attribute(kind, value)
        for kind, value in (
            (5, b"08-4D09"), (8, b"26202"), (18, b"310410"), (20, b"3520990012345601"),
            (21, b"\x06"), (22, location),
        )
    ]  # fmt: skip
    together = attribute(VENDOR, b"\0\0\x28\xaf" + b"".join(of_3gpp))
    apart = [attribute(VENDOR, b"\0\0\x28\xaf" + one) for one in of_3gpp]
    apn, name = attribute(30, b"internet"), attribute(NAME, b"anna")
    here, start = attribute(ADDRESS, bytes([10, 64, 0, 1])), attribute(STATUS, bytes([0, 0, 0, 1]))
    messages = [
        radius(ACCOUNTING, 1, start, name, here, apn, together),
        radius(ACCOUNTING, 2, start, name, here, apn, *apart),
        radius(REQUEST, 3, name, apn, *apart),
        radius(ACCEPT, 3, here),
        radius(ACCOUNTING, 4, start, name, here),
    ]
    log = accounting_log(tmp_path, timed(messages)).read_text()
    rows = [line.split("\t")[11:] for line in log.splitlines() if not line.startswith("#")]
    found = ["internet", "06", location.hex(), "35209900", "26202", "310410", "08-4D09"]
    assert rows == [found, found, found, ["-"] * 7]
    assert "12345601" not in log


@pytest.mark.usefixtures("zeek")
def test_accounting_script_logs_start_and_stop(tmp_path, plain_network):
    """A start that names the IMSI (3GPP TS 29.061), and a stop two hours later."""

    imsi = b"001010123456789"

    def request(status: int, *more: bytes) -> bytes:
        return radius(
            ACCOUNTING,
            status,
            attribute(STATUS, status.to_bytes(4, "big")),
            attribute(ADDRESS, bytes([10, 64, 0, 1])),
            attribute(SESSION, b"s1"),
            attribute(NAME, b"anyone"),
            attribute(VENDOR, b"\0\0\x28\xaf" + attribute(1, imsi)),
            *more,
        )

    session_time = attribute(SESSION_TIME, (7200).to_bytes(4, "big"))
    frames = [
        Frame(request(1), NOON * 1_000_000),
        Frame(request(2, session_time), (NOON + 7200) * 1_000_000),
    ]
    warehouse = Warehouse(tmp_path / "w")
    log = accounting_log(tmp_path, frames)
    assert ingest_capture(warehouse, plain_network, log).error is None
    found = ask(
        warehouse, "select status, address, subscriber, session_time from accounting order by ts"
    )
    assert found.fetchall() == [
        ("start", "10.64.0.1", "001010123456789", None),
        ("stop", "10.64.0.1", "001010123456789", 7200.0),
    ]
