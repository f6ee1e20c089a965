"""A small language for exchanges as the monitor sees them: a line a packet, like a sequence chart.

    0.000 up    SYN      seq=100 mss=1460 ws=7 sackok
    0.120 down  SYN ACK  seq=300 ack=101
    0.700 up    ACK      seq=101 ack=301      # and what follows # is for the reader

A line has the time (s), the way, the flags, then what differs from the values in Packet; a packet
of another protocol has UDP for its flags. Lines count in order of time; those of one time, as they
stand.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from itertools import pairwise

import numpy as np

from spark_jobs.compiled.arrays import group_offsets
from spark_jobs.estimators.quic.packets import NO_SPIN, ONE_RTT, QuicPackets, no_quic
from spark_jobs.estimators.records import NO_SCALE, Packets
from spark_jobs.estimators.sequence import downlink_bytes_before
from spark_jobs.tables.registry import ROWS
from spark_jobs.tables.user_partition import FOREVER, Settings, UserPartition
from spark_jobs.users.packets import Names

FLAGS = {
    "FIN": 1,
    "SYN": 2,
    "RST": 4,
    "PSH": 8,
    "ACK": 16,
    "URG": 32,
    "ECE": 64,
    "CWR": 128,
    "AE": 256,
}
OPTION_BYTES = {"mss": 4, "ws": 3, "sackok": 2, "tsval": 10}

NOON = 1_699_963_200_000_000
"""When scripts begin, µs since 1970: 2023-11-14 12:00:00 UTC."""


@dataclass(frozen=True)
class Packet:
    """A packet of a script: `us` after the script's beginning, `data` bytes of TCP payload."""

    us: int
    way: str
    flags: frozenset[str] = frozenset()
    seq: int = 0
    ack: int = 0
    win: int = 8192
    data: int = 0
    mss: int | None = None
    ws: int | None = None
    sackok: bool = False
    tsval: int | None = None
    tsecr: int | None = None
    sack: str = ""
    cut: bool = False
    id: int = 0
    ttl: int = 60
    ecn: int = 0
    steps: int = 0
    user: str = "anna"
    port: int = 1024
    server: str = "www"
    server_port: int = 80

    @property
    def is_tcp(self) -> bool:
        return "UDP" not in self.flags

    @property
    def ip_len(self) -> int:
        """20 bytes of IP header (40 of IPv6), 20 of TCP header, the options in whole words, the
        payload."""
        options = sum(
            size for name, size in OPTION_BYTES.items() if getattr(self, name) not in (None, False)
        )
        return (60 if ":" in self.server else 40) + (options + 3) // 4 * 4 + self.data

    @property
    def edges(self) -> list[int]:
        """The SACK blocks' edges; a script writes sack=1500-2000,2500-3000."""
        blocks = self.sack.split(",") if self.sack else []
        return [int(edge) % 2**32 for block in blocks for edge in block.split("-")]

    def later(self, us: int) -> "Packet":
        return replace(self, us=self.us + us)

    def numbered(self, up: int = 0, down: int = 0) -> "Packet":
        """With sequence numbers that begin so much higher on the way up and on the way down."""
        own, other = (up, down) if self.way == "up" else (down, up)
        moved = ",".join(
            f"{int(low) + other}-{int(high) + other}"
            for low, high in (block.split("-") for block in self.sack.split(",") if block)
        )
        return replace(
            self, seq=(self.seq + own) % 2**32, ack=(self.ack + other) % 2**32, sack=moved
        )


QUIC_PORT = 443


def read(script: str) -> list[Packet]:
    lines = (line.partition("#")[0].split() for line in script.splitlines())
    return [_packet(words) for words in lines if words]


def _packet(words: list[str]) -> Packet:
    time, way, *rest = words
    assert way in ("up", "down"), way
    flags = frozenset(word for word in rest if word in {*FLAGS, "UDP"})
    values = {}
    for word in rest:
        name, _, value = word.partition("=")
        if word in flags:
            continue
        assert name in {field.name for field in fields(Packet)}, word
        values[name] = int(value) if value.isdecimal() else value or True
    return Packet(int(Decimal(time) * 1_000_000), way, flags, **values)


def packets(exchange: str | Iterable[Packet]) -> tuple[Packets, Names]:
    """The exchange's record in user order; `frame` is a packet's place in the exchange, from 0."""
    lines = read(exchange) if isinstance(exchange, str) else list(exchange)
    users, servers = sorted({p.user for p in lines}), sorted({p.server for p in lines})
    order = sorted(range(len(lines)), key=lambda i: (lines[i].user, lines[i].us))
    rows = [lines[i] for i in order]

    def column(values: Iterable, dtype: type) -> np.ndarray:
        return np.array([0 if value is None else value for value in values], dtype)

    downlink = column((p.way == "down" for p in rows), bool)
    ip_len = column((p.ip_len for p in rows), np.uint32)
    user = column((users.index(p.user) for p in rows), np.int32)
    sack_count = column((len(p.edges) for p in rows), np.uint8)
    record = Packets(
        first=group_offsets(user, len(users)),
        user=user,
        server=column((servers.index(p.server) for p in rows), np.int32),
        capture=column((0 for _ in rows), np.int32),
        frame=column(order, np.int64),
        ts=column((NOON + p.us for p in rows), np.int64),
        user_port=column((p.port for p in rows), np.uint16),
        server_port=column((p.server_port for p in rows), np.uint16),
        downlink=downlink,
        ip_len=ip_len,
        ip_id=column((p.id for p in rows), np.uint16),
        ttl=column((p.ttl for p in rows), np.uint8),
        ecn=column((p.ecn for p in rows), np.uint8),
        is_tcp=column((p.is_tcp for p in rows), bool),
        tcp_flags=column((sum(FLAGS.get(f, 0) for f in p.flags) for p in rows), np.uint16),
        seq=column((p.seq for p in rows), np.uint32),
        ack=column((p.ack for p in rows), np.uint32),
        window=column((p.win for p in rows), np.uint16),
        payload_len=column((p.data for p in rows), np.uint32),
        mss=column((p.mss for p in rows), np.uint16),
        window_scale=column((NO_SCALE if p.ws is None else p.ws for p in rows), np.int16),
        sack_permitted=column((p.sackok for p in rows), bool),
        has_timestamps=column((p.tsval is not None for p in rows), bool),
        ts_val=column((p.tsval for p in rows), np.uint32),
        ts_ecr=column((p.tsecr for p in rows), np.uint32),
        sack_at=np.cumsum(sack_count, dtype=np.int64) - sack_count,
        sack_count=sack_count,
        sack_edges=column((edge for p in rows for edge in p.edges), np.uint32),
        options_cut=column((p.cut for p in rows), bool),
        clock_steps=column((p.steps for p in rows), np.uint8),
        downlink_bytes_before=downlink_bytes_before(downlink, ip_len),
        out_of_window=np.zeros(len(rows), bool),
    )
    return record, Names(users, users, servers, users, None, ["net"])


def partition(
    exchange: str | Iterable[Packet],
    flight_size_bytes: int = 4500,
    span: tuple[int, int] = FOREVER,
) -> UserPartition:
    """The exchange's connections; span: as in UserPartition."""
    record, names = packets(exchange)
    settings = Settings("net", flight_size_bytes)
    return UserPartition(record, names, settings, span, quic=quic_packets(record))


def quic_packets(record: Packets) -> QuicPackets:
    """Return the UDP packets of server port 443: QUIC's, seen from their middle."""
    is_quic = ~record.is_tcp & (record.server_port == QUIC_PORT)
    places = np.flatnonzero(is_quic)
    none = no_quic(len(record.first) - 1)
    rest = {
        name: np.zeros(len(places), column.dtype)
        for name, column in none._asdict().items()
        if name not in record._fields
    }
    shared = [name for name in none._fields if name in record._fields and name != "first"]
    own = {name: getattr(record, name)[places] for name in shared}
    rest["form"][:] = ONE_RTT
    rest["spin"][:] = NO_SPIN
    first = np.searchsorted(places, record.first)
    return QuicPackets(**(own | rest | {"first": first}))


def connections(exchange: str | Iterable[Packet]) -> list[list[int]]:
    """Each connection's packets by their place in the exchange, from 0; connections by user, then
    by their first packet."""
    made = partition(exchange)
    frames = made.packets.frame[made.segments.place].tolist()
    return [frames[low:high] for low, high in pairwise(made.connections.first)]


def flows(exchange: str | Iterable[Packet]) -> list[dict]:
    """Rows of the flows table; by user, then by their first packet."""
    return tables(exchange)["flows"]


def tables(
    exchange: str | Iterable[Packet], flight_size_bytes: int = 4500
) -> dict[str, list[dict]]:
    """Rows of each table of a user partition; by user, then by their first packet."""
    made = partition(exchange, flight_size_bytes)
    return {table.name: rows(made).to_pylist() for table, rows in ROWS.items()}


def flow(exchange: str | Iterable[Packet]) -> dict:
    """The row of an exchange that is one connection."""
    (row,) = flows(exchange)
    return row
