"""The same packets give the same rows in every file format, however the file is read."""

import gzip
import struct
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard
from conftest import CAPTURES

from spark_jobs.base.errors import UserError
from spark_jobs.capture import reader, stream
from tests.helpers.capture_files import (
    NOON,
    Frame,
    block,
    enhanced,
    interface,
    obsolete,
    option,
    pcap,
    pcap_header,
    pcap_record,
    pcapng,
    read,
    rows_of,
    section,
    simple,
    table_of,
    timed,
)
from tests.helpers.layers import CARRIERS, DATA, DATAGRAM, PING, SYN, SYN6

PACKETS = [SYN, DATA, DATAGRAM, PING, SYN6]
FRAMES = timed(PACKETS)
LAB = CAPTURES / "aa-gprs/peak.pcap.zst"
NANOSECONDS, MODIFIED = 0xA1B23C4D, 0xA1B2CD34
ORDERS = pytest.mark.parametrize("order", ["<", ">"], ids=["little-endian", "big-endian"])


def times(found) -> list[int]:
    return [round(row["ts"].timestamp() * 1e6) for row in found.rows]


@pytest.fixture
def expected():
    """Rows of the five packets from a plain pcap: test_link_types shows that they are right."""
    found = read(pcap(FRAMES))
    assert found.numbers == [1, 2, 3, 4, 5]
    assert times(found) == [NOON, NOON + 1000, NOON + 2000, NOON + 3000, NOON + 4000]
    return found.rows


@ORDERS
def test_pcap(expected, order):
    assert read(pcap(FRAMES, order=order)).rows == expected


@ORDERS
def test_pcap_with_nanoseconds_is_rounded_down(expected, order):
    records = [pcap_record(f, order, f.ts % 1_000_000 * 1000 + 999) for f in FRAMES]
    assert read(pcap_header(101, order, NANOSECONDS) + b"".join(records)).rows == expected


@ORDERS
def test_nanoseconds_below_the_magic_number_of_microseconds_are_recognized(expected, order):
    """The first one is small enough to be µs."""
    fractions = [999_999, *(f.ts % 1_000_000 * 1000 + 1_000_999 for f in FRAMES[1:])]
    frames = zip(FRAMES, fractions, strict=True)
    records = [pcap_record(f, order, fraction) for f, fraction in frames]
    found = read(pcap_header(101, order) + b"".join(records))
    assert times(found) == [NOON + 999, *(f.ts + 1000 for f in FRAMES[1:])]
    assert [note.partition(": ")[2] for note in found.notes] == [
        "its times are ns, though its magic number says µs"
    ]


@ORDERS
def test_a_record_with_more_than_a_second_of_microseconds_has_no_time(expected, order):
    records = [pcap_record(f, order, 2_000_000 if f is FRAMES[1] else None) for f in FRAMES]
    found = read(pcap_header(101, order) + b"".join(records))
    assert found.rows == [row for n, row in enumerate(expected) if n != 1]
    assert found.skipped == {"implausible_time": 1}


@ORDERS
def test_modified_pcap_has_longer_record_headers(expected, order):
    more = struct.pack(order + "IHBB", 2, 0x800, 4, 0)
    records = [pcap_record(f, order, behind=more) for f in FRAMES]
    assert read(pcap_header(101, order, MODIFIED) + b"".join(records)).rows == expected


@ORDERS
@pytest.mark.parametrize("version", [(2, 2), (2, 3)])
def test_old_pcap_has_the_lengths_the_other_way_round(expected, order, version):
    records = [
        struct.pack(order + "IIII", *divmod(f.ts, 1_000_000), f.wire + 4, len(f.data)) + f.data
        for f in FRAMES
    ]
    file = pcap_header(101, order, version=version) + b"".join(records)
    assert read(file).rows == expected


def test_pcap_2_3_with_the_lengths_in_order_is_read(expected):
    assert read(pcap(FRAMES, version=(2, 3))).rows == expected


def test_bits_above_the_link_type_are_ignored(expected):
    fcs_of_4_bytes = 0x5 << 26
    assert read(pcap(FRAMES, 101 | fcs_of_4_bytes)).rows == expected


@pytest.mark.parametrize("snap", [0, 40, 0xFFFFFFFF])
def test_a_snap_length_that_is_not_kept_does_no_harm(expected, snap):
    assert read(pcap(FRAMES, snap=snap)).rows == expected


def test_records_that_hold_more_than_was_on_the_wire_are_kept(expected):
    short = [Frame(f.data, f.ts, len(f.data) - 1) for f in FRAMES]
    found = read(pcap(short))
    assert (found.rows, found.skipped) == (expected, {})


@pytest.mark.parametrize("seconds", [1, 2**31, 2**32 - 1])
def test_seconds_are_unsigned(seconds):
    assert times(read(pcap([Frame(SYN, seconds * 1_000_000)]))) == [seconds * 1_000_000]


@ORDERS
def test_pcapng(expected, order):
    found = read(pcapng(FRAMES, order=order))
    assert (found.rows, found.skipped) == (expected, {})


@ORDERS
@pytest.mark.parametrize(
    ("resolution", "ticks", "us"),
    [
        (None, 1_700_000_000_123_456, 1_700_000_000_123_456),
        (0, 1_700_000_000, 1_700_000_000_000_000),
        (3, 1_700_000_000_123, 1_700_000_000_123_000),
        (6, 1_700_000_000_123_456, 1_700_000_000_123_456),
        (9, 1_700_000_000_123_456_999, 1_700_000_000_123_456),
        (12, 1_123_456_789_012, 1_123_456),
        (0x80 | 0, 1_700_000_000, 1_700_000_000_000_000),
        (0x80 | 10, 1_700_000_000 * 2**10 + 2**9, 1_700_000_000_500_000),
        (0x80 | 32, 1_700_000_000 * 2**32 + 2**30, 1_700_000_000_250_000),
        (0x80 | 63, 2**63 + 2**61, 1_250_000),
        (0x80 | 64, 2**62, 250_000),
    ],
)
def test_pcapng_time_resolutions(order, resolution, ticks, us):
    file = (
        section(order)
        + interface(101, order, resolution)
        + enhanced(Frame(SYN), order, ticks=ticks)
    )
    assert times(read(file)) == [us]


@ORDERS
@pytest.mark.parametrize("offset_s", [1_700_000_000, -3600])
def test_pcapng_time_offset(order, offset_s):
    ticks = 10_000_000_000
    file = (
        section(order)
        + interface(101, order, 6, offset_s)
        + enhanced(Frame(SYN), order, ticks=ticks)
    )
    assert times(read(file)) == [offset_s * 1_000_000 + ticks]


def test_pcapng_interfaces_differ_in_link_type_and_resolution(expected):
    ethernet = next(carrier for carrier in CARRIERS if carrier.name == "VLAN")
    cooked = next(carrier for carrier in CARRIERS if carrier.name == "Linux cooked v2")
    raw, tagged, sll, *rest = FRAMES
    file = [
        section(),
        interface(101),
        interface(1, resolution=9),
        enhanced(raw, on=0),
        enhanced(Frame(ethernet.frame(tagged.data)), on=1, ticks=tagged.ts * 1000),
        interface(276, resolution=3),
        enhanced(Frame(cooked.frame(sll.data)), on=2, ticks=sll.ts // 1000),
        *(enhanced(frame, on=0) for frame in rest),
    ]
    expected[1]["vlan"] = ethernet.vlan
    assert read(b"".join(file)).rows == expected


def test_pcapng_sections_have_their_own_byte_order_and_interfaces(expected):
    file = [
        pcapng(FRAMES[:2], 101, "<"),
        section(">"),
        interface(147, ">"),
        interface(101, ">"),
        enhanced(FRAMES[2], ">", on=1),
        pcapng(FRAMES[3:], 101, "<"),
    ]
    assert read(b"".join(file)).rows == expected


@ORDERS
def test_obsolete_packet_blocks(expected, order):
    packets = b"".join(obsolete(frame, order) for frame in FRAMES)
    assert read(section(order) + interface(101, order) + packets).rows == expected


@ORDERS
def test_simple_packet_blocks_have_no_time_and_so_no_rows(order):
    file = (
        section(order)
        + interface(101, order)
        + simple(FRAMES[0], order)
        + enhanced(FRAMES[1], order)
    )
    found = read(file)
    assert (found.frames, found.numbers) == (2, [2])
    assert found.skipped == {"implausible_time": 1}


@ORDERS
def test_options_and_other_blocks_are_passed_over(expected, order):
    flags = option(2, struct.pack(order + "I", 1), order) + option(1, b"comment", order)
    file = [section(order), block(0xBAD, b"\0\0\x7e\xd9custom", order), interface(101, order)]
    for frame in FRAMES:
        file += [
            enhanced(frame, order, options=flags),
            block(4, b"\0" * 4, order),
            block(5, bytes(12), order),
            block(0x80000001, b"", order),
        ]
    found = read(b"".join(file))
    assert (found.rows, found.skipped) == (expected, {})


@pytest.mark.parametrize("size", [9 << 20, (16 << 20) - 12])
def test_huge_custom_blocks_are_passed_over(expected, size):
    huge = block(0x40000BAD, b"\0\0\x7e\xd9" + enhanced(Frame(PING)) + bytes(size - 104 - 20))
    file = pcapng(FRAMES[:2]) + huge + b"".join(map(enhanced, FRAMES[2:]))
    found = read(file)
    assert (found.rows, found.skipped) == (expected, {})


def test_a_block_beyond_16_mib_is_corrupt_and_reading_goes_on_behind_it(expected):
    beyond = block(0x40000BAD, bytes(20 << 20))
    file = pcapng(FRAMES[:2]) + beyond + b"".join(map(enhanced, FRAMES[2:]))
    found = read(file)
    assert found.rows == expected
    assert found.skipped == {"corrupt_record": 1, "corrupt_bytes": len(beyond)}


def zstd(data: bytes, **settings) -> bytes:
    return zstandard.ZstdCompressor(**settings).compress(data)


def zstd_without_size(data: bytes) -> bytes:
    compressor = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    return compressor.compress(data) + compressor.flush()


SKIPPABLE = struct.pack("<II", 0x184D2A5E, 9) + b"seekable!"
LONG_WINDOW = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)

COMPRESSED = {
    "gzip": gzip.compress,
    "gzip, a member each 100 bytes": lambda data: b"".join(
        gzip.compress(data[i : i + 100]) for i in range(0, len(data), 100)
    ),
    "gzip, empty members and padding": lambda data: (
        gzip.compress(b"") + gzip.compress(data) + gzip.compress(b"") + bytes(1000)
    ),
    "zstd": zstd,
    "zstd, size unsaid, with checksum": zstd_without_size,
    "zstd, no checksum": lambda data: zstd(data, write_checksum=False, write_content_size=True),
    "zstd, long window": lambda data: zstd(data, compression_params=LONG_WINDOW),
    "zstd, a frame each 100 bytes": lambda data: b"".join(
        zstd_without_size(data[i : i + 100]) for i in range(0, len(data), 100)
    ),
    "zstd, skippable frames": lambda data: (
        SKIPPABLE + zstd(data[:500]) + SKIPPABLE + zstd(b"") + zstd(data[500:]) + SKIPPABLE
    ),
}


@pytest.mark.parametrize("name", COMPRESSED)
def test_compression_makes_no_difference(expected, name):
    plain = pcap(FRAMES)
    found = read(COMPRESSED[name](plain))
    assert (found.rows, found.skipped) == (expected, {})
    assert found.content == read(plain).content


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Path:
    """The first 3 MB of a lab capture: about 30 000 packets."""
    path = tmp_path_factory.mktemp("lab") / "peak.pcap"
    with LAB.open("rb") as source:
        path.write_bytes(zstandard.ZstdDecompressor().stream_reader(source).read(3_000_000))
    return path


@pytest.fixture(scope="module")
def whole(lab) -> pa.Table:
    table, reading = table_of(lab)
    assert table.num_rows == reading.frames > 25_000
    return table


@pytest.mark.parametrize("name", COMPRESSED)
def test_compression_makes_no_difference_to_a_larger_file(lab, whole, tmp_path, name):
    path = tmp_path / lab.name
    path.write_bytes(COMPRESSED[name](lab.read_bytes()))
    table, _ = table_of(path)
    assert table == whole


@pytest.mark.parametrize("batch_packets", [1, 1000, 29_999])
def test_rows_do_not_depend_on_the_run_size(lab, whole, batch_packets):
    table, _ = table_of(lab, batch_packets=batch_packets)
    assert table == whole


@pytest.mark.parametrize("frames_at_once", [1, 7, 1 << 20])
def test_rows_do_not_depend_on_how_many_frames_are_decoded_at_once(
    lab, whole, monkeypatch, frames_at_once
):
    monkeypatch.setattr(reader, "MAX_FRAMES_PER_WALK", frames_at_once)
    table, _ = table_of(lab)
    assert table == whole


@pytest.mark.parametrize("window", [300, 4099, 100_003])
def test_rows_do_not_depend_on_the_window(lab, whole, monkeypatch, window):
    monkeypatch.setattr(stream, "WINDOW_BYTES", window)
    table, _ = table_of(lab)
    assert table == whole


def _record_boundaries(file: bytes) -> list[int]:
    at, found = 24, []
    while at + 16 <= len(file):
        found.append(at)
        at += 16 + int.from_bytes(file[at + 8 : at + 12], "little")
    return found


@pytest.mark.parametrize("window", [1_100_000, 1_500_000, 16 << 20])
def test_garbage_between_records_costs_nothing_in_any_window(
    lab, whole, monkeypatch, tmp_path, window
):
    file = lab.read_bytes()
    path = tmp_path / lab.name
    cuts = [0, *_record_boundaries(file)[:-2:1000], len(file)]
    pieces = [file[low:high] for low, high in pairwise(cuts)]
    path.write_bytes((b"\xff" * 499).join(pieces))
    monkeypatch.setattr(stream, "WINDOW_BYTES", window)
    table, reading = table_of(path)
    assert table == whole
    places = len(pieces) - 1
    assert reading.skipped["corrupt_record"] == places
    assert reading.skipped["corrupt_bytes"] == 499 * places


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (b"\xd4\xc3\xb2\xa1" + bytes(19), "the file ends within the pcap header"),
        (b"hello, world", "not a pcap or pcapng capture"),
        (b"\xd4", "not a pcap or pcapng capture"),
        (gzip.compress(b"", mtime=0), "the file is empty"),
        (gzip.compress(b"{}", mtime=0), "not a pcap or pcapng capture"),
        (gzip.compress(pcap(FRAMES), mtime=0)[:5], "ends within the compressed stream"),
        (zstd(pcap(FRAMES))[:7], "ends within the compressed stream"),
        (b"\x1f\x8b\x00\x00\x00\x00", "Error -3"),
    ],
)
def test_files_that_are_no_captures_are_user_errors_that_name_the_file(tmp_path, data, reason):
    path = tmp_path / "capture"
    path.write_bytes(data)
    with pytest.raises(UserError, match=reason) as raised:
        rows_of(path)
    assert str(raised.value).startswith(f"{path}: ")
