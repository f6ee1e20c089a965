"""Whole runs on mixtures of users, and on damaged captures: no traceback, and what is good is
published. Each kind of user comes from a recording, with another address and time."""

import gzip
from datetime import date
from functools import cache
from pathlib import Path

import pytest
from conftest import REPORTS, ask
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6
from scapy.utils import RawPcapReader

from spark_jobs.warehouse.store import Warehouse
from tests.helpers.capture_files import Frame, pcap, pcapng
from tests.helpers.capture_seeds import SEEDS
from tests.helpers.command import giscope
from tests.helpers.damage import damaged
from tests.helpers.isolation import Place

DAY_US = 86_400_000_000
MIDNIGHT_US = 1_700_006_400_000_000
"""2023-11-15 00:00 UTC."""
BEGINNINGS = {"before midnight": -3_600_000_000, "over midnight": -150_000, "after": 5_000_000}
SERVER, SERVER6 = "198.51.100.7", "2001:db8:ffff::7"
NOTHING = "giscope: withheld: report: nothing to show: no marts"
"""What a run of users without a connection prints."""

pytestmark = pytest.mark.usefixtures("in_this_process")


def recorded(name: str, wanted: str) -> list[tuple[int, bytes, bytes]]:
    """Return (µs after the first, IP packet, the user's address) of a recording's first user whose
    packets are TCP's (`tcp`) or UDP's."""
    found: list[tuple[int, bytes, bytes]] = []
    chosen = None
    for frame, when in RawPcapReader(str(REPORTS / name)):
        packet = frame[14:] if frame[12:14] == b"\x08\x00" else frame
        user = next(a for a in (packet[12:16], packet[16:20]) if a[0] == 10)
        if (packet[9] == 6) == (wanted == "tcp") and chosen in (None, user):
            chosen = user
            found.append((when.sec * 1_000_000 + when.usec, packet, user))
    return [(us - found[0][0], packet, user) for us, packet, user in found]


@cache
def kinds() -> dict[str, list[tuple[int, bytes, bytes]]]:
    """Return the packets of one user of each kind, as `recorded` does."""
    user, user6 = "10.64.0.9", "2001:db8:64::9"
    single = {
        "udp": IP(src=user, dst=SERVER) / UDP(sport=5000, dport=53) / b"question",
        "icmp": IP(src=user, dst=SERVER) / ICMP(),
        "icmp6": IPv6(src=user6, dst=SERVER6) / ICMPv6EchoRequest(),
        "syn": IP(src=user, dst=SERVER) / TCP(sport=4000, dport=80, flags="S", seq=7),
        "syn6": IPv6(src=user6, dst=SERVER6) / TCP(sport=4000, dport=80, flags="S", seq=7),
        "rst": IP(src=SERVER, dst=user) / TCP(sport=80, dport=4000, flags="R", seq=7),
        "tcp6": IPv6(src=user6, dst=SERVER6) / TCP(sport=4000, dport=80, flags="A") / b"data",
    }
    return {
        "tcp": recorded("tfo_request_after.pcap.gz", "tcp"),
        "quic": recorded("runs/tcp-user-beside-quic-user.pcap.gz", "udp"),
        "ecn": recorded("ecn_marks_12.pcap.gz", "tcp"),
        "three days": recorded("lasts_60h.pcap.gz", "tcp"),
        "keep-alives": recorded("keepalive_data_x10.pcap.gz", "tcp"),
        "path MTU": recorded("pmtu_icmp.pcap.gz", "tcp"),
        "nothing": [],
    } | {
        name: [(n * 100_000, bytes(packet), _address(bytes(packet))) for n in range(3)]
        for name, packet in single.items()
    }


def _address(packet: bytes) -> bytes:
    at, size = (12, 4) if packet[0] >> 4 == 4 else (8, 16)
    ends = packet[at : at + size], packet[at + size : at + 2 * size]
    return next(end for end in ends if end[0] == 10 or end.startswith(b"\x20\x01\x0d\xb8\x00\x64"))


def frames_of(number: int, kind: str, begin: str) -> list[Frame]:
    """Return the frames of a user with an address of its own."""
    frames = []
    for us, packet, old in kinds()[kind]:
        new = old[:-2] + number.to_bytes(2, "big")
        frames.append(Frame(packet.replace(old, new, 1), MIDNIGHT_US + BEGINNINGS[begin] + us))
    return frames


USERS = st.lists(
    st.tuples(st.sampled_from(sorted(kinds())), st.sampled_from(sorted(BEGINNINGS))),
    min_size=1,
    max_size=6,
)


def run_all(place: Place) -> None:
    """Run, plot, forget, report and run again; none of them ends with a traceback."""

    def ends(*arguments: object, status: tuple[int, ...] = (0, 2)) -> None:
        done = giscope(*arguments)
        assert "Traceback" not in done.stdout + done.stderr, arguments
        lines = [line for line in done.stderr.splitlines() if "withheld" in line]
        assert set(lines) <= {NOTHING}, arguments
        assert done.returncode in status, (arguments, done.stderr)

    ends("run", *place.where, place.folder / "captures")
    warehouse = Warehouse(place.root)
    flows = ask(warehouse, "select flow_id from flows limit 1").fetchall()
    users = ask(warehouse, "select network, user from packets limit 1").fetchall()
    for (flow_id,) in flows:
        page = place.folder / "page.html"
        ends("plot", "--warehouse", place.root, flow_id, "--output", page, status=(0,))
    for network, user in users:
        ends("forget", *place.where, "--network", network, "--user", user, status=(0,))
    ends("report", "--warehouse", place.root, "--output", place.folder / "again.html")
    ends("run", *place.where, place.folder / "captures")


@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    users=USERS, of_second=st.one_of(st.just([]), USERS),
    partitions=st.sampled_from([1, 3, 128]), files=st.integers(1, 2),
)  # fmt: skip
@example(
    users=[(kind, "before midnight") for kind in ("three days", "ecn", "quic", "tcp6")],
    of_second=[(kind, "after") for kind in ("keep-alives", "path MTU", "nothing")],
    partitions=3, files=2,
)  # fmt: skip
def test_any_mixture_of_users_is_published(users, of_second, partitions, files, tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("mixture"), "first", "second")
    text = place.networks.read_text().replace("[[network]]", "[[network]]\nuser_partitions = %d")
    place.networks.write_text(text % (partitions, partitions))
    for name, chosen in (("first", users), ("second", of_second)):
        folder = place.folder / "captures" / name
        folder.mkdir(parents=True)
        frames = [f for number, user in enumerate(chosen, 1) for f in frames_of(number, *user)]
        frames.sort(key=lambda frame: frame.ts)
        for number in range(files if frames else 0):
            part = frames[number::files]
            (folder / f"{number}.pcap").write_bytes(pcap(part))
    run_all(place)


@pytest.mark.parametrize("day", [date(1970, 1, 1), date(9999, 11, 30), date(9999, 12, 31)])
def test_clocks_at_the_ends_of_the_calendar_stop_no_other_day(day, tmp_path):
    place = Place(tmp_path, "network")
    folder = tmp_path / "captures/network"
    folder.mkdir(parents=True)
    moved_us = (day - date(1970, 1, 1)).days * DAY_US + 60_000_000
    good = frames_of(1, "tcp", "after")
    odd = [Frame(frame.data, moved_us + frame.ts - good[0].ts) for frame in good]
    (folder / "good.pcap").write_bytes(pcap(good))
    (folder / "odd.pcapng").write_bytes(pcapng(odd))
    done = place.run()
    assert "Traceback" not in done.stderr
    assert "withheld" not in done.stderr
    assert (date(2023, 11, 15),) in place.ask("select distinct date from table1_summary")


@pytest.mark.slow
def test_a_network_of_damaged_captures_publishes_its_report(tmp_path):
    """Five hundred files, beside a good network."""
    place = Place(tmp_path, "good", "bad")
    for name in ("good", "bad"):
        (tmp_path / "captures" / name).mkdir(parents=True)
    good = gzip.decompress((REPORTS / "tfo_request_after.pcap.gz").read_bytes())
    (tmp_path / "captures/good/good.pcap").write_bytes(good)
    written: list[Path] = []

    @settings(
        max_examples=500, deadline=None, derandomize=True, database=None, phases=[Phase.generate]
    )
    @given(file=damaged(SEEDS))
    def write(file: bytes) -> None:
        written.append(tmp_path / f"captures/bad/{len(written):03d}.pcap")
        written[-1].write_bytes(file)

    write()
    assert len(written) >= 400
    done = place.run()
    assert "Traceback" not in done.stderr
    assert "withheld" not in done.stderr
    assert done.returncode in (0, 2)
    assert place.ask("select count(distinct network) from table1_summary") == [(2,)]
    assert "good" in (place.root / "report.html").read_text()
