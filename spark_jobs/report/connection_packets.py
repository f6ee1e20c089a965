"""Packets of a connection as its time-sequence graph shows them, with its limits and cwnd.

Times are seconds after the connection's first packet. Sequence numbers are relative to the stream's
SYN and never wrap. If Gi did not see the SYN, the lowest number of the stream is 1.
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from spark_jobs.estimators.options import MAX_WINDOW_SHIFT
from spark_jobs.estimators.records import KEEPALIVE, WINDOW_PROBE, Segments
from spark_jobs.estimators.sender import limits
from spark_jobs.estimators.sequence import NONE
from spark_jobs.estimators.tcp import ACK, FIN, RST, SYN
from spark_jobs.report.connection import Connection
from spark_jobs.tables.user_partition import UserPartition

KINDS = (
    "new",
    "rto",
    "tlp",
    "fast",
    "slow_start",
    "synack",
    "pmtu",
    "retransmission",
    "probe",
    "keepalive",
)
"""Kinds of segments.

new: data sent for the first time. rto, tlp, fast, slow_start, synack, pmtu: retransmissions by
cause. retransmission: one of unknown cause. probe: window probe. keepalive: keep-alive.
"""

SEGMENT = np.dtype(
    [
        ("time", "f8"),
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
"""A segment of a stream.

time: when it passed Gi (s)
low: relative number of its first byte
size: payload (B)
seq: sequence number in the packet
frame: number of the frame in the capture
capture: index into ConnectionPackets.captures
flags: TCP flags
kind: index into KINDS
spurious: a spurious retransmission
spurious_rto: the retransmission of a spurious RTO expiry
"""

CUMULATIVE_ACK = np.dtype(
    [("time", "f8"), ("number", "i8"), ("window", "f8"), ("frame", "i8"), ("capture", "i4")]
)
"""A cumulative ACK.

time: when it passed Gi (s)
number: relative acknowledgment number
window: the receive window (B); NaN if its scale is unknown
frame, capture: as in SEGMENT
"""

SACK_BLOCK = np.dtype(
    [
        ("time", "f8"),
        ("low", "i8"),
        ("high", "i8"),
        ("dsack", "?"),
        ("frame", "i8"),
        ("capture", "i4"),
    ]
)
"""A SACK block.

time: when its ACK passed Gi (s)
low, high: relative numbers of the first byte and the byte after the last
dsack: a D-SACK block (RFC 2883)
frame, capture: as in SEGMENT
"""

LOSS = np.dtype(
    [("time", "f8"), ("low", "i8"), ("size", "i8"), ("probability", "f8"), ("internet", "?")]
)
"""A data packet that was lost with a probability above one half.

time: when it passed Gi, or when Gi first missed it (s)
low, size: as in SEGMENT
internet: lost on the Internet side
"""

IN_FLIGHT = np.dtype([("time", "f8"), ("bytes", "i8")])
"""Bytes in flight, as Gi sees them, from a time (s) on."""

LIMITED = np.dtype([("start", "f8"), ("end", "f8"), ("limit", "i1")])
"""An interval with one limit (index into limits.LIMITS); times (s) at the server."""

CWND = np.dtype([("time", "f8"), ("bytes", "f8")])
"""The estimated congestion window (B) from a time (s) at the server on."""


@dataclass(frozen=True)
class Stream:
    """The segments of one direction, and the answers of the other end."""

    segments: np.ndarray
    """SEGMENT[K]."""
    acks: np.ndarray
    """CUMULATIVE_ACK[K]."""
    sack_blocks: np.ndarray
    """SACK_BLOCK[K]."""
    in_flight: np.ndarray
    """IN_FLIGHT[K]."""
    losses: np.ndarray
    """LOSS[K]."""
    from_syn: bool
    """Gi saw the SYN, and the numbers are relative to it."""


@dataclass(frozen=True)
class ConnectionPackets:
    """Both streams of a connection, and the limits and congestion window of its server."""

    down: Stream
    up: Stream
    intervals: np.ndarray
    """LIMITED[K]; empty if the limits are unknown."""
    cwnd: np.ndarray
    """CWND[K]; empty if the server's behaviour is unknown."""
    captures: list[str]
    """Names of the captures."""
    address: str
    """Address of the mobile."""


@dataclass(frozen=True)
class _Direction:
    """All segments of a connection, seen from one stream."""

    segments: Segments
    frame: np.ndarray
    capture: np.ndarray
    time: np.ndarray
    number: np.ndarray
    """int64[N]: the stream's number in each packet, from seq or ack; NONE if it has none."""
    forward: np.ndarray
    """bool[N]: sent in this direction; all others are answers."""


def packets_of(partition: UserPartition, connection: Connection) -> ConnectionPackets | None:
    """Return the packets of a connection, or None if the partition does not have them."""
    flow = connection.flow
    places = np.flatnonzero(partition.flow_ids == flow["flow_id"])
    if not len(places):
        return None
    place = int(places[0])
    begin, end = partition.connections.first[place : place + 2]
    segments = _slice(partition.segments, slice(begin, end))
    packets, start = partition.packets, partition.connections.start_ts[place]
    down = _Direction(
        segments,
        packets.frame[segments.place],
        packets.capture[segments.place],
        _seconds(segments.ts, start),
        _with_probe_numbers(segments, segments.number, segments.downlink),
        segments.downlink,
    )
    up_number = _with_probe_numbers(segments, segments.up_number, ~segments.downlink)
    up = replace(down, number=up_number, forward=~segments.downlink)
    replayed, limited = flow["retransmissions"] is not None, flow["limited_by"] is not None
    moments = partition.server_states(place)
    ends = partition.connections
    code, addresses = partition.names.addresses_of(ends.user[[place]], ends.server[[place]])
    return ConnectionPackets(
        _downlink(down, connection, partition.names.captures, start),
        _stream(up, _kinds(up)),
        _intervals(moments, start) if limited else np.empty(0, LIMITED),
        _cwnd(moments, start) if replayed else np.empty(0, CWND),
        partition.names.captures,
        addresses[int(code[0])],
    )


def _slice(segments: Segments, part: slice) -> Segments:
    columns = {name: getattr(segments, name)[part] for name in segments._fields}
    return Segments(**columns | {"sack_edges": segments.sack_edges})


def _seconds(ts: np.ndarray, start: int) -> np.ndarray:
    return (ts - start) / 1e6


def _last_known(number: np.ndarray) -> np.ndarray:
    """Return int64[N]: the numbers, with NONE replaced by the last number before, or the first."""
    known = np.flatnonzero(number != NONE)
    if not len(known):
        return number
    last = np.searchsorted(known, np.arange(len(number)), "right") - 1
    return number[known[np.maximum(last, 0)]]


def _unwrapped(wire: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return int64[N]: 32-bit numbers unwrapped to the numbers nearest to `reference`."""
    return reference + (wire.astype(np.int64) - reference + 2**31) % 2**32 - 2**31


def _with_probe_numbers(segments: Segments, number: np.ndarray, forward: np.ndarray) -> np.ndarray:
    """Return int64[N]: the numbers, completed for probes and their answers, which have none."""
    wire = np.where(forward, segments.seq, segments.ack)
    probes = (segments.probe > 0) & (forward | (segments.tcp_flags & ACK > 0))
    known = _last_known(number)
    return np.where(probes & (known != NONE), _unwrapped(wire, known), number)


def _base(direction: _Direction) -> tuple[int, bool]:
    """Return the number that counts as 0, and whether it is the SYN's."""
    known = direction.number != NONE
    syn = known & direction.forward & (direction.segments.tcp_flags & SYN > 0)
    if syn.any():
        return int(direction.number[syn.argmax()]), True
    return (int(direction.number[known].min()) - 1 if known.any() else 0), False


def _kinds(direction: _Direction) -> np.ndarray:
    """Return int8[N], indices into KINDS; data below the highest end so far is a retransmission."""
    segments, known = direction.segments, direction.number != NONE
    high = np.where(direction.forward & known, direction.number + segments.payload_len, NONE)
    before = np.concatenate([[NONE], np.maximum.accumulate(high)[:-1]])
    repeated = direction.forward & known & (direction.number < before) & (segments.payload_len > 0)
    kind = np.where(repeated, KINDS.index("retransmission"), KINDS.index("new"))
    return _with_probes(direction, kind)


def _with_probes(direction: _Direction, kind: np.ndarray) -> np.ndarray:
    probe = direction.segments.probe
    kind = np.where(probe == WINDOW_PROBE, KINDS.index("probe"), kind)
    return np.where(probe == KEEPALIVE, KINDS.index("keepalive"), kind)


def _downlink(
    direction: _Direction, connection: Connection, captures: list[str], start: int
) -> Stream:
    """Return the downlink stream, with its retransmissions and losses from the tables."""
    retransmissions = connection.retransmissions
    codes = {name: code for code, name in enumerate(captures)}
    rows = {
        (codes[capture], frame): (
            KINDS.index(cause or "retransmission"),
            needed is False,
            spurious_rto is True,
        )
        for capture, frame, cause, needed, spurious_rto in zip(
            *(
                retransmissions[name].to_pylist()
                for name in ("capture", "frame", "cause", "needed", "spurious_rto")
            ),
            strict=True,
        )
    }
    marks = np.zeros((len(direction.time), 3), np.int8)
    for place in np.flatnonzero(direction.forward) if rows else []:
        key = int(direction.capture[place]), int(direction.frame[place])
        marks[place] = rows.get(key, (0, 0, 0))
    kind = _with_probes(direction, marks[:, 0])
    stream = _stream(direction, kind, marks[:, 1] > 0, marks[:, 2] > 0)
    return replace(stream, losses=_losses(direction, connection, start))


def _stream(
    direction: _Direction,
    kind: np.ndarray,
    spurious: np.ndarray | None = None,
    spurious_rto: np.ndarray | None = None,
) -> Stream:
    base, from_syn = _base(direction)
    return Stream(
        _segments(direction, base, kind, spurious, spurious_rto),
        _acks(direction, base),
        _sack_blocks(direction, base),
        _in_flight(direction),
        np.empty(0, LOSS),
        from_syn,
    )


def _segments(
    direction: _Direction,
    base: int,
    kind: np.ndarray,
    spurious: np.ndarray | None,
    spurious_rto: np.ndarray | None,
) -> np.ndarray:
    """Return SEGMENT[K]: the segments with data, SYN, FIN or RST."""
    segments, number = direction.segments, _last_known(direction.number)
    flagged = segments.tcp_flags & (SYN | FIN | RST) > 0
    places = np.flatnonzero(direction.forward & ((segments.payload_len > 0) | flagged))
    out = np.zeros(len(places), SEGMENT)
    out["time"], out["low"] = direction.time[places], number[places] - base
    out["size"], out["seq"] = segments.payload_len[places], segments.seq[places]
    out["frame"], out["capture"] = direction.frame[places], direction.capture[places]
    out["flags"], out["kind"] = segments.tcp_flags[places], kind[places]
    for name, marks in (("spurious", spurious), ("spurious_rto", spurious_rto)):
        if marks is not None:
            out[name] = marks[places]
    return out


def _acks(direction: _Direction, base: int) -> np.ndarray:
    """Return CUMULATIVE_ACK[K]."""
    segments = direction.segments
    has_ack = segments.tcp_flags & ACK > 0
    places = np.flatnonzero(~direction.forward & (direction.number != NONE) & has_ack)
    out = np.zeros(len(places), CUMULATIVE_ACK)
    out["time"], out["number"] = direction.time[places], direction.number[places] - base
    out["frame"], out["capture"] = direction.frame[places], direction.capture[places]
    shift = _shift(direction)
    scaled = segments.tcp_flags[places] & SYN == 0
    window = segments.window[places].astype(np.float64)
    out["window"] = np.where(
        scaled, np.nan if shift is None else window * 2.0 ** (shift or 0), window
    )
    return out


def _shift(direction: _Direction) -> int | None:
    """Return the shift of the answering end's windows (RFC 7323, 2.2); None if it is unknown."""
    segments = direction.segments
    syn = segments.tcp_flags & SYN > 0
    sides = (direction.forward, ~direction.forward)
    scales = [segments.window_scale[syn & side] for side in sides]
    if any(len(scale) and scale.max() < 0 for scale in scales):
        return 0
    if all(len(scale) for scale in scales):
        return min(int(scales[1].max()), MAX_WINDOW_SHIFT)
    return None


def _sack_blocks(direction: _Direction, base: int) -> np.ndarray:
    """Return SACK_BLOCK[K]: the blocks that the other end reports."""
    segments = direction.segments
    reporting = ~direction.forward & (direction.number != NONE) & (segments.sack_count >= 2)
    blocks = np.where(reporting, segments.sack_count // 2, 0).astype(np.int64)
    places = np.repeat(np.arange(len(blocks)), blocks)
    nth = np.arange(len(places)) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    edge = segments.sack_at[places] + 2 * nth
    edges = segments.sack_edges
    number = direction.number[places]
    out = np.zeros(len(places), SACK_BLOCK)
    out["time"], out["frame"] = direction.time[places], direction.frame[places]
    out["capture"] = direction.capture[places]
    low, high = (_unwrapped(edges[edge + k], number) for k in (0, 1))
    out["low"], out["high"] = low - base, high - base
    first = nth == 0
    within_second = np.zeros(len(places), bool)
    if len(places):
        low_2, high_2 = np.roll(low, -1), np.roll(high, -1)
        within_second = (blocks[places] > 1) & (low >= low_2) & (high <= high_2)
    out["dsack"] = first & ((high <= number) | within_second)
    return out


def _in_flight(direction: _Direction) -> np.ndarray:
    """Return IN_FLIGHT[K] for each change; empty if Gi saw only one direction."""
    segments, known = direction.segments, direction.number != NONE
    forward, answers = direction.forward & known, ~direction.forward & known
    if not forward.any() or not answers.any():
        return np.empty(0, IN_FLIGHT)
    ends = direction.number + segments.payload_len + (segments.tcp_flags & (SYN | FIN) > 0)
    sent = np.maximum.accumulate(np.where(forward, ends, NONE))
    acked = np.maximum.accumulate(np.where(answers, direction.number, NONE))
    first = direction.number[forward][0]
    acked = np.maximum(acked, first)
    in_flight = np.where(sent == NONE, 0, np.maximum(sent - acked, 0))
    changed = np.flatnonzero(np.diff(in_flight, prepend=-1) != 0)
    out = np.empty(len(changed), IN_FLIGHT)
    out["time"], out["bytes"] = direction.time[changed], in_flight[changed]
    return out


def _losses(direction: _Direction, connection: Connection, start: int) -> np.ndarray:
    """Return LOSS[K]."""
    rows, (base, _) = connection.losses, _base(direction)
    ts = _micros(rows, "ts")
    wire = rows["seq"].to_numpy()
    reference = _last_known(direction.number)
    if not len(ts) or not (reference != NONE).any():
        return np.empty(0, LOSS)
    places = np.searchsorted(direction.segments.ts, ts, "right") - 1
    out = np.empty(len(ts), LOSS)
    out["time"] = _seconds(ts, start)
    out["low"] = _unwrapped(wire, reference[np.maximum(places, 0)]) - base
    out["size"], out["probability"] = rows["payload_len"].to_numpy(), rows["probability"].to_numpy()
    out["internet"] = np.array(rows["side"].to_pylist()) == "internet"
    return out[out["probability"] > 0.5]


def _micros(rows: pa.Table, name: str) -> np.ndarray:
    return rows[name].cast("int64").to_numpy()


def _intervals(moments: np.ndarray, start: int) -> np.ndarray:
    """Return LIMITED[K]."""
    rows = limits.intervals(moments)
    out = np.empty(len(rows), LIMITED)
    out["start"], out["end"] = _seconds(rows["start"], start), _seconds(rows["end"], start)
    out["limit"] = rows["limit"]
    return out


def _cwnd(moments: np.ndarray, start: int) -> np.ndarray:
    """Return CWND[K] for each change since the set-up."""
    states = moments[(moments["attributed_until"] >= start) & (moments["time"] >= start)]
    states = states[np.diff(states["cwnd"], prepend=-1.0) != 0]
    out = np.empty(len(states), CWND)
    out["time"], out["bytes"] = _seconds(states["time"], start), states["cwnd"]
    return out
