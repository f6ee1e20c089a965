"""Two captures with the same packets: the same bytes are refused, other copies hold the day."""

import gzip
from collections.abc import Callable
from dataclasses import replace

import pytest
from conftest import DAY, NOON, ask, count
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw

from spark_jobs.ingest.job import ingest_capture
from spark_jobs.jobs import quality
from spark_jobs.jobs.flows import bring_up_to_date
from spark_jobs.settings.networks import Network
from tests.helpers.capture_files import Frame, pcap, pcapng
from tests.helpers.command import giscope

pytestmark = pytest.mark.usefixtures("in_this_process")

HEADERS: dict[str, Callable[[bool, int], IP | IPv6]] = {
    "IPv4": lambda down, n: IP(**ends(down, "10.64.0.1", "198.51.100.1"), id=n + 1),
    "IPv4 without IDs": lambda down, n: IP(**ends(down, "10.64.0.1", "198.51.100.1"), id=0),
    "IPv6": lambda down, n: IPv6(**ends(down, "2001:db8:64::1", "2001:db8:1::1")),
}
"""The IP header of a packet by its direction and number."""
SEGMENTS = 120


def ends(down: bool, user: str, server: str) -> dict[str, str]:
    return {"src": server, "dst": user} if down else {"src": user, "dst": server}


def frames(kind: str) -> list[Frame]:
    """Return segments with data, each acknowledged twice, as after reordering, in a minute."""
    found = []
    for n in range(SEGMENTS):
        seq = 1000 * n + 1
        data = TCP(sport=80, dport=1024, seq=seq, ack=1, flags="PA") / Raw(bytes(1000))
        ack = TCP(sport=1024, dport=80, seq=1, ack=seq, flags="A")
        for i, (down, segment) in enumerate([(True, data), (False, ack), (False, ack)]):
            packet = HEADERS[kind](down, 3 * n + i) / segment
            found.append(Frame(bytes(packet), NOON * 1_000_000 + n * 500_000 + i * 1000))
    return found


@pytest.fixture
def network(network):
    prefixes = ["10.64.0.0/14", "2001:db8:64::/48"]
    return Network(**network.model_dump() | {"subscribers": prefixes})


@pytest.fixture
def copied(warehouse, network, tmp_path):
    """Ingest two captures; return the day's copied_share, whether it passes, and the finding."""

    def run(a: bytes, b: bytes) -> tuple[float | None, bool, str]:
        for name, data in (("a.pcap", a), ("b.pcap", b)):
            (tmp_path / name).write_bytes(data)
            assert ingest_capture(warehouse, network, tmp_path / name).error is None
        quality.check(warehouse, [network], DAY)
        asked = "select value, passed, finding from quality where measure = 'copied_share'"
        return ask(warehouse, asked).fetchall()[0]

    return run


@pytest.mark.parametrize("kind", HEADERS)
@pytest.mark.parametrize("write", [pcap, pcapng])
def test_a_part_of_a_capture_holds_the_day_and_both_are_named(copied, kind, write):
    whole = frames(kind)
    share, passed, finding = copied(pcap(whole), write(whole[: len(whole) // 2]))
    assert (share, passed) == (pytest.approx(1 / 3, abs=0.01), False)
    assert "such as a.pcap and b.pcap: if one is a part of the other, remove it" in finding


@pytest.mark.parametrize("kind", HEADERS)
@pytest.mark.parametrize("later_us", [3, 15_000])
def test_two_mirrored_ports_in_two_files_hold_the_day(copied, kind, later_us):
    one = frames(kind)
    share, passed, _ = copied(pcap(one), pcap([replace(f, ts=f.ts + later_us) for f in one]))
    assert (share, passed) == (pytest.approx(1 / 2), False)


@pytest.mark.parametrize("kind", HEADERS)
def test_packets_that_alternate_between_two_files_are_no_copies(copied, kind):
    one = frames(kind)
    assert copied(pcap(one[::2]), pcap(one[1::2]))[:2] == (0, True)


@pytest.mark.parametrize("kind", HEADERS)
def test_later_retransmissions_are_no_copies(copied, kind):
    one = frames(kind)
    assert copied(pcap(one), pcap([replace(f, ts=f.ts + 200_000) for f in one]))[:2] == (0, True)


def test_captures_of_other_times_are_not_compared(copied):
    one = frames("IPv4")
    assert copied(pcap(one[:60]), pcap(one[60:]))[:2] == (None, True)


def test_the_same_content_is_refused(warehouse, network, tmp_path):
    data = pcap(frames("IPv6"))
    for name, some in (("a.pcap", data), ("b.pcap", gzip.compress(data)), ("a.pcap", data)):
        (tmp_path / name).write_bytes(some)
        found = ingest_capture(warehouse, network, tmp_path / name)
        same = f"{tmp_path}/b.pcap: holds the same packets as a.pcap, which is ingested already"
        assert found.error == (same if name == "b.pcap" else None)
    assert count(warehouse) == 3 * SEGMENTS
    rows = ask(warehouse, "select capture, packets, duplicate_of from ingest_log order by all")
    assert rows.fetchall() == [("a.pcap", 3 * SEGMENTS, None), ("b.pcap", 0, "a.pcap")]


def test_a_part_can_be_removed(warehouse, network, copied, tmp_path):
    whole = frames("IPv4")
    alone = ingest_capture(warehouse, network, write(tmp_path / "b.pcap", pcap(whole)))
    bring_up_to_date(warehouse, [network])
    flows = "select packets_up, packets_down, retransmissions from flows"
    before = ask(warehouse, flows).fetchall()
    copied(pcap(whole[:100]), pcap(whole))
    bring_up_to_date(warehouse, [network])
    assert ask(warehouse, flows).fetchall() != before
    where = "--warehouse", warehouse.root, "--network", network.name
    done = giscope("purge", *where, "--capture", "a.pcap")
    assert (done.returncode, done.stdout) == (
        0, "removed a.pcap; the next giscope run makes its days again\n"
    )  # fmt: skip
    (tmp_path / "a.pcap").unlink()
    bring_up_to_date(warehouse, [network])
    assert count(warehouse) == alone.facts.packets
    assert ask(warehouse, flows).fetchall() == before
    done = giscope("purge", *where, "--capture", "a.pcap")
    assert done.stderr == f"giscope: {warehouse.root}: no capture a.pcap of aa-gprs in it\n"
    done = giscope("purge", "--warehouse", warehouse.root, "--capture", "a.pcap")
    assert (done.returncode, "or --network and --capture" in done.stderr) == (2, True)


def write(path, data: bytes):
    path.write_bytes(data)
    return path
