"""Eight packets, sound in every file format, for tests to break."""

from functools import cache

import pytest
import zstandard

from tests.helpers.capture_files import (
    enhanced,
    interface,
    pcap,
    pcap_header,
    pcap_record,
    read,
    section,
    timed,
)
from tests.helpers.layers import DATA, SYN, SYN6

PACKETS = [SYN, DATA[:90], SYN, DATA[:72], SYN6, SYN, DATA[:72], SYN]
FRAMES = timed(PACKETS)
RECORDS = [pcap_record(frame) for frame in FRAMES]
BLOCKS = [enhanced(frame) for frame in FRAMES]
PCAP, PCAPNG = pcap_header(101), section() + interface(101)
FORMATS = pytest.mark.parametrize(
    ("header", "records"), [(PCAP, RECORDS), (PCAPNG, BLOCKS)], ids=["pcap", "pcapng"]
)


@cache
def sound() -> list[dict]:
    """Rows of the eight packets."""
    return read(pcap(FRAMES)).rows


def unnumbered(rows: list[dict]) -> list[dict]:
    return [{k: v for k, v in row.items() if k != "frame"} for row in rows]


def changed(packet: bytes, at: int, value: bytes) -> bytes:
    return packet[:at] + value + packet[at + len(value) :]


def zstd_blocks(pieces: list[bytes]) -> list[bytes]:
    """A frame with a block for each piece: its compressed bytes, piece by piece, then its end."""
    compressor = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    flush = zstandard.COMPRESSOBJ_FLUSH_BLOCK
    blocks = [compressor.compress(piece) + compressor.flush(flush) for piece in pieces]
    return [*blocks, compressor.flush()]
