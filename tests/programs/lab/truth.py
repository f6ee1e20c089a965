"""Writes a recording's ground truth, by the recording's own clock."""

import csv
import io
import struct
from collections.abc import Sequence
from contextlib import ExitStack
from ipaddress import IPv4Address
from pathlib import Path
from typing import IO, Self

import zstandard

SNAP_LENGTH = 80
"""Bytes that keep the headers of TCP."""
LINKTYPE_RAW = 101
TCP, UDP = 6, 17
TABLES = {
    "frames_lost": ("frame", "fate"),
    "frames_marked": ("frame",),
    "losses_unseen": (
        *("where", "direction", "ts", "ip_len"),
        *("src", "sport", "dst", "dport", "seq"),
    ),
    "users": ("user", "group", "rate_bps"),
    "events": ("ts", "user", "event"),
}


class Compressed:
    """A text file, compressed when it is closed."""

    def __init__(self, path: Path) -> None:
        self.path = path.with_name(f"{path.name}.zst")
        self.part = path.open("w+b")

    def __enter__(self) -> IO[bytes]:
        return self.part

    def __exit__(self, *_: object) -> None:
        self.part.seek(0)
        with self.path.open("wb") as file:
            zstandard.ZstdCompressor(19).copy_stream(self.part, file)
        self.part.close()
        Path(self.part.name).unlink()


class Truth:
    """Gi's capture, and the fates of packets. offset: of the recording's clock to the host's;
    snap: bytes kept of each packet."""

    def __init__(
        self, captures: Path, folder: Path, offset: float, snap: int = SNAP_LENGTH
    ) -> None:
        self.captures, self.folder, self.offset, self.snap = captures, folder, offset, snap
        self.frames = 0
        self.stack = ExitStack()

    def __enter__(self) -> Self:
        self.pcap = self.stack.enter_context(Compressed(self.captures / "gi.pcap"))
        self.pcap.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, self.snap, LINKTYPE_RAW))
        self.tables = {}
        for name, columns in TABLES.items():
            file = self.stack.enter_context(Compressed(self.folder / f"{name}.csv"))
            text = io.TextIOWrapper(file, newline="", write_through=True)
            self.stack.callback(text.detach)
            self.tables[name] = csv.writer(text, lineterminator="\n")
            self.tables[name].writerow(columns)
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def frame(self, packet: bytes, now: float) -> int:
        """Writes a packet that passes Gi; returns its number, from 1 on."""
        seconds, fraction = divmod(now + self.offset, 1)
        kept = self.kept(packet)
        head = struct.pack("<IIII", int(seconds), int(fraction * 1e6), len(kept), len(packet))
        self.pcap.write(head + kept)
        self.frames += 1
        return self.frames

    def kept(self, packet: bytes) -> bytes:
        return packet[: self.snap]

    def frame_lost(self, number: int, fate: str) -> None:
        self.tables["frames_lost"].writerow((number, fate))

    def frame_marked(self, number: int) -> None:
        self.tables["frames_marked"].writerow((number,))

    def unseen(self, where: str, down: bool, packet: bytes, now: float) -> None:
        self.tables["losses_unseen"].writerow(
            (where, "down" if down else "up", f"{now + self.offset:.6f}", *_named(packet))
        )

    def user(self, address: str, group: str, rate: float | None) -> None:
        self.tables["users"].writerow((address, group, rate))

    def event(self, user: str, what: str, now: float) -> None:
        self.tables["events"].writerow((f"{now + self.offset:.6f}", user, what))


def _named(packet: bytes) -> Sequence[object]:
    """Returns ip_len, src, sport, dst, dport, seq of a packet over IPv4; "" for what it lacks."""
    header = 4 * (packet[0] & 15)
    (length,) = struct.unpack_from(">H", packet, 2)
    source, destination = IPv4Address(packet[12:16]), IPv4Address(packet[16:20])
    sport, dport, seq = struct.unpack_from(">HHI", packet, header)
    if packet[9] == UDP:
        seq = ""
    elif packet[9] != TCP:
        sport = dport = seq = ""
    return length, source, sport, destination, dport, seq
