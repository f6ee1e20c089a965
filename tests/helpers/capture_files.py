"""Capture files made byte by byte, and the rows that the reader gives for them."""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from schemas import PACKETS
from spark_jobs.capture.addresses import subscriber_prefixes
from spark_jobs.capture.columns import packet_tables
from spark_jobs.capture.fragments import join_fragments
from spark_jobs.capture.quic_flows import mark_quic
from spark_jobs.capture.reader import BATCH_PACKETS, PacketBatch, ReadStats, read_capture
from spark_jobs.warehouse.files import with_columns
from tests.helpers.user_names import keys_of

SUBSCRIBERS = ("10.64.0.0/14", "2001:db8:64::/48", "2001:db8:a0::/44")
EVERYONE = ("0.0.0.0/0", "::/0")

NOON = 1_700_000_000_000_000
"""µs since 1970: 2023-11-14 22:13:20 UTC."""

NOTES = {
    "short_tcp",
    "malformed_tcp",
    "malformed_options",
    "options_cut",
    "fragments_unjoined",
    "clock_backwards",
    "clock_backwards_us",
    "clock_forwards",
    "clock_forwards_us",
    "out_of_order",
    "corrupt_record",
    "corrupt_bytes",
    "truncated_file",
    "given_up",
    "corrupt_compression",
}
"""Reasons that cost no frame its row; every other one counts frames without one."""


@dataclass
class Read:
    """What the reader gives for a file: a row a packet, fragments joined, in order of frame, uplink
    first."""

    rows: list[dict]
    frames: int
    skipped: dict[str, int]
    content: str
    notes: list[str] = field(default_factory=list)

    @property
    def numbers(self) -> list[int]:
        return [row["frame"] for row in self.rows]

    @property
    def unread(self) -> int:
        """Frames that gave no row."""
        return sum(count for reason, count in self.skipped.items() if reason not in NOTES)


def table_of(
    path: Path,
    subscribers: Iterable[str] = SUBSCRIBERS,
    batch_packets: int = BATCH_PACKETS,
    reader: Callable[..., Iterator[PacketBatch]] = read_capture,
) -> tuple[pa.Table | None, ReadStats]:
    """The packets table of a capture file, fragments joined, in order of frame, uplink first."""
    prefixes = subscriber_prefixes([ip_network(text) for text in subscribers])
    reading, keys = ReadStats(), keys_of(*subscribers)
    runs = reader(path, prefixes, reading, batch_packets)
    tables = [
        with_columns(table, PACKETS, PACKETS.arrow.names).cast(PACKETS.arrow)
        for run in join_fragments(mark_quic(runs, reading), reading)
        for _, table in packet_tables(run, path.name, 3, keys.names_of_all(run.addresses))
    ]
    if not tables:
        return None, reading
    by_frame = [("frame", "ascending"), ("downlink", "ascending")]
    return pa.concat_tables(tables).sort_by(by_frame).combine_chunks(), reading


def rows_of(
    path: Path, subscribers: Iterable[str] = SUBSCRIBERS, batch_packets: int = BATCH_PACKETS
) -> Read:
    table, reading = table_of(path, subscribers, batch_packets)
    rows = table.to_pylist() if table else []
    return Read(rows, reading.frames, dict(reading.skipped), reading.content_hash, reading.notes)


def read(data: bytes, **options) -> Read:
    """Read a file with these bytes; options: of rows_of."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "capture"
        path.write_bytes(data)
        return rows_of(path, **options)


@dataclass(frozen=True)
class Frame:
    """A captured packet: its bytes, time (µs since 1970), and size on the wire where the capture
    cut it."""

    data: bytes
    ts: int = NOON
    on_wire: int | None = None

    @property
    def wire(self) -> int:
        return len(self.data) if self.on_wire is None else self.on_wire

    def cut(self, snap: int) -> "Frame":
        return replace(self, data=self.data[:snap], on_wire=self.wire)


def timed(packets: Sequence[bytes], step: int = 1000) -> list[Frame]:
    """Packets a millisecond apart."""
    return [Frame(bytes(data), NOON + i * step) for i, data in enumerate(packets)]


def pcap_header(
    link_type: int, order: str = "<", magic: int = 0xA1B2C3D4, version=(2, 4), snap: int = 65535
) -> bytes:
    return struct.pack(order + "IHHiIII", magic, *version, 0, 0, snap, link_type)


def pcap_record(
    frame: Frame, order: str = "<", fraction: int | None = None, behind: bytes = b""
) -> bytes:
    seconds, us = divmod(frame.ts, 1_000_000)
    fraction = us if fraction is None else fraction
    lengths = (len(frame.data), frame.wire)
    return struct.pack(order + "IIII", seconds, fraction, *lengths) + behind + frame.data


def pcap(frames: Iterable[Frame], link_type: int = 101, order: str = "<", **header) -> bytes:
    return pcap_header(link_type, order, **header) + b"".join(
        pcap_record(frame, order) for frame in frames
    )


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """A pcapng block."""
    body += b"\0" * (-len(body) % 4)
    length = len(body) + 12
    return struct.pack(order + "II", kind, length) + body + struct.pack(order + "I", length)


def option(code: int, value: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + b"\0" * (-len(value) % 4)


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(
    link_type: int = 101,
    order: str = "<",
    resolution: int | None = None,
    offset_s: int | None = None,
    snap: int = 0,
) -> bytes:
    options = b""
    if resolution is not None:
        options += option(9, bytes([resolution]), order)
    if offset_s is not None:
        options += option(14, struct.pack(order + "q", offset_s), order)
    if options:
        options = option(2, b"eth0", order) + options + option(0, b"", order)
    return block(1, struct.pack(order + "HHI", link_type, 0, snap) + options, order)


def enhanced(
    frame: Frame, order: str = "<", on: int = 0, ticks: int | None = None, options: bytes = b""
) -> bytes:
    ticks = frame.ts if ticks is None else ticks
    fixed = struct.pack(
        order + "IIIII", on, ticks >> 32, ticks & 0xFFFFFFFF, len(frame.data), frame.wire
    )
    padding = b"\0" * (-len(frame.data) % 4)
    return block(6, fixed + frame.data + padding + options, order)


def obsolete(frame: Frame, order: str = "<", on: int = 0) -> bytes:
    fixed = struct.pack(
        order + "HHIIII",
        on,
        0xFFFF,
        frame.ts >> 32,
        frame.ts & 0xFFFFFFFF,
        len(frame.data),
        frame.wire,
    )
    return block(2, fixed + frame.data, order)


def simple(frame: Frame, order: str = "<") -> bytes:
    return block(3, struct.pack(order + "I", frame.wire) + frame.data, order)


def pcapng(frames: Iterable[Frame], link_type: int = 101, order: str = "<") -> bytes:
    packets = b"".join(enhanced(frame, order) for frame in frames)
    return section(order) + interface(link_type, order) + packets
