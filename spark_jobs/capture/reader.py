"""The built-in front end: a capture file to runs of packet rows, in bounded memory."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from spark_jobs.capture import decode, framing
from spark_jobs.capture.addresses import AddressTable
from spark_jobs.capture.framing import CORRUPT, NEED_MORE
from spark_jobs.capture.stream import CaptureStream
from spark_jobs.capture.untrusted import parser
from spark_jobs.errors import UserError

RUN_PACKETS = 1 << 20
FRAMES_AT_ONCE = 1 << 13
MOST_NOTES = 10
MOST_IN_VAIN = 1 << 28
MOST_IN_VAIN_A_BYTE = 64
"""Bytes without a packet for which a file is read on: 256 MiB, and 64 times what it takes on disk.
So a stretch of damage is searched for what follows though it be most of the file, and a hole that
was compressed; what a few bytes unpack to without end is not, nor a file that is but a hole."""


@dataclass
class Run:
    """Consecutive packets of a file: ROW[n], their SACK edges, and the addresses that `user` and
    `server` number."""

    rows: np.ndarray
    edges: np.ndarray
    addresses: AddressTable

    def only(self, which: np.ndarray) -> "Run":
        """These of its packets."""
        return Run(self.rows[which], self.edges, self.addresses)


@dataclass
class Reading:
    """What is known of a file so far: records read, what was skipped and why, hash of the
    content, where something was amiss, and a sample of its packets."""

    frames: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    content: str = ""
    notes: list[str] = field(default_factory=list)
    counted_us: tuple[int, int] | None = None
    """When the first and the last of what was only counted happened."""
    sampled: list[np.ndarray] = field(default_factory=list)
    """Of packets, the keys that are in the sample (see sketch.py)."""

    def note(self, path: Path, line: int, what: str) -> None:
        """Something amiss in a text file's line; of many, the first are kept."""
        if len(self.notes) < MOST_NOTES:
            self.notes.append(f"{path}:{line}: {what}")


class _Pcap:
    """Walks a classic pcap file."""

    other_bytes = 0
    """There is nothing but records."""

    def __init__(self, stream: CaptureStream, big: bool, magic: int):
        header = stream.window[stream.start : stream.start + framing.PCAP_HEADER_BYTES]
        order = ">" if big else "<"
        self._minor = int(header[6:8].view(f"{order}u2")[0])
        snap, network = (int(v) for v in header[16:24].view(f"{order}u4"))
        self._snap = min(snap or framing.LARGEST_RECORD, framing.LARGEST_RECORD)
        self._link_type = network & 0xFFFF
        self._big, self._nano = big, magic == framing.PCAP_NANO
        self._header = 24 if magic == framing.PCAP_MODIFIED else 16
        stream.start += framing.PCAP_HEADER_BYTES
        first = stream.window[stream.start : min(stream.end, stream.start + 4)]
        seconds = int.from_bytes(first.tobytes(), "big" if big else "little")
        self._near_s = seconds if seconds > framing.DAY_S else -1
        self._ahead = np.array([framing.AHEAD_BYTES])

    def walk(self, stream: CaptureStream, frames: np.ndarray) -> tuple[int, int, int]:
        n, at, stopped = framing.walk_pcap(
            stream.window,
            stream.start,
            stream.end,
            self._big,
            self._nano,
            self._header,
            self._minor,
            self._snap,
            self._link_type,
            frames,
            self._near_s,
            stream.ended,
        )
        if n:
            self._near_s = int(frames["ts"][n - 1]) // 1_000_000
            self._snap = max(self._snap, int(frames["captured"][:n].max()))
        return n, at, stopped

    def salvage(self, stream: CaptureStream) -> None:
        """Nothing: no record tells of another."""

    def resync(self, stream: CaptureStream, start: int) -> int:
        return framing.resync_pcap(
            stream.window,
            start,
            stream.end,
            self._big,
            self._header,
            self._minor,
            self._snap,
            self._near_s,
            self._ahead,
            stream.ended,
        )


class _PcapNg:
    """Walks a pcapng file."""

    def __init__(self) -> None:
        self._state = np.zeros(2, np.int64)
        self._interfaces = np.zeros((framing.MOST_INTERFACES + 1, 4), np.int64)

    @property
    def other_bytes(self) -> int:
        """Those of blocks that are no packets."""
        return int(self._state[1])

    def walk(self, stream: CaptureStream, frames: np.ndarray) -> tuple[int, int, int]:
        return framing.walk_pcapng(
            stream.window, stream.start, stream.end, self._state, self._interfaces, frames
        )

    def salvage(self, stream: CaptureStream) -> None:
        """What a damaged block tells of those behind it."""
        framing.salvage_pcapng(
            stream.window, stream.start, stream.end, self._state, self._interfaces
        )

    def resync(self, stream: CaptureStream, start: int) -> int:
        return framing.resync_pcapng(
            stream.window, start, stream.end, self._state[0] == 1, stream.ended
        )


def _walker(stream: CaptureStream, path: Path) -> _Pcap | _PcapNg:
    """By the file's first bytes; a UserError where it is no capture."""
    stream.more()
    head = stream.window[stream.start : min(stream.end, stream.start + 4)].tobytes()
    if not head:
        raise UserError(f"{path}: {stream.broken or 'the file is empty'}")
    if head == framing.PCAPNG_MAGIC.to_bytes(4, "big"):
        return _PcapNg()
    for order in ("little", "big"):
        magic = int.from_bytes(head, order)
        if magic in (framing.PCAP_MICRO, framing.PCAP_NANO, framing.PCAP_MODIFIED):
            if stream.end - stream.start < framing.PCAP_HEADER_BYTES:
                raise UserError(f"{path}: the file ends within the pcap header")
            return _Pcap(stream, order == "big", magic)
    raise UserError(f"{path}: not a pcap or pcapng capture (it begins with {head.hex(' ')})")


def _frames(stream: CaptureStream, path: Path, reading: Reading) -> Iterator[np.ndarray]:
    """FRAME[n] arrays whose places hold until the next one is asked for."""
    walker = _walker(stream, path)
    frames = np.zeros(FRAMES_AT_ONCE, framing.FRAME)
    while not _is_in_vain(stream, walker, reading):
        ended = stream.ended
        n, at, stopped = walker.walk(stream, frames)
        stream.start = at
        if n:
            yield frames[:n]
        if stopped == NEED_MORE:
            if stream.more() or (stream.ended and not ended):
                continue
            if stream.start == stream.end:
                break
            if walker.resync(stream, stream.start + 1) < 0:
                reading.skipped["truncated_file"] += 1
                break
            stopped = CORRUPT
        if stopped == CORRUPT:
            reading.skipped["corrupt_record"] += 1
            walker.salvage(stream)
            _resync(stream, walker, reading)
    else:
        reading.skipped["given_up"] += 1
        why = f"{path}: byte {stream.place}: given up: too much before it is no packet"
        if not reading.frames:
            raise UserError(why)
        reading.notes.append(why)
    if stream.broken:
        reading.skipped["corrupt_compression"] += 1


def _resync(stream: CaptureStream, walker: _Pcap | _PcapNg, reading: Reading) -> None:
    """Move to the next sound record, to the end of the file, or as far as it is searched."""
    began = stream.place
    stream.start += 1
    while (found := walker.resync(stream, stream.start)) < 0 and not stream.ended:
        stream.start += max(0, stream.end - stream.start - framing.RESYNC_BYTES)
        if _is_in_vain(stream, walker, reading, stream.place - began):
            break
        stream.more()
    else:
        stream.start = stream.end if found < 0 else found
    reading.skipped["corrupt_bytes"] += stream.place - began


def _is_in_vain(
    stream: CaptureStream, walker: _Pcap | _PcapNg, reading: Reading, passed: int = 0
) -> bool:
    """Whether more of the file holds no packet than is worth the time, and it goes on.

    passed: bytes that are not yet counted as corrupt.
    """
    without = reading.skipped["corrupt_bytes"] + passed + walker.other_bytes
    if without <= max(MOST_IN_VAIN, MOST_IN_VAIN_A_BYTE * stream.on_disk):
        return False
    return stream.start < stream.end or not stream.ended


@parser
def read_capture(
    path: Path, prefixes: np.ndarray, reading: Reading, run_packets: int = RUN_PACKETS
) -> Iterator[Run]:
    """The packets of a capture file's subscribers, in runs of about `run_packets`; a run holds
    until the next is asked for.

    prefixes: see addresses.subscriber_prefixes. `reading` is kept up to date as runs come.
    Raises UserError where the file is no capture.
    """
    counted = np.zeros(len(decode.COUNTED), np.int64)
    with CaptureStream(path) as stream:
        run = _Filling(prefixes, run_packets)
        for frames in _frames(stream, path, reading):
            run.make_room(len(frames))
            run.n, run.used = decode.decode(
                stream.window,
                frames,
                reading.frames + 1,
                run.rows,
                run.n,
                run.edges,
                run.used,
                run.addresses.entries,
                run.addresses.slots,
                prefixes,
                counted,
            )
            reading.frames += len(frames)
            if run.n >= run_packets:
                yield run.finished()
                run.restart()
        reading.content = stream.content
        for reason, count in zip(decode.COUNTED, counted.tolist(), strict=True):
            if count:
                reading.skipped[reason] += count
        if run.n:
            yield run.finished()


class _Filling:
    """A run that is being filled; its room is used again for the next."""

    def __init__(self, prefixes: np.ndarray, run_packets: int):
        self._prefixes = prefixes
        self.rows = np.empty(run_packets + 2 * FRAMES_AT_ONCE, decode.ROW)
        self.edges = np.empty(decode.MOST_EDGES * 2 * FRAMES_AT_ONCE, np.uint32)
        self.restart()

    def restart(self) -> None:
        self.addresses = AddressTable(self._prefixes, 2 * FRAMES_AT_ONCE)
        self.n = self.used = 0

    def make_room(self, frames: int) -> None:
        self.addresses.make_room(2 * frames)
        needed = self.used + decode.MOST_EDGES * frames
        if needed > len(self.edges):
            self.edges = np.concatenate([self.edges[: self.used], np.empty(needed, np.uint32)])

    def finished(self) -> Run:
        return Run(self.rows[: self.n], self.edges[: self.used], self.addresses)
