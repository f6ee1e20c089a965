"""Files made to cost time: each takes time in proportion to its bytes, or is given up."""

import gzip
import os
import re
import struct
import time
import zlib
from collections.abc import Callable
from itertools import count

import pytest
import zstandard
from conftest import CAPTURES, PUBLIC_CAPTURES

from spark_jobs.base.errors import UserError
from spark_jobs.capture import reader
from tests.helpers.bad_input import (
    BLOCKS,
    FORMATS,
    FRAMES,
    PCAP,
    PCAPNG,
    RECORDS,
    changed,
    sound,
    unnumbered,
)
from tests.helpers.capture_files import EVERYONE, NOON, block, interface, pcapng, read, rows_of

MEBIBYTE = 1 << 20
DAY_S = 86_400
NOON_S = NOON // 1_000_000
TOO_LONG = struct.pack("<I", 0x7FFFFFFF)


def header(seconds: int, captured: int, on_wire: int | None = None) -> bytes:
    return struct.pack("<IIII", seconds, 0, captured, on_wire or captured)


def record(seconds: int, length: int) -> bytes:
    return header(seconds, length) + b"\xff" * length


def own_day(i: int) -> int:
    """Seconds of which no two are less than two days apart."""
    return DAY_S * (10 + 2 * i % 49_000)


def at_other_times(i: int) -> bytes:
    """Sound records a long time from those before, behind a damaged header."""
    return b"".join(record(own_day(i), 1 + (i + j) % 9) for j in range(4)) + b"\xff" * 4


def at_the_same_time(i: int) -> bytes:
    return record(NOON_S, 1 + i % 9) * 2 + b"\xff"


def every_other_header_bad(i: int) -> bytes:
    return record(own_day(i), 40) + header(own_day(i), 0x7FFFFFFF) + b"\xff" * 40


def chain_that_fails_at_its_end(i: int) -> bytes:
    """Three sound records, far apart, and one with a wrong length."""
    hops = [header(NOON_S, 16 * (1 + (i + j) % 100)) for j in range(3)]
    return b"".join(hops) + header(NOON_S, 0x7FFFFFFF)


def lengths_everywhere(i: int) -> bytes:
    """Three of four places hold a plausible length."""
    return (b"\0\3\0\0", b"\0\1\0\0", b"\0\0\1\0", b"\1\0\0\0")[i * i % 7 % 4]


def claims_beyond_the_end(i: int) -> bytes:
    return record(NOON_S, 2) + header(NOON_S, 262_000)


def block_too_long(i: int) -> bytes:
    """A sound block, and one that claims the most that is believed."""
    return BLOCKS[i % 8] + struct.pack("<II", 6, 16 * MEBIBYTE)


def block_without_interface(i: int) -> bytes:
    return block(3, b"") + b"\xff" * 4


def interface_of_wrong_length(i: int) -> bytes:
    return block(1, struct.pack("<HHI", 101, 0, 0)) + struct.pack("<II", 1, 4000)


SHAPES = {
    "records of other times": (PCAP, at_other_times),
    "records of the same time": (PCAP + RECORDS[0], at_the_same_time),
    "every other header bad": (PCAP, every_other_header_bad),
    "chains that fail": (PCAP + RECORDS[0], chain_that_fails_at_its_end),
    "plausible lengths everywhere": (PCAP + RECORDS[0], lengths_everywhere),
    "beyond the end": (PCAP, claims_beyond_the_end),
    "blocks too long": (PCAPNG, block_too_long),
    "blocks without interface": (PCAPNG, block_without_interface),
    "interfaces that lie": (PCAPNG, interface_of_wrong_length),
}
"""What stands before many of a shape."""


def many(before: bytes, shape: Callable[[int], bytes], size: int) -> bytes:
    file = bytearray(before)
    for i in count():
        file += shape(i)
        if len(file) >= size:
            break
    return bytes(file)


def cpu_s(file: bytes) -> float:
    """Time of reading a file: the lesser of two."""
    times = []
    for _ in range(2):
        start = time.process_time()
        read(file, subscribers=[])
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.parametrize("name", SHAPES)
def test_the_time_grows_with_the_bytes(name):
    cpu_s(many(*SHAPES[name], 10_000))
    once, twice = (cpu_s(many(*SHAPES[name], n * MEBIBYTE // 2)) for n in (1, 2))
    assert twice < 3 * once + 0.1
    assert twice < 2


def test_the_time_grows_with_the_bytes_when_much_follows_them():
    """Blocks whose length is 16 MiB, with as many bytes after them, are read in place."""
    behind = block(0xBAD, bytes(15 * MEBIBYTE)) * 3
    once, twice = (cpu_s(many(PCAPNG, block_too_long, n * 100_000) + behind) for n in (1, 2))
    assert twice < 3 * once + 0.1
    assert twice < 2


def zstd_of_zeros(head: bytes, gibibytes: int) -> bytes:
    """A frame with these bytes, then blocks of 128 KiB of zeros, each 4 bytes long (RFC 8878)."""
    frame_header = zstandard.MAGIC_NUMBER.to_bytes(4, "little") + b"\x00\x38"
    raw = (len(head) << 3).to_bytes(3, "little") + head
    zeros = (0x20000 << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    return frame_header + raw + zeros * (gibibytes * 8192) + (1).to_bytes(3, "little")


def gzip_of_zeros(head: bytes, gibibytes: int) -> bytes:
    first = zlib.compressobj(9, wbits=31)
    start = first.compress(head) + first.flush()
    return start + gzip.compress(bytes(64 * MEBIBYTE)) * (16 * gibibytes)


@pytest.mark.integration
@FORMATS
@pytest.mark.parametrize("bomb", [zstd_of_zeros, gzip_of_zeros])
def test_gigabytes_of_nothing_are_given_up_and_what_came_before_is_kept(
    tmp_path, header, records, bomb
):
    path = tmp_path / "capture"
    path.write_bytes(bomb(header + b"".join(records), 5))
    found = rows_of(path)
    assert found.rows == sound()
    assert found.skipped["given_up"] == 1
    assert found.skipped["corrupt_bytes"] < 500 * MEBIBYTE
    (note,) = found.notes
    assert re.fullmatch(rf"{re.escape(str(path))}: byte \d+: reading stopped.*", note)


def test_a_bomb_without_a_packet_is_refused_in_a_line(tmp_path):
    path = tmp_path / "bomb.pcap"
    path.write_bytes(zstd_of_zeros(PCAP, 5))
    with pytest.raises(
        UserError, match=rf"^{re.escape(str(path))}: byte \d+: reading stopped[^\n]*$"
    ):
        rows_of(path)


def test_endless_blocks_without_packets_are_given_up():
    nothing = block(0xBAD, bytes(MEBIBYTE - 12))
    found = read(zstandard.compress(PCAPNG + b"".join(BLOCKS) + nothing * 400))
    assert (found.rows, found.skipped) == (sound(), {"given_up": 1})


def test_a_sparse_files_hole_is_given_up(tmp_path):
    path = tmp_path / "hole.pcap"
    path.write_bytes(PCAP + b"".join(RECORDS))
    os.truncate(path, 1 << 40)
    assert rows_of(path).skipped["given_up"] == 1


@FORMATS
@pytest.mark.parametrize("pack", [bytes, zstandard.compress])
def test_a_long_stretch_of_damage_is_no_reason_to_give_up(monkeypatch, header, records, pack):
    """As long as the file, plain; or thirty times as long as what it takes on disk."""
    monkeypatch.setattr(reader, "MAX_UNPARSED_BYTES", 1000)
    good = b"".join(records)
    noise = os.urandom(100_000)
    found = read(pack(header + good + noise + bytes(3_000_000) + good))
    assert unnumbered(found.rows) == unnumbered(sound() * 2)
    assert found.skipped == {"corrupt_record": 1, "corrupt_bytes": 3_100_000}


@FORMATS
@pytest.mark.parametrize("few", [1, 2, 3, 7])
def test_the_first_header_destroyed_costs_one_packet(header, records, few):
    for damage in (TOO_LONG, TOO_LONG * 2, b"\xff" * 8, bytes(8)):
        at = len(header) + (8 if header == PCAP else 4)
        file = changed(header + b"".join(records[: 1 + few]), at, damage)
        found = read(file)
        assert unnumbered(found.rows) == unnumbered(sound()[1 : 1 + few])


@pytest.mark.parametrize("damage", [b"\xff" * 16, bytes(16), b"\xff" * 4 + bytes(12)])
@pytest.mark.parametrize("few", [1, 2, 3, 7])
def test_a_first_header_without_a_time_costs_one_packet(damage, few):
    found = read(PCAP + damage + b"".join(RECORDS[: 1 + few])[16:])
    assert unnumbered(found.rows) == unnumbered(sound()[1 : 1 + few])


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("which", ["section, first", "section, last", "interface", "its last"])
def test_a_length_destroyed_before_the_first_packet_costs_none(order, which):
    whole = pcapng(FRAMES, order=order)
    behind = 28 + len(interface(101, order))
    at = {"section, first": 4, "section, last": 24, "interface": 32, "its last": behind - 4}[which]
    found = read(changed(whole, at, struct.pack(f"{order}I", 0x7FFFFFFF)))
    assert found.rows == sound()
    assert found.skipped["corrupt_record"] == 1


def _unpacked(path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(data)
    if path.suffix == ".zst":
        return zstandard.ZstdDecompressor().stream_reader(data).read(500_000)
    return data


REAL = sorted(
    path
    for folder in (CAPTURES, PUBLIC_CAPTURES)
    for pattern in ("*.pcap.zst", "*.pcapng", "*.dmp.gz")
    for path in folder.rglob(pattern)
    if path.stat().st_size < MEBIBYTE or folder == CAPTURES
)


@pytest.mark.parametrize("path", REAL, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_real_captures_lose_no_more_than_their_first_packet(path):
    """A row for either end. Either format has a length at that place; in pcapng it is the
    interface's, which costs no packet."""
    file = _unpacked(path)
    try:
        whole = read(file, subscribers=EVERYONE)
    except UserError:
        pytest.skip("no pcap and no pcapng")
    found = read(changed(file, 32, TOO_LONG), subscribers=EVERYONE)
    assert len(found.rows) >= len(whole.rows) - 2
