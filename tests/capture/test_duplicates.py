"""Packets that a monitor captured more than once: the first is kept, the others are counted."""

import struct
from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import zstandard
from conftest import CAPTURES
from scapy.layers.inet import ICMP, IP, TCP, UDP, fragment

from spark_jobs.capture.duplicates import MIN_WITH_EVIDENCE, drop_duplicates
from spark_jobs.capture.reader import PacketBatch, ReadStats, read_capture
from spark_jobs.capture.zeek_log import read_zeek_log
from tests.helpers.capture_files import EVERYONE, NOON, Frame, pcap, table_of
from tests.helpers.layers import DOWN, UP, UP6
from tests.helpers.zeek_logs import log

MS = 1000
PCAP_HEADER_BYTES, TTL_AT = 24, 8


def kept(tmp_path: Path, frames: list[Frame], **options) -> tuple[list[int], int]:
    """Numbers of the frames that are kept, and how many duplicates were counted."""
    path = tmp_path / "c.pcap"
    path.write_bytes(pcap(frames))
    return kept_of(path, read_capture, **options)


def kept_of(
    path: Path, reader: Callable[..., Iterator[PacketBatch]], **options
) -> tuple[list[int], int]:
    table, reading = table_of(path, reader=without_duplicates(reader), **options)
    assert table is not None
    return table["frame"].to_pylist(), reading.skipped["duplicate"]


def without_duplicates(
    reader: Callable[..., Iterator[PacketBatch]],
) -> Callable[..., Iterator[PacketBatch]]:
    """Return the reader without the duplicates."""

    def read(path: Path, prefixes, reading: ReadStats, batch_packets: int) -> Iterator[PacketBatch]:
        return drop_duplicates(reader(path, prefixes, reading, batch_packets), reading)

    return read


def at(packet, us: int, **ip) -> Frame:
    """Return a packet some time after noon, with other IP fields."""
    packet = packet.copy()
    for name, value in ip.items():
        setattr(packet, name, value)
    return Frame(bytes(packet), NOON + us)


ACK = UP / TCP(sport=40000, dport=80, flags="A", seq=1, ack=1000)
SEGMENT = DOWN / TCP(sport=80, dport=40000, flags="A", seq=1000, ack=1) / bytes(100)
ACK6 = UP6 / TCP(sport=40000, dport=80, flags="A", seq=1, ack=1000)
SYNACK = DOWN / TCP(sport=80, dport=40000, flags="SA", seq=1, ack=2)
DATAGRAM = DOWN / UDP(sport=443, dport=40000) / bytes(1200)


def test_bursts_of_udp_whose_identifications_begin_anew_are_kept(tmp_path):
    """Linux counts the datagrams of each burst from 0 on (segmentation offload)."""
    bursts = [
        at(
            DOWN / UDP(sport=443, dport=5000) / bytes([burst, number] * 600),
            1000 * burst,
            id=number,
        )
        for burst in range(3)
        for number in range(5)
    ]
    assert kept(tmp_path, bursts) == ([*range(1, 16)], 0)


def test_datagram_captured_twice_is_a_duplicate(tmp_path):
    datagram = DOWN / UDP(sport=443, dport=5000) / bytes(range(200))
    frames = [at(datagram, 0, id=7), at(datagram, 50, id=7, ttl=DOWN.ttl - 1)]
    assert kept(tmp_path, frames) == ([1], 1)


@pytest.mark.parametrize("packet", [ACK, SEGMENT, DATAGRAM], ids=["ACK", "data", "UDP"])
@pytest.mark.parametrize("later", [1, 19 * MS])
def test_numbered_packet_on_the_other_side_of_a_router_is_a_duplicate(tmp_path, packet, later):
    frames = [at(packet, 0, ttl=64), at(packet, later, ttl=63)]
    assert kept(tmp_path, frames) == ([1], 1)


@pytest.mark.parametrize("packet", [ACK, SEGMENT, DATAGRAM], ids=["ACK", "data", "UDP"])
def test_numbered_packet_of_several_mirrored_ports_is_a_duplicate(tmp_path, packet):
    assert kept(tmp_path, [at(packet, 0), at(packet, 3), at(packet, 5)]) == ([1], 2)


def test_retransmission_with_another_identification_is_no_duplicate(tmp_path):
    frames = [at(SEGMENT, 0, id=7), at(SEGMENT, 20 * MS, id=8)]
    assert kept(tmp_path, frames) == ([1, 2], 0)


def test_rto_retransmission_with_the_same_identification_is_no_duplicate(tmp_path):
    assert kept(tmp_path, [at(SEGMENT, 0), at(SEGMENT, 200 * MS)]) == ([1, 2], 0)


def ack_of_constant_id(us: int, ack: int, **ip) -> Frame:
    """Return an ACK of a host that gives all its packets one identification."""
    return at(UP / TCP(sport=40000, dport=80, flags="A", seq=1, ack=ack), us, id=4711, **ip)


def test_identical_acks_with_one_identification_for_all_are_duplicate_acks(tmp_path):
    frames = [
        ack_of_constant_id(us, ack)
        for us, ack in ((0, 1000), (900, 2000), (1000, 2000), (1100, 2000))
    ]
    assert kept(tmp_path, frames) == ([1, 2, 3, 4], 0)


def test_another_ttl_shows_duplicates_although_all_packets_have_one_identification(tmp_path):
    """Two duplicate ACKs, captured on either side of a router."""
    frames = [ack_of_constant_id(0, 1000), ack_of_constant_id(5, 1000, ttl=63)]
    frames += [
        ack_of_constant_id(900 + 10 * i, 2000, ttl=ttl) for i, ttl in enumerate((64, 64, 63, 63))
    ]
    assert kept(tmp_path, frames) == ([1, 3, 4], 3)


def test_data_repeated_at_once_with_one_identification_for_all_is_a_duplicate(tmp_path):
    """After a round trip it is a retransmission."""
    frames = [ack_of_constant_id(0, 1000), *(at(SEGMENT, us, id=9) for us in (0, 40, 30 * MS))]
    frames.insert(1, at(DOWN / TCP(sport=80, dport=40000, flags="A", seq=900, ack=1), 0, id=9))
    assert kept(tmp_path, frames) == ([1, 2, 3, 5], 1)


def test_other_options_are_another_packet(tmp_path):
    def data(blocks):
        tcp = TCP(sport=1, dport=80, flags="A", seq=1, ack=1000, options=[("SAck", blocks)])
        return UP / tcp

    frames = [at(data((2000, 3000)), 0), at(data((2000, 4000)), 1, id=2)]
    assert kept(tmp_path, [*frames, at(data((2000, 3000)), 2)]) == ([1, 2], 1)


def test_identical_acks_without_identification_are_duplicate_acks(tmp_path):
    frames = [at(ACK, us, id=0) for us in (0, 1, 2)] + [at(ACK6, us) for us in (3, 4, 5)]
    assert kept(tmp_path, frames) == ([1, 2, 3, 4, 5, 6], 0)


def test_two_syns_that_arrive_together_have_a_synack_each(tmp_path):
    assert kept(tmp_path, [at(SYNACK, 0, id=0), at(SYNACK, 1, id=0)]) == ([1, 2], 0)


def test_another_ttl_shows_duplicates_of_acks_without_identification(tmp_path):
    """Two duplicate ACKs, captured on either side of a router."""
    frames = [at(ACK, 10 * i, id=0, ttl=ttl) for i, ttl in enumerate((64, 64, 63, 63))]
    assert kept(tmp_path, frames) == ([1, 2], 2)
    frames = [at(ACK6, 10 * i, hlim=hops) for i, hops in enumerate((64, 64, 63, 63))]
    assert kept(tmp_path, frames) == ([1, 2], 2)


def test_each_packet_has_one_duplicate_at_most_per_router(tmp_path):
    """Three ACKs after the router, two before it."""
    frames = [at(ACK, 10 * i, id=0, ttl=ttl) for i, ttl in enumerate((64, 64, 63, 63, 63))]
    assert kept(tmp_path, frames) == ([1, 2, 5], 2)


def test_data_repeated_at_once_without_identification_is_a_duplicate(tmp_path):
    frames = [at(SEGMENT, 0, id=0), at(SEGMENT, 40, id=0), at(SEGMENT, 30 * MS, id=0)]
    assert kept(tmp_path, frames) == ([1, 3], 1)


def test_identical_datagrams_without_identification_are_kept(tmp_path):
    frames = [at(DATAGRAM, 10 * i, id=0, ttl=64 - i % 2) for i in range(8)]
    assert kept(tmp_path, frames) == (list(range(1, 9)), 0)


@pytest.mark.parametrize(
    "alike",
    [
        pytest.param([DATAGRAM.copy() for _ in range(3)], id="datagrams"),
        pytest.param([ACK.copy() for _ in range(3)], id="duplicate ACKs"),
    ],
)
@pytest.mark.parametrize("hops", [0, 1])
def test_where_all_other_packets_are_duplicated_identical_packets_are_too(tmp_path, alike, hops):
    frames = []
    for packet in alike:
        packet.id = 0
    for i in range(40):
        way = UP if alike[0].src == UP.src else DOWN
        numbered = way / TCP(sport=9, dport=9, flags="A", seq=100 * i, ack=1) / bytes(100)
        numbered.id = 1 + i
        frames += [at(numbered, MS * i), at(numbered, MS * i + 5, ttl=way.ttl - hops)]
    for i, packet in enumerate(alike):
        frames += [at(packet, 50 * MS + 20 * i)]
        frames += [at(packet, 50 * MS + 20 * i + 5, ttl=packet.ttl - hops)]
    numbers, duplicates = kept(tmp_path, frames)
    assert numbers == [*range(1, 80, 2), 81, 83, 85]
    assert duplicates == 43


def test_fragments_of_one_identification_are_not_duplicates(tmp_path):
    """They are one packet, complete with the fifth frame."""
    ping = IP(src=UP.src, dst=UP.dst, id=99) / ICMP() / bytes(4000)
    frames = [Frame(bytes(piece), NOON + i) for i, piece in enumerate(fragment(ping, 1000))]
    assert kept(tmp_path, frames) == ([5], 0)


@pytest.mark.parametrize("order", [(0, 0, 1, 1, 2, 2), (0, 1, 2, 0, 1, 2), (0, 1, 0, 2, 1, 2)])
@pytest.mark.parametrize("hops", [0, 1])
def test_fragments_captured_twice_are_one_packet(tmp_path, order, hops):
    """The pieces of one size differ in nothing but their offset."""
    pieces = fragment(IP(src=UP.src, dst=UP.dst, id=99, ttl=64) / ICMP() / bytes(2992), 1000)
    seen: set[int] = set()
    frames = []
    for i, n in enumerate(order):
        frames.append(at(pieces[n], i, ttl=64 - hops * (n in seen)))
        seen.add(n)
    assert kept(tmp_path, frames) == ([order.index(2) + 1], 3)


def test_packet_between_two_subscribers_keeps_both_its_rows(tmp_path):
    frames = [at(SEGMENT, 0, ttl=64), at(SEGMENT, 5, ttl=63)]
    assert kept(tmp_path, frames, subscribers=EVERYONE) == ([1, 1], 2)


def test_duplicates_are_detected_across_runs(tmp_path):
    """A run ends behind each batch of frames, and addresses are numbered anew in the next."""
    frames = [at(SEGMENT, 0, id=i + 1, src=f"198.51.{i >> 8}.{i & 255}") for i in range(9000)]
    again = [Frame(frame.data, frame.ts + 1 + i) for i, frame in enumerate(frames)]
    numbers, duplicates = kept(tmp_path, frames + again, batch_packets=1000)
    assert (numbers, duplicates) == (list(range(1, 9001)), 9000)


def test_duplicates_in_zeek_logs_are_dropped(tmp_path):
    names = ("ts", "user", "user_port", "server", "server_port", "downlink", "ip_proto", "ip_len")
    names += ("ip_id", "ttl", "dscp", "ecn", "tcp_flags", "seq", "ack", "window", "payload_len")
    values = (
        "1078224001.891451 10.67.1.10 999 198.51.100.24 80 F 6 40 1755 64 0 0 16 395774032 1 99 0"
    )
    row = dict(zip(names, values.split(), strict=True))
    later = row | {"ts": "1078224001.892451", "ttl": "63"}
    path = tmp_path / "giscope_packets.log"
    path.write_text(log([row, later, row | {"seq": "395774033"}]))
    assert kept_of(path, read_zeek_log) == ([1, 3], 1)


def doubled(capture: Path, hops: int, later: int) -> bytes:
    """Return a capture of IPv4 packets as a mirror port gives it that has each of them twice."""
    data = zstandard.ZstdDecompressor().decompressobj().decompress(capture.read_bytes())
    records: list[tuple[int, bytes]] = []
    place = PCAP_HEADER_BYTES
    while place < len(data):
        seconds, us, captured, on_wire = struct.unpack_from("<IIII", data, place)
        packet = bytearray(data[place + 16 : place + 16 + captured])
        for delay, fewer in ((0, 0), (later, hops)):
            packet[TTL_AT] -= fewer
            ts = 1_000_000 * seconds + us + delay
            header = struct.pack("<IIII", *divmod(ts, 1_000_000), captured, on_wire)
            records.append((ts, header + packet))
        place += 16 + captured
    records.sort(key=itemgetter(0))
    return data[:PCAP_HEADER_BYTES] + b"".join(record for _, record in records)


def both(tmp_path: Path, hops: int, later: int) -> tuple[pa.Table, pa.Table, int]:
    """Read a capture, and the same with each packet twice; returns both and the number of
    duplicates."""
    capture = CAPTURES / "bb-gprs/peak.pcap.zst"
    path = tmp_path / "c.pcap"
    path.write_bytes(doubled(capture, hops, later))
    found, reading = table_of(path, reader=without_duplicates(read_capture))
    single, _ = table_of(capture)
    in_order = [(name, "ascending") for name in ("ts", "user", "user_port", "seq", "ip_id", "ack")]
    tables = [t.drop_columns(["capture", "frame"]).sort_by(in_order) for t in (single, found)]
    return tables[0], tables[1], reading.skipped["duplicate"]


@pytest.mark.parametrize(("hops", "later"), [(1, 400), (2, 15 * MS)])
def test_captures_of_both_sides_of_a_router_give_the_rows_of_one_side(tmp_path, hops, later):
    single, found, duplicates = both(tmp_path, hops, later)
    assert duplicates == len(single)
    assert found.equals(single)


def test_captures_of_two_mirrored_ports_give_the_rows_of_one_port(tmp_path):
    """But for the first SYN ACKs, which have no identification."""
    single, found, duplicates = both(tmp_path, 0, 3)
    kept = len(found) - len(single)
    assert kept + duplicates == len(single)
    assert kept < MIN_WITH_EVIDENCE
    until = found["ts"][len(found) // 100]
    assert found.filter(pc.greater(found["ts"], until)).num_rows == (
        single.filter(pc.greater(single["ts"], until)).num_rows
    )


@pytest.mark.parametrize("capture", sorted(CAPTURES.glob("*/*.pcap.zst")), ids=str)
def test_captures_of_the_lab_have_no_duplicates(capture):
    _, reading = table_of(capture, reader=without_duplicates(read_capture))
    assert reading.skipped == {}
