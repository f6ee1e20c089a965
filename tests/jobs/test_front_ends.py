"""Files that each front end reads; the same packets read by two of them."""

import gzip
import shutil
from pathlib import Path

import pytest
import zstandard
from conftest import DAY, NOON, ask, count
from scapy.layers.inet import ICMP, IP

import spark_jobs.ingest.job as job
from schemas.zeek import MONITOR_LOG
from spark_jobs.capture import FrontEnd
from spark_jobs.capture.front_end import READERS
from spark_jobs.ingest.files import capture_name, find_captures
from spark_jobs.jobs import quality
from tests.helpers.capture_files import Frame, pcap
from tests.helpers.zeek_logs import header, lines, log, package_log, site_log

pytestmark = pytest.mark.usefixtures("in_this_process")


def ping(second: int) -> Frame:
    packet = IP(src="10.64.0.1", dst="198.51.100.1", id=second) / ICMP()
    return Frame(bytes(packet), (NOON + second) * 1_000_000)


def row(second: int) -> dict[str, str]:
    """Return the same packet as in Zeek's log."""
    return {
        "ts": f"{NOON + second}.000000",
        "user": "10.64.0.1",
        "server": "198.51.100.1",
        "downlink": "F",
        "ip_proto": "1",
        "ip_len": "28",
        "ip_id": str(second),
        "ttl": "64",
        "dscp": "0",
        "ecn": "0",
    }


def test_capture_is_read_again_by_another_front_end(warehouse, network, tmp_path, monkeypatch):
    """The built-in reader stands in for Zeek: only the chosen front end matters."""
    monkeypatch.setitem(READERS, FrontEnd.ZEEK, READERS[FrontEnd.BUILTIN])
    capture = tmp_path / "a.pcap"
    capture.write_bytes(pcap([ping(0)]))
    already = [
        job.ingest(warehouse, [(network, capture)], front_end)[0].unchanged
        for front_end in (FrontEnd.BUILTIN, FrontEnd.AUTO, FrontEnd.ZEEK, FrontEnd.ZEEK)
    ]
    assert already == [False, True, False, True]
    assert count(warehouse) == 1
    assert ask(warehouse, "select front_end from ingest_log").fetchall() == [("zeek",)]


def test_log_of_an_ingested_capture_holds_the_day(warehouse, network, tmp_path):
    """The log is of the capture's middle third, as a rotated one is."""
    capture, packet_log = tmp_path / "a.pcap", tmp_path / "giscope_packets.log"
    capture.write_bytes(pcap(map(ping, range(300))))
    packet_log.write_text(log(map(row, range(100, 200))))
    job.ingest(warehouse, [(network, packet_log), (network, capture)])
    quality.check(warehouse, [network], DAY)
    asked = "select value, passed, finding from quality where measure = 'copied_share'"
    [(share, passed, finding)] = ask(warehouse, asked).fetchall()
    assert (share, passed) == (pytest.approx(100 / 399), False)  # a ping has ID 0
    assert "in two captures, such as a.pcap and giscope_packets.log" in finding


@pytest.mark.parametrize(
    ("front_end", "names"),
    [
        (FrontEnd.AUTO, ["a.pcap", "2004-03-02/conn.log", "packets.log"]),
        (FrontEnd.ZEEK_LOG, ["2004-03-02/conn.log", "packets.log"]),
        (FrontEnd.BUILTIN, ["a.pcap"]),
    ],
)
def test_folder_is_searched_for_what_the_front_end_reads(tmp_path, front_end, names):
    (tmp_path / "2004-03-02").mkdir()
    (tmp_path / "a.pcap").write_bytes(pcap([ping(0)]))
    (tmp_path / "packets.log").write_text(log([row(1)]))
    (tmp_path / "2004-03-02" / "conn.log").write_text(site_log("conn", []))
    (tmp_path / "dns.log").write_text("#separator \\x09\n#path\tdns\n#fields\tts\tquery\n")
    (tmp_path / "notes.txt").write_text("not for giscope")
    found = find_captures(tmp_path, front_end)
    assert sorted(capture_name(path) for path in found.files) == sorted(names)
    left_out = [] if front_end == FrontEnd.BUILTIN else [f"{tmp_path}: logs left out: dns"]
    assert found.notes == left_out


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstandard.compress])
def test_what_a_file_is_its_content_says(tmp_path, compress):
    """Names as of tcpdump -C and of other programs. Hidden files may still be written."""
    names = ["trace", "trace17", "b.CAP", "c.PCAP", "d.dmp.1"]
    for name in [*names, ".e.pcap.part", ".f"]:
        (tmp_path / name).write_bytes(compress(pcap([ping(0)])))
    (tmp_path / "notes").write_text("not for giscope")
    found = find_captures(tmp_path)
    assert sorted(path.name for path in found.files) == sorted([*names, ".e.pcap.part"])
    assert found.errors == []


def test_captures_in_a_folder_that_is_no_day_are_named(tmp_path):
    for folder in ("eth0", "2004-03-02/eth1", "notes"):
        (tmp_path / folder).mkdir(parents=True)
    for path in ("eth0/x.pcap", "eth0/y", "2004-03-02/eth1/x.pcap", "2004-03-02/z.pcap"):
        (tmp_path / path).write_bytes(pcap([ping(0)]))
    (tmp_path / "notes/text").write_text("not for giscope")
    found = find_captures(tmp_path)
    assert [path.name for path in found.files] == ["z.pcap"]
    assert [error.partition(":")[0] for error in found.errors] == [
        str(tmp_path / "2004-03-02/eth1"), str(tmp_path / "eth0"),
    ]  # fmt: skip
    assert "left out (2)" in found.errors[1]


def test_log_of_no_known_kind_is_refused_by_name(warehouse, network, tmp_path):
    path = tmp_path / "dns.log"
    path.write_text("#separator \\x09\n#path\tdns\n#fields\tts\tquery\n1.0\tx\n#close\tx\n")
    (result,) = job.ingest(warehouse, [(network, path)])
    assert result.error.startswith(f"{path}:3: no column user")


def test_rotated_logs_without_a_header_of_their_own_are_refused(warehouse, network, tmp_path):
    """A file that was cut in two: the second part does not say what its columns are."""
    whole, rest = tmp_path / "1.log", tmp_path / "2.log"
    whole.write_text(header() + lines([row(1)]))
    rest.write_text(lines([row(2)]) + "#close\tx\n")
    results = job.ingest(warehouse, [(network, whole), (network, rest)])
    assert results[0].facts.skipped == {"not_closed": 1}
    assert str(rest) in results[1].error
    assert count(warehouse) == 1


def test_what_a_live_zeek_dropped_is_counted(warehouse, network, tmp_path):
    """The counts are in ingest_log, on their day."""
    counts = [(1000, 7, 300, 2), (2000, 0, 500, 0), (10, 5, 0, 1)]
    rows = [
        {
            "ts": f"{NOON}.0",
            "peer": "zeek",
            **dict(zip(("received", "dropped", "acks", "gaps"), map(str, row), strict=True)),
        }
        for row in counts
    ]
    path = tmp_path / "zeek-giscope_monitor.log"
    path.write_text(package_log(MONITOR_LOG, rows))
    (result,) = job.ingest(warehouse, [(network, path)])
    assert result.error is None
    said = "select date, frames, rows, skipped from ingest_log"
    (row,) = ask(warehouse, said).fetchall()
    assert row == (DAY, 3, 0, {"dropped_by_monitor": 12, "unseen_data": 3})


def test_duplicate_of_a_log_under_another_name_is_refused(warehouse, network, tmp_path):
    path = tmp_path / "conn.log"
    path.write_text(site_log("conn", [{"ts": f"{NOON}.0", "proto": "tcp", "conn_state": "S0"}]))
    duplicate = Path(shutil.copy(path, tmp_path / "conn2.log"))
    first, second = job.ingest(warehouse, [(network, path), (network, duplicate)])
    assert first.error is None
    assert "holds the same packets as conn.log" in second.error


def test_log_of_a_time_without_packets_is_ingested_with_none(warehouse, network, tmp_path):
    """Zeek's logger may write one when it rotates; a log that was not closed may have lost some."""
    quiet, cut = tmp_path / "quiet.log", tmp_path / "cut.log"
    quiet.write_text(log([]))
    cut.write_text(log([], closed=False))
    first, second = job.ingest(warehouse, [(network, quiet), (network, cut)])
    assert (first.error, first.facts.packets, first.dates) == (None, 0, [])
    assert "no packet of a subscriber" in second.error
    assert job.ingest(warehouse, [(network, quiet)])[0].unchanged
    assert count(warehouse) == 0
