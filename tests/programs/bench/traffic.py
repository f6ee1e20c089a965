"""Days of networks made of the shipped captures: every user many times over, at other hours, with
other addresses, servers, ports and sequence numbers. Each connection keeps its shape.

A subscriber of a made-up day does what one user of the sources did (a session), or only the LIGHT
connections of it: so many of either that a connection has so many packets as asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

import numpy as np
from numba import njit

from spark_jobs.capture import framing
from tests.programs.bench.tile import RECORD_HEADER, records, shift_sequence

LIGHT = 30
"""Packets of a connection, at most, that a light subscriber has."""
POOL = ip_network("10.64.0.0/10")
FIRST_SUBSCRIBER = int(POOL.network_address)
CAPTURES, SUBSCRIBERS = 64, 65_536
"""Captures with subscribers of their own, and most in one: as many as there are addresses."""
FIRST_PORT, PORTS = 32_768, 32_768
"""Of the mobiles, in the shipped captures."""
NETWORKS_OF_SERVERS = 64
SPREAD = (5**0.5 - 1) / 2
"""Multiples of it, modulo 1, lie evenly."""
SESSION = np.dtype(
    [
        ("first", "i8"),
        ("count", "i8"),
        ("begin_us", "i8"),
        ("subscriber", "i8"),
        ("servers", "i8"),
        ("ports", "i8"),
        ("sequence", "i8"),
    ]
)
"""What a subscriber does: which packets of Source.order, when they begin, by how much numbers are
moved."""


@dataclass(frozen=True)
class Source:
    """Captures of raw IPv4 with TCP: their bytes; of each packet the place of its record, bytes of
    it, time since its capture's begin (µs), whether it is a mobile's; the packets of each user, in
    time order, and those of its LIGHT connections."""

    data: np.ndarray
    at: np.ndarray
    size: np.ndarray
    since_us: np.ndarray
    uplink: np.ndarray
    users: tuple[np.ndarray, ...]
    light: tuple[np.ndarray, ...]
    connections: int
    light_connections: int

    @property
    def span_us(self) -> int:
        """From the begin of a capture to its last packet, at most."""
        return int(self.since_us.max())


def read_source(paths: Sequence[Path]) -> Source:
    """Captures as a Source; no user of one is a user of another one."""
    parts = [records(path) for path in paths]
    base = np.cumsum([0, *(len(data) for data, _ in parts)])
    data = np.concatenate([data for data, _ in parts])
    frames = [frames for _, frames in parts]
    ip = np.concatenate([f["offset"] + start for f, start in zip(frames, base, strict=False)])
    since = np.concatenate([f["ts"] - f["ts"].min() for f in frames])
    size = np.concatenate([f["captured"].astype(np.int64) + RECORD_HEADER for f in frames])
    of_capture = np.repeat(np.arange(len(parts)), [len(f) for f in frames])
    sender, receiver = _number(data, ip + 12, 4), _number(data, ip + 16, 4)
    uplink = sender >> 24 == 10
    ports = _number(data, ip + 20, 2), _number(data, ip + 22, 2)
    ends = (
        of_capture,
        np.where(uplink, sender, receiver),
        np.where(uplink, receiver, sender),
        np.where(uplink, *ports),
        np.where(uplink, *ports[::-1]),
    )
    user, _ = _groups(ends[:2])
    connection, packets = _groups(ends)
    light = packets[connection] <= LIGHT
    everything = np.lexsort((since, user))
    some = everything[light[everything]]
    return Source(
        data,
        ip - RECORD_HEADER,
        size,
        since,
        uplink,
        _by_group(everything, user),
        _by_group(some, user),
        len(packets),
        int((packets <= LIGHT).sum()),
    )


def _number(data: np.ndarray, at: np.ndarray, size: int) -> np.ndarray:
    """Big-endian numbers of `size` bytes, as int64."""
    return sum(data[at + k].astype(np.int64) << 8 * (size - 1 - k) for k in range(size))


def _groups(keys: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(each row's group, how many rows each group has) by these columns."""
    _, group, count = np.unique(
        np.stack(keys, axis=1), axis=0, return_inverse=True, return_counts=True
    )
    return group.ravel(), count


def _by_group(order: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, ...]:
    """The rows of each group, of rows in the groups' order."""
    return tuple(np.split(order, np.flatnonzero(np.diff(group[order])) + 1))


def copies_for(source: Source, packets: int, a_connection: float) -> tuple[float, float]:
    """How many times all of the source, and the light connections of it, have so many packets, so
    many a connection (less than the source's own, more than those of the light ones)."""
    light = sum(map(len, source.light))
    parts = [[len(source.at), light], [source.connections, source.light_connections]]
    whole, few = np.linalg.solve(parts, [packets, packets / a_connection])
    return whole, few


def sessions(
    source: Source, copies: tuple[float, float], span: tuple[int, int], number: int
) -> tuple[np.ndarray, np.ndarray]:
    """(SESSION[n], the packets that they are of): each user so many times as a whole and as a light
    one; a fractional repetition has that part of the users.

    span: between which times (µs since 1970); number: of the capture, which sets what differs
    from others. The same subscribers appear in the capture CAPTURES later.
    """
    rng = np.random.default_rng(number)
    users = [
        packets
        for kind, times in zip((source.users, source.light), copies, strict=True)
        for packets, offset in zip(kind, (np.arange(len(kind)) + number) * SPREAD % 1, strict=True)
        for _ in range(int(times + offset))
    ]
    order, count = np.concatenate(users), np.array([len(packets) for packets in users])
    n = len(users)
    made = np.zeros(n, SESSION)
    made["count"], made["first"] = count, np.cumsum(count) - count
    begin, end = span[0], span[1] - source.span_us
    made["begin_us"] = begin + (rng.permutation(n) + rng.random(n)) / n * (end - begin)
    made["subscriber"] = FIRST_SUBSCRIBER + number % CAPTURES * SUBSCRIBERS + np.arange(n)
    made["servers"] = rng.integers(0, NETWORKS_OF_SERVERS, n)
    made["ports"] = rng.integers(0, PORTS, n)
    made["sequence"] = rng.integers(0, 1 << 32, n)
    return made, order


def write(source: Source, made: np.ndarray, order: np.ndarray, target: Path) -> int:
    """Write a pcap of these sessions (see sessions); returns how many packets it has."""
    session = np.repeat(np.arange(len(made)), made["count"])
    ts = source.since_us[order] + made["begin_us"][session]
    place = np.argsort(ts, kind="stable")
    out = np.empty(source.size[order].sum(), np.uint8)
    _write(source.data, source.at, source.size, source.uplink, order, session, ts, made, place, out)
    with target.open("wb") as file:
        file.write(source.data[: framing.PCAP_HEADER_BYTES].data)
        file.write(out.data)
    return len(order)


@njit(cache=True)
def _write(data, source_at, source_size, uplink, order, session, ts, made, place, out):
    at = 0
    for p in place:
        packet, of = order[p], made[session[p]]
        start, size = source_at[packet], source_size[packet]
        out[at : at + size] = data[start : start + size]
        _put_little(out, at, ts[p] // 1_000_000)
        _put_little(out, at + 4, ts[p] % 1_000_000)
        ip, tcp = at + RECORD_HEADER, at + RECORD_HEADER + 20
        mobile, server, port = (12, 16, 0) if uplink[packet] else (16, 12, 2)
        for i in range(4):
            out[ip + mobile + i] = of.subscriber >> 8 * (3 - i) & 255
        out[ip + server + 2] += of.servers
        old = np.int64(out[tcp + port]) << 8 | out[tcp + port + 1]
        new = FIRST_PORT + (old - FIRST_PORT + of.ports) % PORTS
        out[tcp + port], out[tcp + port + 1] = new >> 8, new & 255
        shift_sequence(out, tcp, of.sequence)
        at += size


@njit(cache=True)
def _put_little(out, at, value):
    """A 32-bit number, little-endian."""
    for i in range(4):
        out[at + i] = value >> 8 * i & 255
