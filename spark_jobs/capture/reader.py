"""The built-in front end: it reads a capture file as batches of packet rows, in bounded memory."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from spark_jobs.base.errors import UserError
from spark_jobs.capture import decode, framing, record
from spark_jobs.capture.addresses import AddressTable
from spark_jobs.capture.framing import CORRUPT, NEED_MORE
from spark_jobs.capture.stream import CaptureStream
from spark_jobs.capture.untrusted import parser

BATCH_PACKETS = 1 << 20
MAX_FRAMES_PER_WALK = 1 << 13
MAX_NOTES = 10
MAX_TIMELESS_SHARE = 0.5
"""Share of records with more than 1,000,000 µs above which the unit is ns."""
MAX_UNPARSED_BYTES = 1 << 28
"""Bytes without a packet up to which any file is read on: 256 MiB."""
MAX_UNPARSED_BYTES_PER_DISK_BYTE = 64
"""Bytes without a packet up to which a file is read on, per byte that it takes on disk.

The larger of the two limits holds. A damaged stretch is searched for later packets even if it is
most of the file, and so is a hole that was compressed. Reading stops in a file that is only a hole,
and in a few bytes that unpack to endless data.
"""


@dataclass
class PacketBatch:
    """Consecutive packets of a file.

    rows: ROW[n]
    edges: SACK edges of the rows
    addresses: the table whose numbers are in the columns `user` and `server`
    """

    rows: np.ndarray
    edges: np.ndarray
    addresses: AddressTable

    def select(self, mask: np.ndarray) -> "PacketBatch":
        """Return a batch of the packets that a mask or indices select."""
        return PacketBatch(self.rows[mask], self.edges, self.addresses)


@dataclass
class ReadStats:
    """Statistics of a file that is being read.

    frames: number of records read
    skipped: number of skipped packets or bytes, by reason
    content_hash: hash of the file's content
    notes: messages about problems in the file
    """

    frames: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    content_hash: str = ""
    notes: list[str] = field(default_factory=list)
    counted_span_us: tuple[int, int] | None = None
    """First and last time of events that are only counted (µs), or None."""

    def add_note(self, path: Path, line: int, text: str) -> None:
        """Add a note about a line of a text file, unless there are MAX_NOTES already."""
        if len(self.notes) < MAX_NOTES:
            self.notes.append(f"{path}:{line}: {text}")


class _Pcap:
    """Walker over the records of a classic pcap file."""

    note = ""
    """Line about the file for the user; empty if there is none."""
    non_packet_bytes = 0
    """Bytes of blocks that are no packets: a pcap file has only records."""

    def __init__(self, stream: CaptureStream, big_endian: bool, magic: int):
        header = stream.window[stream.start : stream.start + framing.PCAP_HEADER_BYTES]
        order = ">" if big_endian else "<"
        self._minor = int(header[6:8].view(f"{order}u2")[0])
        snap_length, network = (int(v) for v in header[16:24].view(f"{order}u4"))
        self._snap_length = min(snap_length or framing.MAX_RECORD_BYTES, framing.MAX_RECORD_BYTES)
        self._link_type = network & 0xFFFF
        self._big_endian, self._nanoseconds = big_endian, magic == framing.PCAP_NANO
        self._is_tested = self._nanoseconds
        self._record_header_bytes = 24 if magic == framing.PCAP_MODIFIED else 16
        stream.start += framing.PCAP_HEADER_BYTES
        first_bytes = stream.window[stream.start : min(stream.end, stream.start + 4)]
        seconds = int.from_bytes(first_bytes.tobytes(), "big" if big_endian else "little")
        self._last_s = seconds if seconds > framing.DAY_S else -1
        self._lookahead = np.array([framing.LOOKAHEAD_BYTES])

    def walk(self, stream: CaptureStream, frames: np.ndarray) -> tuple[int, int, int]:
        """Write the next records; see framing.walk_pcap.

        If most of the first ones have more than 1,000,000 µs, the unit is ns: some programs write
        ns below the magic number of µs.
        """
        count, end, stop_reason = self._walk(stream, frames)
        if count and not self._is_tested:
            self._is_tested = True
            if (frames["ts"][:count] == framing.NO_TIMESTAMP).mean() > MAX_TIMELESS_SHARE:
                self._nanoseconds = True
                self.note = "its times are ns, though its magic number says µs"
                count, end, stop_reason = self._walk(stream, frames)
        if count:
            if len(timed := np.flatnonzero(frames["ts"][:count] != framing.NO_TIMESTAMP)):
                self._last_s = int(frames["ts"][timed[-1]]) // 1_000_000
            self._snap_length = max(self._snap_length, int(frames["captured"][:count].max()))
        return count, end, stop_reason

    def _walk(self, stream: CaptureStream, frames: np.ndarray) -> tuple[int, int, int]:
        return framing.walk_pcap(
            stream.window,
            stream.start,
            stream.end,
            self._big_endian,
            self._nanoseconds,
            self._record_header_bytes,
            self._minor,
            self._snap_length,
            self._link_type,
            frames,
            self._last_s,
            stream.at_eof,
        )

    def salvage(self, stream: CaptureStream) -> None:
        """Do nothing: no record of a pcap file describes another record."""

    def resync(self, stream: CaptureStream, start: int) -> int:
        return framing.resync_pcap(
            stream.window,
            start,
            stream.end,
            self._big_endian,
            self._record_header_bytes,
            self._minor,
            self._snap_length,
            self._last_s,
            self._lookahead,
            stream.at_eof,
        )


class _PcapNg:
    """Walker over the blocks of a pcapng file."""

    note = ""

    def __init__(self) -> None:
        self._state = np.zeros(2, np.int64)
        self._interfaces = np.zeros((framing.MAX_INTERFACES + 1, 4), np.int64)

    @property
    def non_packet_bytes(self) -> int:
        """Return the bytes of blocks that are no packets."""
        return int(self._state[1])

    def walk(self, stream: CaptureStream, frames: np.ndarray) -> tuple[int, int, int]:
        return framing.walk_pcapng(
            stream.window, stream.start, stream.end, self._state, self._interfaces, frames
        )

    def salvage(self, stream: CaptureStream) -> None:
        """Take from a damaged block what later blocks need."""
        framing.salvage_pcapng(
            stream.window, stream.start, stream.end, self._state, self._interfaces
        )

    def resync(self, stream: CaptureStream, start: int) -> int:
        return framing.resync_pcapng(
            stream.window, start, stream.end, self._state[0] == 1, stream.at_eof
        )


def _walker(stream: CaptureStream, path: Path) -> _Pcap | _PcapNg:
    """Return the walker for a file, by its first bytes.

    Raises UserError if the file is no capture.
    """
    stream.read_more()
    magic_bytes = stream.window[stream.start : min(stream.end, stream.start + 4)].tobytes()
    if not magic_bytes:
        raise UserError(f"{path}: {stream.compression_error or 'the file is empty'}")
    if magic_bytes == framing.PCAPNG_MAGIC.to_bytes(4, "big"):
        return _PcapNg()
    for order in ("little", "big"):
        magic = int.from_bytes(magic_bytes, order)
        if magic in (framing.PCAP_MICRO, framing.PCAP_NANO, framing.PCAP_MODIFIED):
            if stream.end - stream.start < framing.PCAP_HEADER_BYTES:
                raise UserError(f"{path}: the file ends within the pcap header")
            return _Pcap(stream, order == "big", magic)
    # The first bytes of a text, such as a log without its header, may be of an address.
    begin = "text" if magic_bytes.isascii() and min(magic_bytes) >= 9 else magic_bytes.hex(" ")
    raise UserError(f"{path}: not a pcap or pcapng capture (it begins with {begin})")


def _frames(stream: CaptureStream, path: Path, stats: ReadStats) -> Iterator[np.ndarray]:
    """Yield FRAME[n] arrays; each is valid until the next one is requested."""
    walker = _walker(stream, path)
    frames = np.zeros(MAX_FRAMES_PER_WALK, framing.FRAME)
    while not _exceeds_unparsed_limit(stream, walker, stats):
        was_at_eof = stream.at_eof
        count, end, stop_reason = walker.walk(stream, frames)
        stream.start = end
        if walker.note:
            stats.notes.append(f"{path}: {walker.note}")
            walker.note = ""
        if count:
            yield frames[:count]
        if stop_reason == NEED_MORE:
            if stream.read_more() or (stream.at_eof and not was_at_eof):
                continue
            if stream.start == stream.end:
                break
            if walker.resync(stream, stream.start + 1) < 0:
                stats.skipped["truncated_file"] += 1
                break
            stop_reason = CORRUPT
        if stop_reason == CORRUPT:
            stats.skipped["corrupt_record"] += 1
            walker.salvage(stream)
            _resync(stream, walker, stats)
    else:
        stats.skipped["given_up"] += 1
        message = (
            f"{path}: byte {stream.position}: reading stopped: too many bytes before it hold "
            "no packet"
        )
        if not stats.frames:
            raise UserError(message)
        stats.notes.append(message)
    if stream.compression_error:
        stats.skipped["corrupt_compression"] += 1


def _resync(stream: CaptureStream, walker: _Pcap | _PcapNg, stats: ReadStats) -> None:
    """Move to the next plausible record, to the end of the file, or to the limit of the search."""
    start = stream.position
    stream.start += 1
    while (found := walker.resync(stream, stream.start)) < 0 and not stream.at_eof:
        stream.start += max(0, stream.end - stream.start - framing.RESYNC_BYTES)
        if _exceeds_unparsed_limit(stream, walker, stats, stream.position - start):
            break
        stream.read_more()
    else:
        stream.start = stream.end if found < 0 else found
    stats.skipped["corrupt_bytes"] += stream.position - start


def _exceeds_unparsed_limit(
    stream: CaptureStream, walker: _Pcap | _PcapNg, stats: ReadStats, skipped_bytes: int = 0
) -> bool:
    """Return whether too much of the file holds no packet, and the file continues.

    skipped_bytes: bytes that are not yet counted as corrupt.
    """
    unparsed_bytes = stats.skipped["corrupt_bytes"] + skipped_bytes + walker.non_packet_bytes
    if unparsed_bytes <= max(
        MAX_UNPARSED_BYTES, MAX_UNPARSED_BYTES_PER_DISK_BYTE * stream.disk_bytes
    ):
        return False
    return stream.start < stream.end or not stream.at_eof


@parser
def read_capture(
    path: Path, prefixes: np.ndarray, stats: ReadStats, batch_packets: int = BATCH_PACKETS
) -> Iterator[PacketBatch]:
    """Yield the packets of a capture file's subscribers in batches of about `batch_packets`.

    A batch is valid until the next one is requested. prefixes: see addresses.subscriber_prefixes.
    `stats` is updated as batches are read. Raises UserError if the file is no capture.
    """
    counters = np.zeros(len(decode.COUNTED_REASONS), np.int64)
    with CaptureStream(path) as stream:
        builder = _BatchBuilder(prefixes, batch_packets)
        for frames in _frames(stream, path, stats):
            builder.reserve(len(frames))
            builder.row_count, builder.edge_count = decode.decode(
                stream.window,
                frames,
                stats.frames + 1,
                builder.rows,
                builder.row_count,
                builder.edges,
                builder.edge_count,
                builder.addresses.entries,
                builder.addresses.slots,
                prefixes,
                counters,
            )
            stats.frames += len(frames)
            if builder.row_count >= batch_packets:
                yield builder.build()
                builder.reset()
        stats.content_hash = stream.content_hash
        for reason, count in zip(decode.COUNTED_REASONS, counters.tolist(), strict=True):
            if count:
                stats.skipped[reason] += count
        if builder.row_count:
            yield builder.build()


class _BatchBuilder:
    """A batch that is being filled; its arrays are reused for the next batch."""

    def __init__(self, prefixes: np.ndarray, batch_packets: int):
        self._prefixes = prefixes
        self.rows = np.empty(batch_packets + 2 * MAX_FRAMES_PER_WALK, record.ROW)
        self.edges = np.empty(decode.MAX_SACK_EDGES * 2 * MAX_FRAMES_PER_WALK, np.uint32)
        self.reset()

    def reset(self) -> None:
        self.addresses = AddressTable(self._prefixes, 2 * MAX_FRAMES_PER_WALK)
        self.row_count = self.edge_count = 0

    def reserve(self, frames: int) -> None:
        self.addresses.reserve(2 * frames)
        needed = self.edge_count + decode.MAX_SACK_EDGES * frames
        if needed > len(self.edges):
            self.edges = np.concatenate(
                [self.edges[: self.edge_count], np.empty(needed, np.uint32)]
            )

    def build(self) -> PacketBatch:
        return PacketBatch(
            self.rows[: self.row_count], self.edges[: self.edge_count], self.addresses
        )
