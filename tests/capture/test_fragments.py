"""A datagram that came in fragments is one packet: the row of the same datagram unfragmented, with
the time and frame of the fragment that completed it."""

from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from conftest import REPORTS
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import (
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
)
from scapy.packet import Packet, Raw

from tests.helpers.capture_files import NOON, Frame, Read, pcap, rows_of, timed
from tests.helpers.layers import DOWN, SERVER, SERVER6, UP, USER, USER6, gtp

S = 1_000_000
SEGMENT = TCP(sport=80, dport=40000, flags="A", seq=1000, ack=1)
SACK = TCP(sport=80, dport=40000, flags="A", seq=1, ack=1, options=[("SAck", (7, 9))])
ACK = bytes(UP / TCP(sport=40000, dport=80, flags="A", seq=1, ack=1))


def cut(above: bytes, *ends: int, number: int = 7, ip: IP = DOWN, proto: int = 6) -> list[bytes]:
    """Cut what stands above IP into IPv4 fragments, up to each of these bytes and the rest."""
    begins, ends = (0, *ends), (*ends, len(above))
    return [
        piece(above[begin:end], begin, end < len(above), number, ip, proto)
        for begin, end in zip(begins, ends, strict=True)
    ]


def piece(data: bytes, begin: int, more: bool, number: int = 7, ip: IP = DOWN, proto=6) -> bytes:
    """Make an IPv4 fragment."""
    header = ip.copy()
    header.id, header.frag, header.flags, header.proto = number, begin // 8, int(more), proto
    return bytes(header / Raw(data))


def cut6(
    above: bytes, *ends: int, number: int = 7, proto: int = 6, extra: Any = None
) -> list[bytes]:
    """Cut what stands above IP into IPv6 fragments; extra: a header before
    each fragment header."""
    begins, ends = (0, *ends), (*ends, len(above))
    base = IPv6(src=SERVER6, dst=USER6) / extra if extra else IPv6(src=SERVER6, dst=USER6)
    return [
        bytes(
            base
            / IPv6ExtHdrFragment(id=number, nh=proto, m=int(end < len(above)), offset=begin // 8)
            / Raw(above[begin:end])
        )
        for begin, end in zip(begins, ends, strict=True)
    ]


def whole(above: bytes, number: int = 7, ip: IP = DOWN, proto: int = 6) -> bytes:
    header = ip.copy()
    header.id, header.proto = number, proto
    return bytes(header / Raw(above))


def tcp(data: int, header: TCP = SEGMENT, ip: Packet = DOWN) -> bytes:
    """A TCP segment without its IP header."""
    return bytes((ip / header / bytes(data))[TCP])


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Read]:
    def read(frames: Sequence[Frame], **options) -> Read:
        path = tmp_path / "c.pcap"
        path.write_bytes(pcap(frames))
        return rows_of(path, **options)

    return read


def content(row: dict) -> dict:
    return {name: value for name, value in row.items() if name not in ("frame", "ts")}


def only(read: Callable[..., Read], packet: bytes, **options) -> list[dict]:
    """Return the content of the packet's rows."""
    return [content(row) for row in read([Frame(packet)], **options).rows]


def test_three_segments_in_two_fragments_each_are_read_whole():
    found = rows_of(REPORTS / "min_ip_fragments.pcap")
    down = [row["payload_len"] for row in found.rows if row["downlink"] and row["payload_len"]]
    assert down == [1400, 1400, 1400]
    assert (found.frames, len(found.rows)) == (13, 10)
    assert found.skipped == {"fragments_joined": 3}


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_fragments_come_in_any_order(read, order):
    """Complete with the last one that comes, whichever that is."""
    pieces = cut(tcp(1000, SACK), 400, 800)
    found = read(timed([ACK, *(pieces[n] for n in order), ACK]))
    assert [row["frame"] for row in found.rows] == [1, 4, 5]
    assert content(found.rows[1]) == only(read, whole(tcp(1000, SACK)))[0]
    assert round(found.rows[1]["ts"].timestamp() * 1e6) == NOON + 3 * 1000
    assert found.skipped == {"fragments_joined": 2}


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_ipv6_fragments_come_in_any_order(read, order):
    above = tcp(1000, ip=IPv6(src=SERVER6, dst=USER6))
    pieces = cut6(above, 400, 800)
    found = read(timed([pieces[n] for n in order]))
    assert [row["frame"] for row in found.rows] == [3]
    assert (
        content(found.rows[0])
        == only(read, bytes(IPv6(src=SERVER6, dst=USER6, nh=6) / Raw(above)))[0]
    )


def test_ipv6_headers_before_and_behind_the_fragment_header(read):
    """The later fragment names what follows the fragment header: the options, not TCP."""
    above = tcp(1000, ip=IPv6(src=SERVER6, dst=USER6))
    behind = bytes(IPv6ExtHdrDestOpt(nh=6)) + above
    found = read(timed(cut6(behind, 504, proto=60, extra=IPv6ExtHdrHopByHop())))
    [row] = found.rows
    assert (row["ip_proto"], row["payload_len"], row["ip_len"]) == (6, 1000, 40 + 8 + 8 + 1020)


def test_ipv6_identifications_have_32_bits(read):
    above = tcp(1000, ip=IPv6(src=SERVER6, dst=USER6))
    one, other = cut6(above, 504, number=5), cut6(above, 504, number=5 | 1 << 16)
    found = read(timed([one[0], other[1]]))
    assert (len(found.rows), found.skipped) == (2, {"fragments_unjoined": 2})
    assert len(read(timed([one[0], other[0], one[1], other[1]])).rows) == 2


@pytest.mark.parametrize("protocol", [17, 50, 1])
def test_other_protocols_are_joined_too(read, protocol):
    above = bytes((DOWN / UDP(sport=53, dport=5000) / bytes(2000))[UDP])
    found = read(timed(cut(above, 1200, proto=protocol)))
    assert [content(row) for row in found.rows] == only(read, whole(above, proto=protocol))
    assert found.rows[0]["ip_len"] == 20 + 2008


def test_fragments_in_a_tunnel_are_joined(read):
    pieces = cut(tcp(1000), 400)
    found = read(timed(map(gtp, pieces)))
    assert [content(row) for row in found.rows] == only(read, whole(tcp(1000)))


def test_fragments_of_the_tunnel_itself_are_no_fragments_of_what_is_inside(read):
    """The first one has the inner packet's header, which gives its size."""
    outer = IP(gtp(whole(tcp(1000))))
    above = bytes(outer.payload)
    pieces = cut(above, 504, ip=IP(src=outer.src, dst=outer.dst), proto=17)
    found = read(timed(pieces))
    assert [content(row) for row in found.rows] == only(read, whole(tcp(1000)))
    assert found.skipped == {"not_subscriber": 1}


def test_fragments_between_two_subscribers_are_joined_in_both_rows(read):
    both = {"subscribers": [f"{USER}/32", f"{SERVER}/32"]}
    found = read(timed(cut(tcp(1000), 400)), **both)
    assert [content(row) for row in found.rows] == only(read, whole(tcp(1000)), **both)
    assert len(found.rows) == 2
    assert found.skipped == {"fragments_joined": 2}


def test_a_duplicate_fragment_is_no_overlap(read):
    first, second, third = cut(tcp(1000), 400, 800)
    found = read(timed([first, second, second, first, third]))
    assert [content(row) for row in found.rows] == only(read, whole(tcp(1000)))
    assert found.skipped == {"fragments_joined": 2, "duplicate": 2}


@pytest.mark.parametrize(
    "spans",
    [
        [(0, 400), (392, 1020)],
        [(392, 1020), (0, 400)],
        [(0, 400), (0, 408), (400, 1020)],
        [(0, 400), (400, 800), (8, 16), (800, 1020)],
        [(400, 1020), (408, 1020), (0, 400)],
    ],
    ids=str,
)
def test_a_datagram_whose_fragments_overlap_is_dropped(read, spans):
    """All its fragments, those that come later too (RFC 5722, 4)."""
    above = tcp(1000)
    pieces = [piece(above[begin:end], begin, end < 1020) for begin, end in spans]
    found = read(timed([ACK, *pieces]))
    assert [row["frame"] for row in found.rows] == [1]
    assert found.skipped == {"fragments_overlapping": len(spans)}


@pytest.mark.parametrize(("later", "joined"), [(30 * S, True), (30 * S + 1, False)])
def test_fragments_are_joined_within_30_seconds(read, later, joined):
    first, second = cut(tcp(1000), 400)
    found = read([Frame(first), Frame(second, NOON + later)])
    assert len(found.rows) == (1 if joined else 2)
    assert found.skipped == ({"fragments_joined": 1} if joined else {"fragments_unjoined": 2})


def test_fragments_that_are_not_joined_stay_rows(read):
    """The first one with the TCP header and its own payload."""
    first, _, third = cut(tcp(1000), 400, 800)
    one, other = read(timed([first, third])).rows
    assert (one["ip_len"], one["payload_len"], one["user_port"]) == (420, 380, 40000)
    assert (other["ip_len"], other["payload_len"], other["user_port"]) == (240, None, None)


@pytest.mark.parametrize("n", [0, 1])
def test_a_fragment_alone_stays_a_row_and_is_counted(read, n):
    found = read(timed([cut(tcp(1000), 400)[n], ACK]))
    assert (found.numbers, found.skipped) == ([1, 2], {"fragments_unjoined": 1})


def test_datagrams_that_differ_in_anything_are_not_mixed(read):
    """Identification, protocol, and either end."""
    above, other = tcp(1000), SERVER.replace("7", "8")
    kinds = [
        {},
        {"number": 8},
        {"proto": 17},
        {"ip": IP(src=other, dst=USER)},
        {"ip": IP(src=SERVER, dst="10.64.1.3")},
        {"ip": IP(src=USER, dst=SERVER)},
    ]
    firsts, seconds = zip(*(cut(above, 400, **kind) for kind in kinds), strict=True)
    found = read(timed([*firsts, *seconds]))
    alone = [only(read, whole(above, **kind))[0] for kind in kinds]
    assert [content(row) for row in found.rows] == alone
    assert found.numbers == [7, 8, 9, 10, 11, 12]


def test_an_identification_may_be_reused_after_its_datagram_is_complete(read):
    found = read(timed(cut(tcp(1000), 400) + cut(tcp(600), 400)))
    assert [row["payload_len"] for row in found.rows] == [1000, 600]


def test_a_ping_of_death_is_not_joined(read):
    """65,536 bytes with the header: 65,512 and 4 of data."""
    large = [piece(bytes(65_512), 0, True, proto=1), piece(bytes(4), 65_512, False, proto=1)]
    found = read(timed(large))
    assert (len(found.rows), found.skipped) == (2, {"fragments_unjoined": 2})
    largest = [large[0], piece(bytes(3), 65_512, False, proto=1)]
    assert [row["ip_len"] for row in read(timed(largest)).rows] == [65_535]


@pytest.mark.parametrize(
    "spans",
    [
        [(0, 400, True), (800, 1020, False), (1024, 1032, True)],
        [(0, 400, True), (1024, 1032, True), (800, 1020, False)],
        [(800, 1020, False), (400, 800, False), (0, 400, True)],
        [(0, 396, True), (400, 1020, False)],
        [(0, 400, True), (400, 400, True), (400, 1020, False)],
    ],
    ids=["behind the end", "behind the end, before it", "two ends", "odd size", "no data"],
)
def test_fragments_that_contradict_each_other_stay_rows(read, spans):
    found = read(timed([piece(bytes(end - begin), begin, more) for begin, end, more in spans]))
    assert len(found.rows) == len(spans)
    assert found.skipped["fragments_unjoined"] == len(spans)


def test_a_datagram_of_too_many_fragments_stays_rows(read):
    above = tcp(8 * 200 - 20)
    found = read(timed(cut(above, *range(24, len(above), 8))))
    assert found.skipped == {"fragments_unjoined": 198}
    few = read(timed(cut(above, *range(8 * 73, len(above), 8))))
    assert (len(few.rows), few.skipped) == (1, {"fragments_joined": 127})


@pytest.mark.parametrize("header", [8, 16])
def test_a_tcp_header_split_over_fragments_is_not_read(read, header):
    """RFC 1858. The packet's size and ports are known."""
    found = read(timed(cut(tcp(1000), header)))
    [row] = found.rows
    assert (row["ip_len"], row["user_port"], row["seq"]) == (1040, 40000, None)
    assert found.skipped == {"fragments_joined": 1, "short_tcp": 1}


def test_tcp_options_split_over_fragments_are_not_read(read):
    found = read(timed(cut(tcp(1000, SACK), 24)))
    assert [row["seq"] for row in found.rows] == [None]
    assert found.skipped == {"fragments_joined": 1, "short_tcp": 1}


def test_padding_behind_a_tiny_fragment_is_no_tcp_header(tmp_path):
    """Ethernet pads it to 60 bytes; these would pass for a header."""
    first, second = cut(tcp(1000), 8)
    ethernet = bytes(12) + b"\x08\x00"
    path = tmp_path / "c.pcap"
    padded = ethernet + first + b"\x50" * 18
    path.write_bytes(pcap(timed([padded, ethernet + second]), 1))
    found = rows_of(path)
    assert [(row["ip_len"], row["seq"]) for row in found.rows] == [(1040, None)]
    assert found.skipped == {"fragments_joined": 1, "short_tcp": 1}


def test_fragments_cut_by_the_snap_length_are_joined(read):
    frames = [frame.cut(60) for frame in timed(cut(tcp(1000, SACK), 400, 800))]
    found = read(frames)
    assert [content(row) for row in found.rows] == only(read, whole(tcp(1000, SACK)))


def test_an_ipv6_fragment_cut_within_its_header_stays_a_row(read):
    first, second = cut6(tcp(1000), 504)
    found = read([Frame(first), Frame(second).cut(40 + 6)])
    assert (len(found.rows), found.skipped["fragments_unjoined"]) == (2, 2)


def filler(count: int) -> list[bytes]:
    return [ACK] * count


def test_fragments_of_several_runs_are_joined(read):
    """A run ends behind each batch of frames; addresses and SACK blocks are numbered anew."""
    other = bytes(IP(src="10.64.9.9", dst=SERVER) / SACK)
    pieces = cut(tcp(1000, SACK), 400, 800)
    packets = [other, pieces[0], *filler(9000), other, pieces[2], *filler(9000), pieces[1]]
    found = read(timed(packets, 10), batch_packets=1000)
    joined = [row for row in found.rows if row["ip_proto"] == 6 and row["downlink"]]
    assert [content(row) for row in joined] == only(read, whole(tcp(1000, SACK)))
    assert joined[0]["frame"] == len(packets) == found.frames
    assert found.skipped == {"fragments_joined": 2}
    assert {row["user"] for row in found.rows} == {USER, "10.64.9.9"}


def test_fragments_not_joined_at_the_files_end_are_counted_once(read):
    first, second, _ = cut(tcp(1000), 400, 800)
    packets = [first, *filler(9000), second, *filler(9000)]
    found = read(timed(packets, 10), batch_packets=1000)
    assert sorted(found.numbers) == list(range(1, len(packets) + 1))
    assert found.skipped == {"fragments_unjoined": 2}


def test_fragments_that_waited_too_long_are_not_kept_for_the_next_run(read):
    first, second = cut(tcp(1000), 400)
    frames = [Frame(first), *(Frame(ACK, NOON + 31 * S) for _ in range(9000))]
    found = read([*frames, Frame(second, NOON + 31 * S)], batch_packets=1000)
    assert found.numbers == list(range(1, 9003))
    assert found.skipped == {"fragments_unjoined": 2}


@st.composite
def datagrams(draw) -> tuple[list[bytes], list[bytes]]:
    """Datagrams as they are, and their fragments in any order; ends are shared by some."""
    wholes, frames = [], []
    for number in range(draw(st.integers(1, 6))):
        above = tcp(draw(st.integers(60, 1400)), draw(st.sampled_from([SEGMENT, SACK])))
        ip = draw(st.sampled_from([DOWN, IP(src=SERVER, dst="10.64.1.3")]))
        places = st.integers(5, (len(above) - 1) // 8).map(lambda n: 8 * n)
        ends = sorted(draw(st.sets(places, max_size=8)))
        wholes.append(whole(above, number, ip))
        frames += cut(above, *ends, number=number, ip=ip)
    return wholes, draw(st.permutations(frames))


@settings(deadline=None, max_examples=100)
@given(datagrams())
def test_fragments_of_many_datagrams_give_the_rows_of_the_datagrams(tmp_path_factory, made):
    wholes, frames = made
    path = tmp_path_factory.mktemp("c") / "c.pcap"
    rows = []
    for packets in (wholes, frames):
        path.write_bytes(pcap(timed(packets)))
        found = rows_of(path)
        rows.append(sorted(str(content(row)) for row in found.rows))
    assert rows[0] == rows[1]
    assert sum(found.skipped.values()) == len(frames) - len(wholes)
