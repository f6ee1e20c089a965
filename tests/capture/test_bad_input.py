"""What can be read is kept, what cannot is counted, and nothing crashes, hangs or goes unsaid."""

import gzip
import struct
import time
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
import zstandard
from capture_files import (
    NOON,
    Frame,
    enhanced,
    interface,
    obsolete,
    pcap,
    pcap_header,
    pcap_record,
    pcapng,
    rows_of,
    section,
    timed,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from layers import CARRIERS, DATA, EXTENSIONS, FRAGMENTS, GTP_IN, SYN, SYN6, UP, every_layer
from scapy.layers.inet import TCP

from spark_jobs.capture.addresses import AddressTable, find_or_add
from spark_jobs.errors import UserError

PACKETS = [SYN, DATA[:90], SYN, DATA[:72], SYN6, SYN, DATA[:72], SYN]
FRAMES = timed(PACKETS)
NUMBERS = list(range(1, len(FRAMES) + 1))
MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    path = tmp_path_factory.mktemp("bad") / "capture"

    def read(data: bytes, **kwargs):
        path.write_bytes(data)
        return rows_of(path, **kwargs)

    return read


@pytest.fixture(scope="module")
def sound(read):
    """Rows of the eight packets."""
    return read(pcap(FRAMES)).rows


def unnumbered(rows: list[dict]) -> list[dict]:
    return [{k: v for k, v in row.items() if k != "frame"} for row in rows]


RECORDS = [pcap_record(frame) for frame in FRAMES]
BLOCKS = [enhanced(frame) for frame in FRAMES]
PCAP, PCAPNG = pcap_header(101), section() + interface(101)
FORMATS = pytest.mark.parametrize(
    ("header", "records"), [(PCAP, RECORDS), (PCAPNG, BLOCKS)], ids=["pcap", "pcapng"]
)


@FORMATS
def test_a_file_cut_anywhere_keeps_every_whole_packet(read, sound, header, records):
    file = header + b"".join(records)
    ends = [len(header) + sum(map(len, records[:n])) for n in range(len(records) + 1)]
    for cut in range(len(header), len(file)):
        whole = sum(end <= cut for end in ends) - 1
        found = read(file[:cut])
        assert found.rows == sound[:whole]
        assert found.skipped == ({} if cut in ends else {"truncated_file": 1})


def test_a_header_without_packets_gives_nothing(read):
    for file in (PCAP, PCAPNG, PCAPNG[:12], PCAPNG[:4]):
        found = read(file)
        assert (found.rows, found.frames) == ([], 0)


def test_a_gzip_cut_anywhere_keeps_what_came_before(read, sound):
    file = gzip.compress(pcap(FRAMES))
    for cut in range(30, len(file)):
        there = zlib.decompressobj(wbits=31).decompress(file[:cut])
        if len(there) < 24:
            continue
        found = read(file[:cut])
        assert found.rows == read(there).rows
        assert found.skipped.pop("corrupt_compression") == 1
        assert set(found.skipped) <= {"truncated_file"}


def zstd_blocks(pieces: list[bytes]) -> list[bytes]:
    """A frame with a block for each piece: its compressed bytes, piece by piece, then its end."""
    compressor = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    flush = zstandard.COMPRESSOBJ_FLUSH_BLOCK
    blocks = [compressor.compress(piece) + compressor.flush(flush) for piece in pieces]
    return [*blocks, compressor.flush()]


def test_a_zstd_cut_anywhere_keeps_every_whole_block(read, sound):
    blocks = zstd_blocks([PCAP, *RECORDS])
    file = b"".join(blocks)
    ends = [sum(map(len, blocks[: n + 1])) for n in range(len(blocks))]
    for cut in range(ends[0], len(file)):
        found = read(file[:cut])
        whole = sum(end <= cut for end in ends[1:-1])
        assert found.rows[:whole] == sound[:whole]
        assert found.skipped["corrupt_compression"] == 1


@pytest.mark.parametrize("broken", range(1, len(RECORDS) - 1))
def test_a_broken_zstd_block_costs_none_before_it(read, sound, broken):
    blocks = zstd_blocks([PCAP, *RECORDS])
    blocks[broken + 1] = b"\xff" * len(blocks[broken + 1])
    found = read(b"".join(blocks))
    assert found.rows == sound[:broken]
    assert found.skipped == {"corrupt_compression": 1}


ZSTD_WITH_CHECKSUM = zstandard.ZstdCompressor(write_checksum=True)


@pytest.mark.parametrize("compress", [gzip.compress, ZSTD_WITH_CHECKSUM.compress])
def test_a_wrong_checksum_is_counted_and_the_packets_are_kept(read, sound, compress):
    file = bytearray(compress(pcap(FRAMES)))
    place = -5 if file[:2] == b"\x1f\x8b" else -1
    file[place] ^= 1
    found = read(bytes(file))
    assert (found.rows, found.skipped) == (sound, {"corrupt_compression": 1})


def test_a_gzip_broken_anywhere_keeps_what_zlib_reads_before(read):
    packed = gzip.compress(pcap(timed(PACKETS * 40)), compresslevel=1)
    for broken in range(200, len(packed), 97):
        file = packed[:broken] + b"\xff" * 20 + packed[broken + 20 :]
        inflate, there = zlib.decompressobj(wbits=31), b""
        try:
            for i in range(len(file)):
                there += inflate.decompress(file[i : i + 1])
        except zlib.error:
            found = read(file)
            assert found.rows == read(there).rows
            assert found.skipped["corrupt_compression"] == 1


def test_what_lies_behind_the_compressed_stream_is_counted_and_costs_nothing(read, sound):
    for compressed in (gzip.compress(pcap(FRAMES)), zstandard.compress(pcap(FRAMES))):
        found = read(compressed + b"garbage, garbage, garbage")
        assert (found.rows, found.skipped) == (sound, {"corrupt_compression": 1})


@FORMATS
@pytest.mark.parametrize(
    "garbage", [b"\xff", b"\xff" * 7, b"\xff" * 1000, b"\0" * 4099, b"GET /" * 99]
)
def test_garbage_between_packets_costs_none(read, sound, header, records, garbage):
    for place in range(1, len(records)):
        file = header + b"".join(records[:place]) + garbage + b"".join(records[place:])
        found = read(file)
        assert found.rows == sound
        assert found.skipped.pop("corrupt_record") == 1
        assert found.skipped == {"corrupt_bytes": len(garbage)}


@FORMATS
def test_an_overwritten_header_costs_its_packet(read, sound, header, records):
    for place, record in enumerate(records):
        broken = b"\xff" * 16 + record[16:]
        file = header + b"".join([*records[:place], broken, *records[place + 1 :]])
        found = read(file)
        assert unnumbered(found.rows) == unnumbered(sound[:place] + sound[place + 1 :])
        assert found.numbers == NUMBERS[:-1]
        assert found.skipped == {"corrupt_record": 1, "corrupt_bytes": len(record)}


@FORMATS
@pytest.mark.parametrize("missing", [1, 2, 3, 5])
def test_missing_bytes_cost_two_packets_at_most(read, sound, header, records, missing):
    for place in range(len(records) - 3):
        broken = records[place][:-missing]
        file = header + b"".join([*records[:place], broken, *records[place + 1 :]])
        found = read(file)
        kept = [row for row in unnumbered(found.rows) if row in unnumbered(sound)]
        assert kept[:place] == unnumbered(sound[:place])
        assert kept[-(len(sound) - place - 2) :] == unnumbered(sound[place + 2 :])
        assert found.skipped["corrupt_record"] >= 1


def test_one_capture_behind_the_other_is_read_through(read, sound):
    found = read(pcap(FRAMES) + pcap(FRAMES))
    assert unnumbered(found.rows) == unnumbered(sound + sound)
    assert found.skipped == {"corrupt_record": 1, "corrupt_bytes": 24}


def test_reading_goes_on_at_another_time_than_where_it_stopped(read, sound):
    earlier = pcap_record(Frame(SYN, NOON - 400 * 86_400_000_000))
    found = read(PCAP + earlier * 3 + b"\xff" * 50 + b"".join(RECORDS))
    assert unnumbered(found.rows[3:]) == unnumbered(sound)


@pytest.mark.parametrize("claimed", [263_000, 2**31 - 1, 2**31, 2**32 - 1])
def test_a_record_that_claims_too_much_costs_itself(read, sound, claimed):
    liar = struct.pack("<IIII", 1_700_000_000, 0, claimed, claimed) + SYN
    found = read(PCAP + b"".join(RECORDS[:4]) + liar + b"".join(RECORDS[4:]))
    assert found.rows == sound
    assert found.skipped == {"corrupt_record": 1, "corrupt_bytes": len(liar)}


@pytest.mark.parametrize("claimed", [61, 300, 65_535, 200_000])
def test_a_record_that_swallows_the_next_is_not_believed(read, sound, claimed):
    liar = struct.pack("<IIII", 1_700_000_000, 0, claimed, 60) + SYN
    found = read(PCAP + b"".join(RECORDS[:4]) + liar + b"".join(RECORDS[4:] * 3000))
    assert unnumbered(found.rows[:8]) == unnumbered(sound)
    assert found.skipped == {"corrupt_record": 1, "corrupt_bytes": len(liar)}


@pytest.mark.parametrize("kind", [1, 2, 3, 4, 6, 0xBAD, 0x0A0D0D0A, 77])
@pytest.mark.parametrize("claimed", [0, 8, 13, 100, 16 << 20, 2**32 - 4, 2**32 - 1])
def test_a_pcapng_block_whose_length_lies_costs_itself(read, sound, kind, claimed):
    body = struct.pack("<I", 0x1A2B3C4D) + bytes(48)
    liar = struct.pack("<II", kind, claimed) + body + struct.pack("<I", 64)
    found = read(PCAPNG + b"".join(BLOCKS[:4]) + liar + b"".join(BLOCKS[4:]))
    assert found.rows == sound
    assert found.skipped == {"corrupt_record": 1, "corrupt_bytes": len(liar)}


@pytest.mark.parametrize("packet_block", [enhanced, obsolete])
def test_a_packet_block_that_claims_more_than_it_holds_costs_itself(read, sound, packet_block):
    liar = bytearray(packet_block(FRAMES[0]))
    liar[20:24] = struct.pack("<I", len(SYN) + 5)
    found = read(PCAPNG + b"".join(BLOCKS[:4]) + bytes(liar) + b"".join(BLOCKS[4:]))
    assert found.rows == sound
    assert found.skipped == {"corrupt_record": 1, "corrupt_bytes": len(liar)}


def test_a_packet_of_an_interface_that_was_never_described_is_counted(read, sound):
    stray = enhanced(FRAMES[0], on=5)
    found = read(PCAPNG + b"".join(BLOCKS[:4]) + stray * 3 + b"".join(BLOCKS[4:]))
    assert found.rows == sound
    assert found.skipped == {"corrupt_record": 3, "corrupt_bytes": 3 * len(stray)}


def test_more_interfaces_than_we_keep_are_counted(read):
    file = section() + interface(101) * 5000 + b"".join(BLOCKS) + enhanced(FRAMES[0], on=4999)
    found = read(file)
    assert len(found.rows) == len(BLOCKS)
    assert found.skipped["corrupt_record"] == 5000 - 4096 + 1


def changed(packet: bytes, at: int, value: bytes) -> bytes:
    return packet[:at] + value + packet[at + len(value) :]


IP_LEN, IP_OFF, TCP_OFFSET, OPTIONS = 2, 20, 20 + 12, 40


@pytest.mark.parametrize(
    "packet",
    [
        changed(SYN, 0, b"\x44"),
        changed(SYN, 0, b"\x40"),
        changed(SYN, IP_LEN, b"\x00\x13"),
        changed(SYN, 0, b"\x55"),
        changed(SYN, 0, b"\x00"),
    ],
    ids=["header of 16 bytes", "header of 0 bytes", "total length 19", "version 5", "version 0"],
)
def test_an_ip_header_that_contradicts_itself_is_counted(read, packet):
    found = read(pcap([Frame(packet), Frame(SYN)]))
    assert (found.numbers, found.skipped) == ([2], {"malformed_ip": 1})


@pytest.mark.parametrize("on_wire", [0, 10, 600_000, 2**32 - 1])
def test_a_packet_of_no_length_on_an_impossible_wire_is_counted(read, on_wire):
    frame = Frame(changed(SYN, IP_LEN, b"\0\0"), NOON, on_wire)
    found = read(
        section()
        + interface(1)
        + enhanced(Frame(bytes(12) + b"\x08\x00" + frame.data, NOON, on_wire))
    )
    assert (found.rows, found.skipped) == ([], {"malformed_ip": 1})


def test_a_total_length_above_what_was_on_the_wire_is_believed(read):
    row = read(pcap([Frame(changed(SYN, IP_LEN, b"\x05\xdc"))])).rows[0]
    assert (row["ip_len"], row["payload_len"]) == (1500, 1500 - 20 - 40)


@pytest.mark.parametrize(
    "packet",
    [
        changed(SYN, TCP_OFFSET, b"\x40"),
        changed(SYN, TCP_OFFSET, b"\x00"),
        changed(SYN, TCP_OFFSET, b"\xb0"),
        changed(SYN, IP_LEN, b"\x00\x20"),
    ],
    ids=["16 bytes", "0 bytes", "44 of 40", "beyond the IP packet"],
)
def test_a_tcp_header_outside_its_packet_is_a_row_without_tcp(read, packet):
    found = read(pcap([Frame(packet)]))
    assert [row["tcp_flags"] for row in found.rows] == [None]
    assert found.skipped == {"malformed_tcp": 1}


def syn_with(options: str) -> bytes:
    tail = bytes.fromhex(options)
    header = bytes(UP / TCP(sport=1, dport=2, flags="S", dataofs=5 + len(tail) // 4))
    return changed(header + tail, IP_LEN, struct.pack(">H", 40 + len(tail)))


@pytest.mark.parametrize(
    ("options", "mss"),
    [
        ("01010201", None),
        ("01010200", None),
        ("02050550", None),
        ("01010102", None),
        ("02040550 01010300", 1360),
        ("02040550 01010801", 1360),
        ("02040550 01010522", 1360),
    ],
)
def test_an_option_whose_length_lies_ends_the_options(read, options, mss):
    found = read(pcap([Frame(syn_with(options))]))
    assert [(row["tcp_flags"], row["mss"]) for row in found.rows] == [(2, mss)]
    assert found.skipped == {"malformed_options": 1}


@pytest.mark.parametrize(
    "options",
    ["02030501", "03040501", "0403ff01", "0809 00000000000000 010101", "0506 00000000 0101"],
)
def test_an_option_of_another_length_than_its_rfc_says_is_not_read(read, options):
    found = read(pcap([Frame(syn_with(options + "02040550"))]))
    values = [
        found.rows[0][name]
        for name in ("mss", "window_scale", "sack_permitted", "ts_val", "ts_ecr", "sack")
    ]
    assert (values, found.skipped) == ([1360, None, None, None, None, None], {})


def test_what_follows_the_end_of_options_is_not_read(read):
    found = read(pcap([Frame(syn_with("02040550 00 020400"))]))
    assert (found.rows[0]["mss"], found.skipped) == (1360, {})


def test_a_gtp_extension_header_of_no_length_ends_the_tunnel(read):
    at = 20 + 8 + 8 + 4
    packet = changed(GTP_IN["v4 in v4, extension header"], at, b"\0")
    assert read(pcap([Frame(packet)])).skipped == {"not_subscriber": 1}


def test_a_clock_that_jumps_back_is_counted_and_its_packets_kept(read):
    hour = 3_600_000_000
    times = [NOON, NOON + hour, NOON, NOON + 10, NOON - hour]
    found = read(pcap([Frame(SYN, ts) for ts in times]))
    assert [round(row["ts"].timestamp() * 1e6) for row in found.rows] == times
    assert found.skipped == {"clock_backwards": 2}


def test_packets_up_to_a_second_out_of_order_are_nothing_special(read):
    assert read(pcap([Frame(SYN, NOON), Frame(SYN, NOON - 1_000_000)])).skipped == {}


@pytest.mark.parametrize("ticks", [253_402_300_800_000_000, 2**62, 2**63, 2**64 - 1])
def test_a_time_outside_1970_to_9999_is_counted(read, ticks):
    found = read(PCAPNG + enhanced(Frame(SYN), ticks=ticks) + enhanced(Frame(SYN)))
    assert (found.numbers, found.skipped) == ([2], {"implausible_time": 1})


def test_the_last_microsecond_of_9999_is_kept(read):
    assert len(read(PCAPNG + enhanced(Frame(SYN), ticks=253_402_300_799_999_999)).rows) == 1


def cost(read, file: bytes) -> tuple:
    """Peak memory (B) and time (s) of reading a file, and what came of it."""
    tracemalloc.start()
    start = time.perf_counter()
    found = read(file)
    seconds = time.perf_counter() - start
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, seconds, found


def zstd_of_zeros(blocks: int) -> bytes:
    """A frame with the pcap file and then blocks of 128 KiB, each 4 bytes long (RFC 8878, 3.1.1):
    no single segment, a window of 128 KiB, raw and run-length blocks."""
    frame_header = zstandard.MAGIC_NUMBER.to_bytes(4, "little") + b"\x00\x38"
    plain = pcap(FRAMES)
    raw = (len(plain) << 3).to_bytes(3, "little") + plain
    zeros = (0x20000 << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    last = (1).to_bytes(3, "little")
    return frame_header + raw + zeros * blocks + last


@pytest.mark.parametrize(
    "bomb",
    [zstd_of_zeros(800), gzip.compress(pcap(FRAMES) + bytes(100 * MEBIBYTE), compresslevel=1)],
    ids=["zstd", "gzip"],
)
def test_a_bomb_takes_little_memory_and_time(read, sound, bomb):
    at_rest, _, _ = cost(read, pcap(FRAMES) + bytes(50))
    peak, seconds, found = cost(read, bomb)
    assert peak < at_rest + 20 * MEBIBYTE
    assert seconds < 10
    assert found.rows == sound
    assert found.skipped == {"corrupt_record": 1, "corrupt_bytes": 100 * MEBIBYTE}


def test_a_zstd_window_of_two_gib_is_refused(read):
    window_2_31 = 21 << 3
    header = zstandard.MAGIC_NUMBER.to_bytes(4, "little") + bytes([0, window_2_31])
    with pytest.raises(UserError, match="memory"):
        read(header + (1 | 24 << 3).to_bytes(3, "little") + PCAP)


def test_empty_gzip_members_without_end_take_no_long_time(read, sound):
    file = gzip.compress(b"") * 50_000 + gzip.compress(pcap(FRAMES))
    start = time.perf_counter()
    assert read(file).rows == sound
    assert time.perf_counter() - start < 10


@FORMATS
def test_lies_without_end_take_no_long_time(read, sound, header, records):
    lie = b"\xff" * 5
    start = time.perf_counter()
    found = read(header + lie.join([b"".join(records)] * 2000))
    assert unnumbered(found.rows) == unnumbered(sound * 2000)
    assert found.skipped["corrupt_bytes"] == 5 * 1999
    assert time.perf_counter() - start < 10


def test_addresses_chosen_to_collide_take_no_long_time():
    table = AddressTable(np.zeros((0, 4), np.uint64), 60_000)
    start = time.perf_counter()
    for low in range(30_000):
        high = low * 0x9E3779B97F4A7C15 & 2**64 - 1
        find_or_add(table.entries, table.slots, table.prefixes, np.uint64(high), np.uint64(low))
    assert len(table) == 30_000
    assert time.perf_counter() - start < 5


def test_a_new_address_in_every_packet_is_read_in_bounded_runs(read):
    server = int.from_bytes(b"\xc6\x33\x64\x07", "big")
    packets = [
        changed(SYN, 12, struct.pack(">II", 0x0A400000 + i, server + i)) for i in range(40_000)
    ]
    found = read(pcap(timed(packets)), run_packets=10_000)
    assert len({row["user"] for row in found.rows}) == 40_000
    assert len({row["server"] for row in found.rows}) == 40_000


MIXED = timed(
    [
        SYN,
        DATA[:72],
        SYN6,
        *FRAGMENTS[:2],
        *GTP_IN.values(),
        *map(bytes, EXTENSIONS.values()),
        SYN,
    ]
)
SEEDS = {
    "pcap": pcap(MIXED),
    "pcap, big-endian": pcap(MIXED, order=">"),
    "pcapng": pcapng(MIXED),
    "every link type": every_layer(),
    "Ethernet": pcap([Frame(CARRIERS[13].frame(f.data), f.ts) for f in MIXED], 1),
    "gzip": gzip.compress(pcap(MIXED)),
    "zstd": b"".join(zstd_blocks([PCAP, *map(pcap_record, MIXED)])),
}

fuzz = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def accounts_for_every_frame(found) -> bool:
    """Every frame has a row, or is counted under a reason that costs the row."""
    numbers = set(found.numbers)
    return len(numbers) + found.unread == found.frames and numbers <= set(
        range(1, found.frames + 1)
    )


@st.composite
def damaged(draw) -> bytes:
    """One of the seeds after a few flips, cuts, repetitions and splices."""
    file = draw(st.sampled_from(sorted(SEEDS)).map(SEEDS.get))
    place = st.integers(0, len(file) - 1)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(place) % max(1, len(file))
        length = draw(st.integers(0, 40))
        match draw(st.sampled_from(["flip", "write", "remove", "repeat", "splice", "cut"])):
            case "flip":
                bit = 1 << draw(st.integers(0, 7))
                file = changed(file, at, bytes(byte ^ bit for byte in file[at : at + 1]))
            case "write":
                file = changed(file, at, draw(st.binary(max_size=8)))
            case "remove":
                file = file[:at] + file[at + length :]
            case "repeat":
                file = file[:at] + file[at : at + length] * draw(st.integers(2, 50)) + file[at:]
            case "splice":
                other = draw(st.sampled_from(sorted(SEEDS)).map(SEEDS.get))
                file = file[:at] + other[draw(place) % len(other) :]
            case "cut":
                file = file[: max(at, len(file) - length)]
    return file


@fuzz
@given(file=damaged(), run_packets=st.sampled_from([1, 5, 1 << 20]))
def test_damaged_captures_are_read_and_every_frame_accounted_for(read, file, run_packets):
    try:
        found = read(file, run_packets=run_packets)
    except UserError:
        return
    assert accounts_for_every_frame(found)


@fuzz
@given(body=st.binary(max_size=400), header=st.sampled_from([PCAP, PCAPNG, pcap_header(1), b""]))
def test_noise_is_read_and_every_frame_accounted_for(read, body, header):
    try:
        found = read(header + body)
    except UserError:
        assert header == b""
        return
    assert accounts_for_every_frame(found)


@fuzz
@given(
    packet=st.sampled_from([f.data for f in MIXED]),
    flips=st.lists(st.tuples(st.integers(0, 150), st.integers(0, 255)), min_size=1, max_size=8),
    link_type=st.sampled_from(sorted({carrier.link_type for carrier in CARRIERS} | {229})),
    snap=st.integers(0, 150),
)
def test_damaged_packets_are_rows_or_counted(read, packet, flips, link_type, snap):
    for at, value in flips:
        packet = changed(packet, at % len(packet), bytes([value]))
    frame = Frame(packet).cut(snap)
    found = read(pcap([frame, Frame(SYN)], link_type))
    assert found.frames == 2
    assert accounts_for_every_frame(found)
    beside_another = read(pcap([frame, Frame(b"\x45" * 99, NOON + 999_999)], link_type))
    first, same = ([row for row in f.rows if row["frame"] == 1] for f in (found, beside_another))
    assert first == same, "what lies behind a frame must not show in its row"


@fuzz
@given(data=st.data())
def test_a_damaged_byte_costs_two_packets_at_most(read, sound, data):
    header, records = data.draw(st.sampled_from([(PCAP, RECORDS), (PCAPNG, BLOCKS)]))
    file = header + b"".join(records)
    at = data.draw(st.integers(len(header), len(file) - 1))
    damaged = changed(file, at, bytes([data.draw(st.integers(0, 255))]))
    found = read(damaged)
    assert accounts_for_every_frame(found)
    untouched = [row for row in unnumbered(found.rows) if row in unnumbered(sound)]
    assert len(untouched) >= len(sound) - 2


PUBLIC = Path(__file__).parents[3] / "shared/captures/public"
REAL = [
    "tcptrace/dlt_null.dmp.gz",
    "tcptrace/psc.fddi.dmp.gz",
    "tcptrace/ppp_over_eth.dmp.gz",
    "tcptrace/ipopts.dmp.gz",
    "tcptrace/pcap_v2.2.dmp.gz",
    "packets/tcp_dupack.pcapng",
]


@pytest.fixture(scope="module")
def real() -> list[bytes]:
    """The first 20 kB of real captures."""
    found = [PUBLIC / name for name in REAL if (PUBLIC / name).exists()]
    if not found:
        pytest.skip(f"no captures in {PUBLIC}")
    unpack = {".gz": gzip.decompress, ".pcapng": bytes}
    return [unpack[path.suffix](path.read_bytes())[:20_000] for path in found]


@fuzz
@given(
    which=st.integers(0, len(REAL) - 1),
    writes=st.lists(
        st.tuples(st.integers(0, 20_000), st.binary(min_size=1, max_size=6)), max_size=9
    ),
    cut=st.integers(0, 20_000),
)
def test_damaged_real_captures_are_read_and_every_frame_accounted_for(
    read, real, which, writes, cut
):
    file = real[which % len(real)]
    for at, value in writes:
        file = changed(file, at % len(file), value)
    try:
        found = read(
            file[: len(file) - cut % len(file) // 4], subscribers=["0.0.0.0/1", "128.0.0.0/2"]
        )
    except UserError:
        return
    assert accounts_for_every_frame(found)
