"""Segments that only test whether the other end has room or is there, and the answers to them.

These are zero-window probes (RFC 9293, 3.8.6.1), keep-alives (RFC 9293, 3.8.4) and the ACKs that
answer them. They bring no data.

    sent and acknowledged up to n      window closed: a probe       open: a keep-alive
    Linux and others                   n-1, no data                 n-1, no data
    BSD, Windows                       n, the next byte             n-1, one byte
    a few                              n, a whole segment

The next data is a probe while the receiver has no room for it: one byte if the window is closed,
more only beyond all room that was ever offered, as far as the windows' scale is known. If the data
is acknowledged before it is retransmitted, the receiver accepted the last probe, so it is data. A
segment of one byte may be retransmitted because its ACK was lost. Such a segment is a keep-alive
only if more time has passed than an RTO.
"""

import numpy as np

from spark_jobs.compiled import compiled, inner, making
from spark_jobs.estimators.options import MAX_WINDOW_SHIFT
from spark_jobs.estimators.records import KEEPALIVE, NO_SCALE, PROBE_ANSWER, WINDOW_PROBE
from spark_jobs.estimators.sequence import NONE, count_before, sequence_length
from spark_jobs.estimators.tcp import ACK, FIN, RST, SYN

MAX_RTO_US = 60_000_000
"""RTO above which a sender may limit it (RFC 6298, 2.5)."""

NO_PROBE = np.uint8(0)

END = np.dtype(
    [
        ("highest", "i8"),
        ("acked", "i8"),
        ("right_edge", "i8"),
        ("last_start", "i8"),
        ("last_ts", "i8"),
        ("open_probe", "i8"),
        ("open_probe_start", "i8"),
        ("unanswered_probes", "i8"),
        ("window_scale", "i8"),
        ("closed", "?"),
        ("was_closed", "?"),
        ("syn_seen", "?"),
        ("fin_seen", "?"),
    ]
)
"""An end of a connection; NONE: not known.

highest: end of the data that it sent
acked: end of the data that was acknowledged
right_edge: end of all room that it was ever offered
last_start, last_ts: start and time (µs) of its last data
open_probe: its last probe with a next byte whose fate is not known; -1 if there is none
open_probe_start: that byte
unanswered_probes: number of its probes without an answer
window_scale: shift count of its SYN
closed: it is offered no room
was_closed: it was offered no room at some time since it last sent new data
syn_seen, fin_seen: its SYN, its FIN was seen
"""


@compiled
def probes(segments, connections):
    """Return uint8[N]: which Segments are WINDOW_PROBE, KEEPALIVE or PROBE_ANSWER; else 0."""
    out = np.zeros(len(segments.ts), np.uint8)
    ends = np.empty(2, END)
    first, flags, downlink = connections.first, segments.tcp_flags, segments.downlink
    number, up_number, payload_len = segments.number, segments.up_number, segments.payload_len
    ts, window, scale = segments.ts, segments.window, segments.window_scale
    up, down = ends[0], ends[1]
    for c in range(len(first) - 1):
        _clear_end(up)
        _clear_end(down)
        for i in range(first[c], first[c + 1]):
            if flags[i] & RST:
                continue
            sender, receiver = (down, up) if downlink[i] else (up, down)
            start = number[i] if downlink[i] else up_number[i]
            end = start + sequence_length(flags[i], payload_len[i])
            if flags[i] & SYN:
                sender.syn_seen, sender.window_scale = True, np.int64(scale[i])
            elif flags[i] & FIN == 0 and sender.acked != NONE and start <= sender.acked:
                out[i] = _classify(sender, start, end, ts[i])
            if out[i]:
                sender.unanswered_probes += 1
                if start == sender.acked:
                    sender.open_probe, sender.open_probe_start = i, start
            elif end > start:
                _record_data(sender, start, end, ts[i])
                sender.fin_seen |= flags[i] & FIN != 0
            if flags[i] & ACK == 0:
                continue
            ack = up_number[i] if downlink[i] else number[i]
            window_field = np.int64(window[i])
            if ack > receiver.acked:
                if receiver.open_probe >= 0 and ack > receiver.open_probe_start:
                    out[receiver.open_probe] = NO_PROBE
                    receiver.open_probe = -1
                receiver.acked, receiver.unanswered_probes = ack, 0
                receiver.highest = max(receiver.highest, ack)
            elif (
                receiver.unanswered_probes > 0
                and end == start
                and not (receiver.closed and window_field)
            ):
                receiver.unanswered_probes -= 1
                out[i] = out[i] if out[i] else PROBE_ANSWER
            if ack == receiver.acked:
                _record_window(receiver, sender, window_field, flags[i] & SYN != 0)
    return out


@inner
def _clear_end(end):
    end.highest = end.acked = end.right_edge = end.last_start = end.last_ts = NONE
    end.open_probe, end.open_probe_start, end.unanswered_probes, end.window_scale = (
        -1,
        NONE,
        0,
        NO_SCALE,
    )
    end.closed = end.was_closed = end.syn_seen = end.fin_seen = False


@inner
def _classify(sender, start, end, now):
    """Return the kind of a segment that begins no higher than its sender's acknowledged data."""
    length = end - start
    if start == sender.acked - 1 and length <= 1:
        if sender.closed:
            return WINDOW_PROBE
        is_repeated = length == 1 and start == sender.last_start
        if sender.highest > sender.acked or sender.fin_seen:
            return NO_PROBE
        if is_repeated and now - sender.last_ts < MAX_RTO_US:
            return NO_PROBE
        return WINDOW_PROBE if sender.was_closed else KEEPALIVE
    if sender.closed and start == sender.acked and length > 0:
        if length == 1 or (sender.right_edge != NONE and start >= sender.right_edge):
            return WINDOW_PROBE
    return NO_PROBE


@inner
def _record_data(sender, start, end, now):
    """Record that an end sends data, a SYN or a FIN."""
    if sender.open_probe >= 0 and start <= sender.open_probe_start < end:
        sender.open_probe = -1
    if end > sender.highest:
        sender.highest = end
        sender.was_closed = sender.closed
    sender.last_start, sender.last_ts = start, now


@inner
def _record_window(end, offering, window_field, in_syn):
    """Record that the other end offers room; window_field: as on the wire; in_syn: in its SYN."""
    end.closed = window_field == 0
    end.was_closed |= end.closed
    if not in_syn and end.syn_seen and offering.syn_seen:
        is_scaled = end.window_scale > NO_SCALE and offering.window_scale > NO_SCALE
        shift = min(offering.window_scale, MAX_WINDOW_SHIFT) if is_scaled else np.int64(0)
        end.right_edge = max(end.right_edge, end.acked + (window_field << shift))
    elif in_syn:
        end.right_edge = max(end.right_edge, end.acked + window_field)


@compiled
def remove_probe_numbers(segments, connections):
    """Remove, in place, the numbers that Segments carry only to probe or to answer a probe.

    In their own stream, probes lose all numbers. In the other stream, numbers that repeat an
    acknowledgment are removed.
    """
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
                if probe[i] != PROBE_ANSWER:
                    up_number[i] = NONE


@making
def ignored_packets_before(segments, packets):
    """Return int64[M + 1]: number of packets before each, in user order, that bring nothing new.

    These are probes, their answers, and packets that are out of window.
    """
    ignored = packets.out_of_window.copy()
    for i in range(len(segments.probe)):
        if segments.probe[i]:
            ignored[segments.place[i]] = True
    return count_before(ignored)
