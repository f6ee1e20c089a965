"""The packets of a connection as a time-sequence graph shows them, and what held it up when.

Times are seconds after the connection's first packet. Numbers are relative to the stream's SYN, and
never wrap; where it was not seen, the lowest number that was seen is 1.
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from spark_jobs.estimators.options import LARGEST_SHIFT
from spark_jobs.estimators.records import KEEPALIVE, WINDOW_PROBE, Segments
from spark_jobs.estimators.sender import limits
from spark_jobs.estimators.sequence import NONE
from spark_jobs.estimators.tcp import ACK, FIN, RST, SYN
from spark_jobs.report.connection import Connection
from spark_jobs.tables.user_partition import UserPartition

KINDS = ("new", "rto", "tlp", "fast", "slow_start", "synack", "again", "probe", "keepalive")
"""Why a segment was sent: new data; again, for one of the causes of retransmissions or for none
that is known; to ask for a window, or whether the other end is alive."""

SENT = np.dtype(
    [
        ("at", "f8"),
        ("low", "i8"),
        ("size", "i8"),
        ("seq", "i8"),
        ("frame", "i8"),
        ("capture", "i4"),
        ("flags", "i4"),
        ("kind", "i1"),
        ("spurious", "?"),
        ("spurious_rto", "?"),
    ]
)
"""A segment: when it passed Gi; its data begins at low and has so many bytes; its sequence number
on the wire; where it is; TCP's flags; into KINDS; the receiver had its data already; of a timeout,
the sender could tell that it came too soon."""

HEARD = np.dtype(
    [("at", "f8"), ("number", "i8"), ("window", "f8"), ("frame", "i8"), ("capture", "i4")]
)
"""An acknowledgement: all below the number has arrived; the window (B; NaN: the scale is not
known)."""

BLOCK = np.dtype(
    [
        ("at", "f8"),
        ("low", "i8"),
        ("high", "i8"),
        ("twice", "?"),
        ("frame", "i8"),
        ("capture", "i4"),
    ]
)
"""A SACK block; twice: it tells of data that came again (D-SACK, RFC 2883)."""

LOST = np.dtype(
    [("at", "f8"), ("low", "i8"), ("size", "i8"), ("probability", "f8"), ("internet", "?")]
)
"""A data packet that was lost, more likely than not; internet: on the Internet side, and when it was missed
there."""

OUTSTANDING = np.dtype([("at", "f8"), ("bytes", "i8")])
"""From when on so much was sent and not acknowledged, as Gi sees it."""

INTERVAL = np.dtype([("start", "f8"), ("end", "f8"), ("limit", "i1")])
"""From when to when, by the server's clock, what limited the transfer (into limits.LIMITS)."""

CWND = np.dtype([("at", "f8"), ("bytes", "f8")])
"""From when on, by the server's clock, the congestion window is reckoned to be so large."""


@dataclass(frozen=True)
class Stream:
    """What was sent one way, and what the other end answered: arrays of the types above."""

    sent: np.ndarray
    heard: np.ndarray
    blocks: np.ndarray
    outstanding: np.ndarray
    lost: np.ndarray
    from_syn: bool
    """Its SYN was seen, so that numbers are relative to it."""


@dataclass(frozen=True)
class ConnectionPackets:
    """Both ways of a connection, and what its server did."""

    down: Stream
    up: Stream
    intervals: np.ndarray
    """INTERVAL[K]; none where what limited it is not known."""
    cwnd: np.ndarray
    """CWND[K]; none where what the server did is not known."""
    captures: list[str]
    """What `capture` counts."""
    address: str
    """The mobile's."""


@dataclass(frozen=True)
class _Way:
    """The segments of a connection, seen as one stream's."""

    segments: Segments
    frame: np.ndarray
    capture: np.ndarray
    at: np.ndarray
    number: np.ndarray
    """int64[N]: what each packet says of the stream, by seq or by ack; NONE where nothing."""
    mine: np.ndarray
    """bool[N]: sent this way; the others answer."""


def packets_of(partition: UserPartition, connection: Connection) -> ConnectionPackets | None:
    """The ConnectionPackets of a connection from its user's packets; None if they are not there."""
    flow = connection.flow
    places = np.flatnonzero(partition.flow_ids == flow["flow_id"])
    if not len(places):
        return None
    place = int(places[0])
    begin, end = partition.connections.first[place : place + 2]
    segments = _part(partition.segments, slice(begin, end))
    packets, start = partition.packets, partition.connections.start_ts[place]
    down = _Way(
        segments,
        packets.frame[segments.place],
        packets.capture[segments.place],
        _seconds(segments.ts, start),
        _filled(segments, segments.number, segments.downlink),
        segments.downlink,
    )
    up_number = _filled(segments, segments.up_number, ~segments.downlink)
    up = replace(down, number=up_number, mine=~segments.downlink)
    replayed, limited = flow["retransmissions"] is not None, flow["limited_by"] is not None
    moments = partition.moments(place)
    return ConnectionPackets(
        _downlink(down, connection, partition.names.captures, start),
        _stream(up, _kinds(up)),
        _intervals(moments, start) if limited else np.empty(0, INTERVAL),
        _cwnd(moments, start) if replayed else np.empty(0, CWND),
        partition.names.captures,
        partition.names.addresses[partition.connections.user[place]],
    )


def _part(segments: Segments, part: slice) -> Segments:
    columns = {name: getattr(segments, name)[part] for name in segments._fields}
    return Segments(**columns | {"sack_edges": segments.sack_edges})


def _seconds(ts: np.ndarray, start: int) -> np.ndarray:
    return (ts - start) / 1e6


def _last_known(number: np.ndarray) -> np.ndarray:
    """int64[N]: each number, or where it is NONE the last one before it, or else the first."""
    known = np.flatnonzero(number != NONE)
    if not len(known):
        return number
    last = np.searchsorted(known, np.arange(len(number)), "right") - 1
    return number[known[np.maximum(last, 0)]]


def _unwrapped(wire: np.ndarray, near: np.ndarray) -> np.ndarray:
    """int64[N]: the numbers that are congruent to 32-bit ones and lie nearest to `near`."""
    return near + (wire.astype(np.int64) - near + 2**31) % 2**32 - 2**31


def _filled(segments: Segments, number: np.ndarray, mine: np.ndarray) -> np.ndarray:
    """int64[N]: the numbers, and those of probes and of what answers them, which carry none."""
    wire = np.where(mine, segments.seq, segments.ack)
    probes = (segments.probe > 0) & (mine | (segments.tcp_flags & ACK > 0))
    known = _last_known(number)
    return np.where(probes & (known != NONE), _unwrapped(wire, known), number)


def _base(way: _Way) -> tuple[int, bool]:
    """The number that counts as 0, and whether it is the SYN's."""
    known = way.number != NONE
    syn = known & way.mine & (way.segments.tcp_flags & SYN > 0)
    if syn.any():
        return int(way.number[syn.argmax()]), True
    return (int(way.number[known].min()) - 1 if known.any() else 0), False


def _kinds(way: _Way) -> np.ndarray:
    """int8[N], into KINDS: what was sent before is retransmitted."""
    segments, known = way.segments, way.number != NONE
    high = np.where(way.mine & known, way.number + segments.payload_len, NONE)
    before = np.concatenate([[NONE], np.maximum.accumulate(high)[:-1]])
    again = way.mine & known & (way.number < before) & (segments.payload_len > 0)
    return _with_probes(way, np.where(again, KINDS.index("again"), KINDS.index("new")))


def _with_probes(way: _Way, kind: np.ndarray) -> np.ndarray:
    probe = way.segments.probe
    kind = np.where(probe == WINDOW_PROBE, KINDS.index("probe"), kind)
    return np.where(probe == KEEPALIVE, KINDS.index("keepalive"), kind)


def _downlink(way: _Way, connection: Connection, captures: list[str], start: int) -> Stream:
    """The stream to the mobile, with what the tables say of its packets."""
    again = connection.retransmissions
    key = {name: code for code, name in enumerate(captures)}
    rows = {
        (key[capture], frame): (
            KINDS.index(cause or "again"),
            needed is False,
            spurious_rto is True,
        )
        for capture, frame, cause, needed, spurious_rto in zip(
            *(
                again[name].to_pylist()
                for name in ("capture", "frame", "cause", "needed", "spurious_rto")
            ),
            strict=True,
        )
    }
    told = np.zeros((len(way.at), 3), np.int8)
    for place in np.flatnonzero(way.mine) if rows else []:
        told[place] = rows.get((int(way.capture[place]), int(way.frame[place])), (0, 0, 0))
    stream = _stream(way, _with_probes(way, told[:, 0]), told[:, 1] > 0, told[:, 2] > 0)
    return replace(stream, lost=_lost(way, connection, start))


def _stream(
    way: _Way,
    kind: np.ndarray,
    spurious: np.ndarray | None = None,
    spurious_rto: np.ndarray | None = None,
) -> Stream:
    base, from_syn = _base(way)
    return Stream(
        _sent(way, base, kind, spurious, spurious_rto),
        _heard(way, base),
        _blocks(way, base),
        _outstanding(way),
        np.empty(0, LOST),
        from_syn,
    )


def _sent(
    way: _Way,
    base: int,
    kind: np.ndarray,
    spurious: np.ndarray | None,
    spurious_rto: np.ndarray | None,
) -> np.ndarray:
    """SENT[K]: what has data, a SYN, a FIN or a reset."""
    segments, number = way.segments, _last_known(way.number)
    marked = segments.tcp_flags & (SYN | FIN | RST) > 0
    at = np.flatnonzero(way.mine & ((segments.payload_len > 0) | marked))
    out = np.zeros(len(at), SENT)
    out["at"], out["low"], out["size"] = way.at[at], number[at] - base, segments.payload_len[at]
    out["seq"], out["frame"], out["capture"] = segments.seq[at], way.frame[at], way.capture[at]
    out["flags"], out["kind"] = segments.tcp_flags[at], kind[at]
    for name, marks in (("spurious", spurious), ("spurious_rto", spurious_rto)):
        if marks is not None:
            out[name] = marks[at]
    return out


def _heard(way: _Way, base: int) -> np.ndarray:
    """HEARD[K]"""
    segments = way.segments
    at = np.flatnonzero(~way.mine & (way.number != NONE) & (segments.tcp_flags & ACK > 0))
    out = np.zeros(len(at), HEARD)
    out["at"], out["number"] = way.at[at], way.number[at] - base
    out["frame"], out["capture"] = way.frame[at], way.capture[at]
    shift = _shift(way)
    scaled = segments.tcp_flags[at] & SYN == 0
    window = segments.window[at].astype(np.float64)
    out["window"] = np.where(
        scaled, np.nan if shift is None else window * 2.0 ** (shift or 0), window
    )
    return out


def _shift(way: _Way) -> int | None:
    """By how much the answering end's windows are scaled (RFC 7323, 2.2); None: not known."""
    segments = way.segments
    syn = segments.tcp_flags & SYN > 0
    scales = [segments.window_scale[syn & mine] for mine in (way.mine, ~way.mine)]
    if any(len(scale) and scale.max() < 0 for scale in scales):
        return 0
    if all(len(scale) for scale in scales):
        return min(int(scales[1].max()), LARGEST_SHIFT)
    return None


def _blocks(way: _Way, base: int) -> np.ndarray:
    """BLOCK[K] of what the other end reports."""
    segments = way.segments
    told = ~way.mine & (way.number != NONE) & (segments.sack_count >= 2)
    blocks = np.where(told, segments.sack_count // 2, 0).astype(np.int64)
    at = np.repeat(np.arange(len(blocks)), blocks)
    nth = np.arange(len(at)) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    edge = segments.sack_at[at] + 2 * nth
    edges = segments.sack_edges
    out = np.zeros(len(at), BLOCK)
    out["at"], out["frame"], out["capture"] = way.at[at], way.frame[at], way.capture[at]
    low, high = (_unwrapped(edges[edge + k], way.number[at]) for k in (0, 1))
    out["low"], out["high"] = low - base, high - base
    first = nth == 0
    within = np.zeros(len(at), bool)
    if len(at):
        low_2, high_2 = np.roll(low, -1), np.roll(high, -1)
        within = (blocks[at] > 1) & (low >= low_2) & (high <= high_2)
    out["twice"] = first & ((high <= way.number[at]) | within)
    return out


def _outstanding(way: _Way) -> np.ndarray:
    """OUTSTANDING[K], where it changes; none where one direction was not seen."""
    segments, known = way.segments, way.number != NONE
    answers = ~way.mine & known
    if not (way.mine & known).any() or not answers.any():
        return np.empty(0, OUTSTANDING)
    ends = way.number + segments.payload_len + (segments.tcp_flags & (SYN | FIN) > 0)
    sent = np.maximum.accumulate(np.where(way.mine & known, ends, NONE))
    acked = np.maximum.accumulate(np.where(answers, way.number, NONE))
    first = way.number[way.mine & known][0]
    acked = np.maximum(acked, first)
    under_way = np.where(sent == NONE, 0, np.maximum(sent - acked, 0))
    changed = np.flatnonzero(np.diff(under_way, prepend=-1) != 0)
    out = np.empty(len(changed), OUTSTANDING)
    out["at"], out["bytes"] = way.at[changed], under_way[changed]
    return out


def _lost(way: _Way, connection: Connection, start: int) -> np.ndarray:
    """LOST[K]"""
    rows, (base, _) = connection.losses, _base(way)
    ts = _micros(rows, "ts")
    wire = rows["seq"].to_numpy()
    near = _last_known(way.number)
    if not len(ts) or not (near != NONE).any():
        return np.empty(0, LOST)
    at = np.searchsorted(way.segments.ts, ts, "right") - 1
    out = np.empty(len(ts), LOST)
    out["at"] = _seconds(ts, start)
    out["low"] = _unwrapped(wire, near[np.maximum(at, 0)]) - base
    out["size"], out["probability"] = rows["payload_len"].to_numpy(), rows["probability"].to_numpy()
    out["internet"] = np.array(rows["side"].to_pylist()) == "internet"
    return out[out["probability"] > 0.5]


def _micros(rows: pa.Table, name: str) -> np.ndarray:
    return rows[name].cast("int64").to_numpy()


def _intervals(moments: np.ndarray, start: int) -> np.ndarray:
    """INTERVAL[K]"""
    found = limits.intervals(moments)
    out = np.empty(len(found), INTERVAL)
    out["start"], out["end"] = _seconds(found["start"], start), _seconds(found["end"], start)
    out["limit"] = found["limit"]
    return out


def _cwnd(moments: np.ndarray, start: int) -> np.ndarray:
    """CWND[K], where it changes, from the handshake on."""
    told = moments[(moments["shared_until"] >= start) & (moments["at"] >= start)]
    told = told[np.diff(told["cwnd"], prepend=-1.0) != 0]
    out = np.empty(len(told), CWND)
    out["at"], out["bytes"] = _seconds(told["at"], start), told["cwnd"]
    return out
