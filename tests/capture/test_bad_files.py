"""The readable packets of a broken file are kept, the rest is counted; no file makes the reader
hang or take much memory."""

import gzip
import struct
import time
import tracemalloc
import zlib

import pytest
import zstandard

from spark_jobs.base.errors import UserError
from tests.helpers.bad_input import (
    BLOCKS,
    FORMATS,
    FRAMES,
    PACKETS,
    PCAP,
    PCAPNG,
    RECORDS,
    sound,
    unnumbered,
    zstd_blocks,
)
from tests.helpers.capture_files import (
    NOON,
    Frame,
    enhanced,
    interface,
    obsolete,
    pcap,
    pcap_record,
    read,
    section,
    timed,
)
from tests.helpers.layers import SYN

NUMBERS = list(range(1, len(FRAMES) + 1))
MEBIBYTE = 1 << 20


@pytest.mark.integration
@FORMATS
def test_a_file_cut_anywhere_keeps_every_whole_packet(header, records):
    file = header + b"".join(records)
    ends = [len(header) + sum(map(len, records[:n])) for n in range(len(records) + 1)]
    for cut in range(len(header), len(file)):
        whole = sum(end <= cut for end in ends) - 1
        found = read(file[:cut])
        assert found.rows == sound()[:whole]
        assert found.skipped == ({} if cut in ends else {"truncated_file": 1})


def test_a_header_without_packets_gives_nothing():
    for file in (PCAP, PCAPNG, PCAPNG[:12], PCAPNG[:4]):
        found = read(file)
        assert (found.rows, found.frames) == ([], 0)


def test_a_gzip_cut_anywhere_keeps_what_came_before():
    file = gzip.compress(pcap(FRAMES))
    for cut in range(30, len(file)):
        there = zlib.decompressobj(wbits=31).decompress(file[:cut])
        if len(there) < 24:
            continue
        found = read(file[:cut])
        assert found.rows == read(there).rows
        assert found.skipped.pop("corrupt_compression") == 1
        assert set(found.skipped) <= {"truncated_file"}


def test_a_zstd_cut_anywhere_keeps_every_whole_block():
    blocks = zstd_blocks([PCAP, *RECORDS])
    file = b"".join(blocks)
    ends = [sum(map(len, blocks[: n + 1])) for n in range(len(blocks))]
    for cut in range(ends[0], len(file)):
        found = read(file[:cut])
        whole = sum(end <= cut for end in ends[1:-1])
        assert found.rows[:whole] == sound()[:whole]
        assert found.skipped["corrupt_compression"] == 1


@pytest.mark.parametrize("broken", range(1, len(RECORDS) - 1))
def test_packets_before_a_broken_zstd_block_are_kept(broken):
    blocks = zstd_blocks([PCAP, *RECORDS])
    blocks[broken + 1] = b"\xff" * len(blocks[broken + 1])
    found = read(b"".join(blocks))
    assert found.rows == sound()[:broken]
    assert found.skipped == {"corrupt_compression": 1}


ZSTD_WITH_CHECKSUM = zstandard.ZstdCompressor(write_checksum=True)


@pytest.mark.parametrize("compress", [gzip.compress, ZSTD_WITH_CHECKSUM.compress])
def test_a_wrong_checksum_is_counted_and_the_packets_are_kept(compress):
    file = bytearray(compress(pcap(FRAMES)))
    place = -5 if file[:2] == b"\x1f\x8b" else -1
    file[place] ^= 1
    found = read(bytes(file))
    assert (found.rows, found.skipped) == (sound(), {"corrupt_compression": 1})


def test_a_gzip_broken_anywhere_keeps_what_zlib_reads_before():
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


def test_bytes_behind_the_compressed_stream_are_counted_and_cost_nothing():
    for compressed in (gzip.compress(pcap(FRAMES)), zstandard.compress(pcap(FRAMES))):
        found = read(compressed + b"garbage, garbage, garbage")
        assert (found.rows, found.skipped) == (sound(), {"corrupt_compression": 1})


@FORMATS
@pytest.mark.parametrize(
    "garbage", [b"\xff", b"\xff" * 7, b"\xff" * 1000, b"\0" * 4099, b"GET /" * 99]
)
def test_garbage_between_packets_costs_none(header, records, garbage):
    for place in range(1, len(records)):
        file = header + b"".join(records[:place]) + garbage + b"".join(records[place:])
        found = read(file)
        assert found.rows == sound()
        assert found.skipped.pop("corrupt_record") == 1
        assert found.skipped == {"corrupt_bytes": len(garbage)}


@FORMATS
def test_an_overwritten_header_costs_its_packet(header, records):
    for place, record in enumerate(records):
        broken = b"\xff" * 16 + record[16:]
        file = header + b"".join([*records[:place], broken, *records[place + 1 :]])
        found = read(file)
        assert unnumbered(found.rows) == unnumbered(sound()[:place] + sound()[place + 1 :])
        assert found.numbers == NUMBERS[:-1]
        assert found.skipped == {"corrupt_record": 1, "corrupt_bytes": len(record)}


@FORMATS
@pytest.mark.parametrize("missing", [1, 2, 3, 5])
def test_missing_bytes_cost_two_packets_at_most(header, records, missing):
    for place in range(len(records) - 3):
        broken = records[place][:-missing]
        file = header + b"".join([*records[:place], broken, *records[place + 1 :]])
        found = read(file)
        kept = [row for row in unnumbered(found.rows) if row in unnumbered(sound())]
        assert kept[:place] == unnumbered(sound()[:place])
        assert kept[-(len(sound()) - place - 2) :] == unnumbered(sound()[place + 2 :])
        assert found.skipped["corrupt_record"] >= 1


def test_two_captures_in_one_file_are_both_read():
    found = read(pcap(FRAMES) + pcap(FRAMES))
    assert unnumbered(found.rows) == unnumbered(sound() + sound())
    assert found.skipped == {"corrupt_record": 1, "corrupt_bytes": 24}


def test_reading_resumes_at_packets_of_another_time():
    earlier = pcap_record(Frame(SYN, NOON - 400 * 86_400_000_000))
    found = read(PCAP + earlier * 3 + b"\xff" * 50 + b"".join(RECORDS))
    assert unnumbered(found.rows[3:]) == unnumbered(sound())


@pytest.mark.parametrize("claimed", [263_000, 2**31 - 1, 2**31, 2**32 - 1])
def test_a_record_with_too_large_a_length_costs_itself_alone(claimed):
    wrong = struct.pack("<IIII", 1_700_000_000, 0, claimed, claimed) + SYN
    found = read(PCAP + b"".join(RECORDS[:4]) + wrong + b"".join(RECORDS[4:]))
    assert found.rows == sound()
    assert found.skipped == {"corrupt_record": 1, "corrupt_bytes": len(wrong)}


@pytest.mark.parametrize("claimed", [61, 300, 65_535, 200_000])
def test_a_length_that_reaches_into_the_next_record_costs_its_record_alone(claimed):
    wrong = struct.pack("<IIII", 1_700_000_000, 0, claimed, 60) + SYN
    found = read(PCAP + b"".join(RECORDS[:4]) + wrong + b"".join(RECORDS[4:] * 3000))
    assert unnumbered(found.rows[:8]) == unnumbered(sound())
    assert found.skipped == {"corrupt_record": 1, "corrupt_bytes": len(wrong)}


@pytest.mark.parametrize("kind", [1, 2, 3, 4, 6, 0xBAD, 0x0A0D0D0A, 77])
@pytest.mark.parametrize("claimed", [0, 8, 13, 100, 16 << 20, 2**32 - 4, 2**32 - 1])
def test_a_pcapng_block_with_a_wrong_length_costs_itself_alone(kind, claimed):
    body = struct.pack("<I", 0x1A2B3C4D) + bytes(48)
    wrong = struct.pack("<II", kind, claimed) + body + struct.pack("<I", 64)
    found = read(PCAPNG + b"".join(BLOCKS[:4]) + wrong + b"".join(BLOCKS[4:]))
    assert found.rows == sound()
    assert found.skipped == {"corrupt_record": 1, "corrupt_bytes": len(wrong)}


@pytest.mark.parametrize("packet_block", [enhanced, obsolete])
def test_a_packet_block_with_too_large_a_packet_length_costs_itself_alone(packet_block):
    wrong = bytearray(packet_block(FRAMES[0]))
    wrong[20:24] = struct.pack("<I", len(SYN) + 5)
    found = read(PCAPNG + b"".join(BLOCKS[:4]) + bytes(wrong) + b"".join(BLOCKS[4:]))
    assert found.rows == sound()
    assert found.skipped == {"corrupt_record": 1, "corrupt_bytes": len(wrong)}


def test_a_packet_of_an_interface_that_was_never_described_is_counted():
    undescribed = enhanced(FRAMES[0], on=5)
    found = read(PCAPNG + b"".join(BLOCKS[:4]) + undescribed * 3 + b"".join(BLOCKS[4:]))
    assert found.rows == sound()
    assert found.skipped == {"corrupt_record": 3, "corrupt_bytes": 3 * len(undescribed)}


def test_interfaces_beyond_the_limit_are_counted():
    file = section() + interface(101) * 5000 + b"".join(BLOCKS) + enhanced(FRAMES[0], on=4999)
    found = read(file)
    assert len(found.rows) == len(BLOCKS)
    assert found.skipped["corrupt_record"] == 5000 - 4096 + 1


def measured_read(file: bytes) -> tuple:
    """Read a file; returns the peak memory (B), the time (s) and what was read."""
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
def test_a_bomb_takes_little_memory_and_time(bomb):
    at_rest, _, _ = measured_read(pcap(FRAMES) + bytes(50))
    peak, seconds, found = measured_read(bomb)
    assert peak < at_rest + 20 * MEBIBYTE
    assert seconds < 10
    assert found.rows == sound()
    assert found.skipped == {"corrupt_record": 1, "corrupt_bytes": 100 * MEBIBYTE}


def test_a_zstd_window_of_two_gib_is_refused():
    window_2_31 = 21 << 3
    header = zstandard.MAGIC_NUMBER.to_bytes(4, "little") + bytes([0, window_2_31])
    with pytest.raises(UserError, match="memory"):
        read(header + (1 | 24 << 3).to_bytes(3, "little") + PCAP)


def test_empty_gzip_members_without_end_take_no_long_time():
    file = gzip.compress(b"") * 50_000 + gzip.compress(pcap(FRAMES))
    start = time.perf_counter()
    assert read(file).rows == sound()
    assert time.perf_counter() - start < 10


@FORMATS
def test_garbage_between_thousands_of_packets_takes_no_long_time(header, records):
    garbage = b"\xff" * 5
    start = time.perf_counter()
    found = read(header + garbage.join([b"".join(records)] * 2000))
    assert unnumbered(found.rows) == unnumbered(sound() * 2000)
    assert found.skipped["corrupt_bytes"] == 5 * 1999
    assert time.perf_counter() - start < 10
