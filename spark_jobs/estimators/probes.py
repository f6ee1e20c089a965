"""Segments that only ask whether the other end has room, or is there: zero-window probes (RFC 9293,
3.8.6.1), keep-alives (RFC 9293, 3.8.4), and the ACKs that answer them. They bring no data.

    sent and acknowledged up to n      window closed: a probe       open: a keep-alive
    Linux and others                   n-1, no data                 n-1, no data
    BSD, Windows                       n, the next byte             n-1, one byte
    a few                              n, a whole segment

The next data is a probe while there is no room for it: one byte where the window is closed, more
only beyond all that was ever offered, as far as the windows' scale is known. If it is acknowledged
before it is retransmitted, the last probe was taken in, and is data. What was sent as a segment of one
byte may come again because its ACK was lost: that is a keep-alive only after longer than a timeout.
"""

import numpy as np

from spark_jobs.compiled import compiled, inner, making
from spark_jobs.estimators.options import LARGEST_SHIFT
from spark_jobs.estimators.records import ANSWER, KEEPALIVE, NO_SCALE, WINDOW_PROBE
from spark_jobs.estimators.sequence import NONE, count_before, sequence_length
from spark_jobs.estimators.tcp import ACK, FIN, RST, SYN

LONGEST_TIMEOUT_US = 60_000_000
"""RFC 6298, (2.5): a timeout may be bounded by so much."""

NOTHING = np.uint8(0)

END = np.dtype(
    [
        ("top", "i8"),
        ("acked", "i8"),
        ("edge", "i8"),
        ("last_low", "i8"),
        ("last_ts", "i8"),
        ("probe", "i8"),
        ("probe_low", "i8"),
        ("asked", "i8"),
        ("scale", "i8"),
        ("closed", "?"),
        ("stalled", "?"),
        ("opened", "?"),
        ("finished", "?"),
    ]
)
"""An end of a connection: up to where it sent, and was acknowledged; up to where it was ever
offered room (NONE: not known); its last data: from where, when (µs); the last probe with a next
byte of which it is not known what became, or -1, and that byte; how many probes are not answered;
the scale of its SYN. closed: it is offered no room; stalled: so it was since it last sent new data;
opened, finished: its SYN, its FIN was seen."""


@compiled
def probes(segments, connections):
    """uint8[N]: which Segments of the Connections are WINDOW_PROBE, KEEPALIVE or ANSWER; else 0."""
    out = np.zeros(len(segments.ts), np.uint8)
    ends = np.empty(2, END)
    first, flags, downlink = connections.first, segments.tcp_flags, segments.downlink
    number, up_number, payload_len = segments.number, segments.up_number, segments.payload_len
    ts, window, scale = segments.ts, segments.window, segments.window_scale
    up, down = ends[0], ends[1]
    for c in range(len(first) - 1):
        _begin(up)
        _begin(down)
        for i in range(first[c], first[c + 1]):
            if flags[i] & RST:
                continue
            own, other = (down, up) if downlink[i] else (up, down)
            low = number[i] if downlink[i] else up_number[i]
            high = low + sequence_length(flags[i], payload_len[i])
            if flags[i] & SYN:
                own.opened, own.scale = True, np.int64(scale[i])
            elif flags[i] & FIN == 0 and own.acked != NONE and low <= own.acked:
                out[i] = _kind(own, low, high, ts[i])
            if out[i]:
                own.asked += 1
                if low == own.acked:
                    own.probe, own.probe_low = i, low
            elif high > low:
                _send(own, low, high, ts[i])
                own.finished |= flags[i] & FIN != 0
            if flags[i] & ACK == 0:
                continue
            ack = up_number[i] if downlink[i] else number[i]
            room = np.int64(window[i])
            if ack > other.acked:
                if other.probe >= 0 and ack > other.probe_low:
                    out[other.probe] = NOTHING
                    other.probe = -1
                other.acked, other.asked = ack, 0
                other.top = max(other.top, ack)
            elif other.asked > 0 and high == low and not (other.closed and room):
                other.asked -= 1
                out[i] = out[i] if out[i] else ANSWER
            if ack == other.acked:
                _offer(other, own, room, flags[i] & SYN != 0)
    return out


@inner
def _begin(end):
    end.top = end.acked = end.edge = end.last_low = end.last_ts = NONE
    end.probe, end.probe_low, end.asked, end.scale = -1, NONE, 0, NO_SCALE
    end.closed = end.stalled = end.opened = end.finished = False


@inner
def _kind(own, low, high, now):
    """What a segment is that begins no higher than where its sender was acknowledged."""
    length = high - low
    if low == own.acked - 1 and length <= 1:
        if own.closed:
            return WINDOW_PROBE
        again = length == 1 and low == own.last_low
        if own.top > own.acked or own.finished:
            return NOTHING
        if again and now - own.last_ts < LONGEST_TIMEOUT_US:
            return NOTHING
        return WINDOW_PROBE if own.stalled else KEEPALIVE
    if own.closed and low == own.acked and length > 0:
        if length == 1 or (own.edge != NONE and low >= own.edge):
            return WINDOW_PROBE
    return NOTHING


@inner
def _send(own, low, high, now):
    """Data, a SYN or a FIN is sent."""
    if own.probe >= 0 and low <= own.probe_low < high:
        own.probe = -1
    if high > own.top:
        own.top = high
        own.stalled = own.closed
    own.last_low, own.last_ts = low, now


@inner
def _offer(own, other, room, opening):
    """The other end offers room, by its window as on the wire; opening: in its SYN."""
    own.closed = room == 0
    own.stalled |= own.closed
    if not opening and own.opened and other.opened:
        scaled = own.scale > NO_SCALE and other.scale > NO_SCALE
        shift = min(other.scale, LARGEST_SHIFT) if scaled else np.int64(0)
        own.edge = max(own.edge, own.acked + (room << shift))
    elif opening:
        own.edge = max(own.edge, own.acked + room)


@compiled
def unnumber(segments, connections):
    """Takes the numbers away, in place, that Segments carry in order to probe or to answer that:
    in their own stream all, in the other one what repeats an acknowledgement."""
    number, up_number, probe = segments.number, segments.up_number, segments.probe
    for c in range(len(connections.first) - 1):
        acked = NONE
        for i in range(connections.first[c], connections.first[c + 1]):
            if segments.downlink[i]:
                if probe[i] == WINDOW_PROBE or probe[i] == KEEPALIVE:
                    number[i] = NONE
                continue
            repeats = number[i] <= acked
            acked = max(acked, number[i])
            if probe[i]:
                if repeats:
                    number[i] = NONE
                if probe[i] != ANSWER:
                    up_number[i] = NONE


@making
def quiet_before(segments, packets):
    """int64[M + 1]: how many packets of the user order before each bring no data, or none that an
    end would take."""
    quiet = packets.outside.copy()
    for i in range(len(segments.probe)):
        if segments.probe[i]:
            quiet[segments.place[i]] = True
    return count_before(quiet)
