"""Downlink data lost on the Internet side (INFOCOM 2004, Section V): Gi never saw it, but it was sent.

The paper, with Benkő and Veres (GLOBECOM 2002), takes a hole in the sequence space that is filled
later. A retransmission that is lost, too, leaves none, nor does what nothing followed: of these the
sender's behaviour tells. Five things are evidence:

hole      What came lies higher than what was next, be it data or a packet without, which carries
          the number of what its sender will send next (RFC 9293, 3.4). A retransmission filled the hole,
          or it was still open when the connection ended.
tail      The data came in order, but late. What had no PSH had more behind it in the server's
          buffer (RFC 9293, 3.9.1.2); if all is acknowledged, the window has room for a segment
          (for less a sender may wait: RFC 9293, 3.8.6.2.1) and yet the next data takes longer than
          a timeout, that data had been sent and lost. This is told only of senders that use PSH.
skipped   A retransmission went past what had to be retransmitted first (see `recovery`), and that came later.
timeout   ACKs called for a retransmission at once (see `recovery`), but it came only after a timeout.
ip_id     IP IDs that count the connection's packets alone lack one (see `id_gaps`): that tells of
          all losses but those that nothing followed, of copies that nobody missed, too.

A timeout is no shorter than a round trip on both sides and `slack_us`; tail and timeout are told
where the RTT on the Internet side is known: the least of the connection's (see `sender.server`).

What was overtaken was not lost, and is no retransmission. Who counts by IP IDs sent it before what overtook
it if its ID is lower; else, if its timestamp is older, or if it comes sooner than the server can
know of a loss, within a round trip on both sides. Where the one on the Internet side is not known, it is
undecided what of both happened until a long one has passed.

What the mobile acknowledged though Gi never saw it is a drop of the capture; so may be what was
skipped and then acknowledged, and a hole still open. Of copies that leave no trace where IDs do not
count, `expected` knows the share.
"""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import compiled, inner, making
from spark_jobs.estimators import ip_ids
from spark_jobs.estimators.loss import id_gaps, missing, recovery
from spark_jobs.estimators.loss.found import (
    HOLE,
    LOSS,
    NOTHING,
    SKIPPED,
    TAIL,
    TIMEOUT,
    UNDECIDED,
    Found,
    Shown,
    lose,
    with_room,
)
from spark_jobs.estimators.loss.missing import MISSING, MOST_HOLES
from spark_jobs.estimators.options import MAX_WINDOW_SHIFT
from spark_jobs.estimators.records import NO_SCALE
from spark_jobs.estimators.sequence import NONE, sequence_length, unwrap
from spark_jobs.estimators.tcp import FIN, PSH, SYN

ROOM = 2 * MOST_HOLES + 2
"""More losses than one packet or a connection's end tells of."""

UNKNOWN_US = 300_000
"""A RTT on the Internet side that is not known is taken to be shorter: that of another continent."""

STREAM = np.dtype(
    [
        ("highest", "i8"),
        ("largest", "i8"),
        ("all_acked", "i8"),
        ("last_window", "i8"),
        ("unseen", "i8"),
        ("sent", "i8"),
        ("copies", "i8"),
        ("data", "i8"),
        ("latest_id", "i8"),
        ("far_id", "i8"),
        ("last", "i8"),
        ("counts", "?"),
        ("alone", "?"),
        ("pushes", "?"),
        ("pending", "?"),
        ("opened", "?"),
        ("scale", "i8"),
        ("roomy", "?"),
        ("missing", "?"),
    ]
)
"""A connection's downlink stream.

highest, data       the highest number sent, and where data ends
largest             its largest segment (B)
all_acked           when the mobile last said that it has all (µs)
last_window         the mobile's
unseen              bytes acknowledged but never seen
sent, copies        data packets seen, and those of them that were retransmitted
latest_id, far_id   the latest IP ID, counted on past 65535, and one that was too far from it
last                the last packet
counts, alone       IP IDs tell the order of sending, and count this connection's packets alone
pushes              the sender uses PSH
pending             more is in the server's buffer
opened, roomy       the mobile's window is open, and for a whole segment
scale               of that window (RFC 7323)
missing             something is
"""


class InternetLosses(NamedTuple):
    """What Gi never saw of C connections."""

    losses: np.ndarray
    """LOSS[L], by connection."""
    unseen: np.ndarray
    """int64[C]: bytes acknowledged but never seen."""
    sent: np.ndarray
    """int64[C]: data packets seen,"""
    copies: np.ndarray
    """int64[C]: and how many of these were retransmitted."""
    counted: np.ndarray
    """bool[C]: whether IP IDs told of all losses."""


class Monitor(NamedTuple):
    """What Gi knows of a connection as it goes on."""

    stream: np.ndarray
    """STREAM[1]"""
    sender: np.ndarray
    """SENDER[1]"""
    holes: np.ndarray
    """MISSING[1]: in the sequence space."""
    skipped: np.ndarray
    """MISSING[1]: what retransmissions went past."""
    reported: np.ndarray
    """REPORTED[1]"""
    gaps: id_gaps.Gaps


class Sent(NamedTuple):
    """A downlink segment."""

    segment: int
    at: np.int64
    """When Gi saw it (µs)."""
    start: np.int64
    end: np.int64
    """Its range of the stream,"""
    data_end: np.int64
    """and where its data ends."""
    stamp: np.int64
    """Its timestamp, or NONE."""
    ip_id: np.int64
    """Its IP ID, or NONE where these do not tell the order of sending."""
    pushed: bool
    """Nothing more was in the server's buffer."""


class Delays(NamedTuple):
    """A connection's times (µs)."""

    base: float
    """The user's least RTT on the access side,"""
    internet: float
    """and the connection's before it; 0: unknown."""
    slack: int
    """By so much a timeout exceeds a round trip on both sides at least."""


@compiled
def internet_losses(segments, connections, base_us, servers, slack_us=100_000):
    """InternetLosses of Segments and their Connections.

    base_us float64[C]: the user's least RTT on the access side (µs); servers: SERVER[C]; slack_us:
    see Delays.
    """
    first = connections.first
    most = np.int64(0)
    for c in range(len(first) - 1):
        most = max(most, first[c + 1] - first[c])
    found = Found(np.empty(1024, LOSS), np.zeros(1, np.int64))
    count = len(connections.user)
    unseen, copies = np.zeros(count, np.int64), np.zeros(count, np.int64)
    sent = np.zeros(count, np.int64)
    counted = np.zeros(count, np.bool_)
    monitor = Monitor(
        np.empty(1, STREAM),
        np.empty(1, recovery.SENDER),
        np.empty(1, MISSING),
        np.empty(1, MISSING),
        np.empty(1, recovery.REPORTED),
        id_gaps.Gaps(np.empty(most + 1, id_gaps.GAP), np.zeros(1, np.int64)),
    )
    stream = monitor.stream[0]
    for c in range(len(connections.user)):
        i, end = first[c], first[c + 1]
        internet_us = 0.0 if np.isnan(servers[c].round_trip) else servers[c].round_trip
        delays = Delays(base_us[c], internet_us, slack_us)
        begun = found.n[0]
        _begin(monitor, connections.sack[c], base_us[c])
        stream.pushes, stream.scale = _pushes(i, end, segments), _scale(i, end, segments)
        stream.counts, stream.alone = servers[c].counts, servers[c].alone
        while i < end:
            i = _go_through(i, end, segments, monitor, delays, found)
            if found.n[0] + ROOM > len(found.losses):
                found = with_room(found)
        _leave_open(monitor, segments.ts[end - 1], delays, found)
        for k in range(begun, found.n[0]):
            loss = found.losses[k]
            loss.packets = -(-loss.length // stream.largest)
        counted[c] = stream.alone
        if stream.alone and (monitor.gaps.n[0] or found.n[0] > begun):
            found, counted[c] = _count(monitor, begun, (first[c], end), segments, delays, found)
        found.losses["connection"][begun : found.n[0]] = c
        unseen[c], sent[c], copies[c] = stream.unseen, stream.sent, stream.copies
    return InternetLosses(found.losses[: found.n[0]].copy(), unseen, sent, copies, counted)


@inner
def _go_through(i, end, segments, monitor, delays, found):
    """Segments from i on, as far as there is room for what is found of them; returns the next."""
    stream, sender = monitor.stream[0], monitor.sender[0]
    number, downlink, sack_count = segments.number, segments.downlink, segments.sack_count
    while i < end and found.n[0] + ROOM <= len(found.losses):
        if number[i] == NONE and not (downlink[i] and segments.probe[i]):
            i += 1
            continue
        if downlink[i]:
            sent = _sent(i, segments, stream.counts)
            if stream.alone and sent.ip_id != NONE:
                if sent.ip_id == (stream.latest_id + 1) & 0xFFFF:
                    stream.latest_id += 1
                else:
                    id_gaps.note(monitor.gaps, stream, sent, sender.acked)
                stream.last = i
            if number[i] == NONE:  # a probe: it has an ID, but brings no data
                i += 1
                continue
            if stream.highest != NONE and _is_amiss(stream, sent, delays):
                _find(monitor, sent, delays, found)
            _see(stream, sender, sent)
        elif stream.highest != NONE:
            ack = _ack(i, segments)
            repeats = ack.number == sender.acked and ack.number < stream.highest
            _hear(stream, sender, ack, delays.base)
            if repeats or stream.missing or sack_count[i]:
                edges = segments.sack_at[i]
                blocks = segments.sack_edges[edges : edges + sack_count[i]]
                _hear_more(monitor, ack, blocks, repeats)
            stream.last_window = ack.window
        i += 1
    return i


@making
def _count(monitor, begun, span, segments, delays, found):
    """Found with what the IP IDs tell, and whether they count this connection alone; begun: where
    its losses begin; span: its segments."""
    stream, gaps = monitor.stream[0], monitor.gaps
    sender = id_gaps.Sender(
        monitor.sender[0].sack, stream.largest, delays.internet, delays.base, delays.slack
    )
    if id_gaps.explain(gaps, found, begun):
        id_gaps.refuse(found, begun)
    if not id_gaps.judge(gaps, stream.sent, span, segments, sender):
        return found, False
    for k in range(gaps.n[0]):
        gap = gaps.rows[k]
        if gap.copies:
            while found.n[0] + gap.copies > len(found.losses):
                found = with_room(found)
            id_gaps.emit(gap, found, segments, sender)
    return found, True


@inner
def _begin(monitor, sack, base_us):
    """A connection of which nothing was seen."""
    stream = monitor.stream[0]
    stream.highest = stream.data = stream.all_acked = NONE
    stream.latest_id, stream.far_id, stream.last = -1, -1, -1
    stream.largest, stream.last_window = 1, -1
    stream.unseen = stream.sent = stream.copies = 0
    stream.pending = stream.opened = stream.roomy = stream.missing = False
    monitor.holes[0].n = monitor.skipped[0].n = monitor.reported[0].n = monitor.gaps.n[0] = 0
    recovery.begin(monitor.sender[0], sack, np.int64(base_us))


@inner
def _pushes(start, end, segments):
    for i in range(start, end):
        if segments.downlink[i] and segments.tcp_flags[i] & PSH:
            return True
    return False


@inner
def _scale(start, end, segments):
    """The mobile's window scale, by the SYNs that a connection begins with."""
    up = down = np.int64(NO_SCALE)
    i = start
    while i < end and segments.tcp_flags[i] & SYN:
        if segments.downlink[i]:
            down = np.int64(segments.window_scale[i])
        else:
            up = np.int64(segments.window_scale[i])
        i += 1
    return min(up, MAX_WINDOW_SHIFT) if up > NO_SCALE and down > NO_SCALE else np.int64(0)


@inner
def _ack(i, segments):
    """Uplink segment i."""
    echoed = np.int64(segments.ts_ecr[i]) if segments.has_timestamps[i] else NONE
    is_pure = segments.payload_len[i] == 0 and segments.tcp_flags[i] & (SYN | FIN) == 0
    window = np.int64(segments.window[i])
    return recovery.Ack(segments.number[i], segments.ts[i], echoed, window, is_pure)


@inner
def _hear(stream, sender, ack, base_us):
    """The mobile acknowledges; base_us: see Delays."""
    stream.opened = ack.window > 0
    stream.roomy = ack.window << stream.scale >= stream.largest
    if ack.number >= stream.highest:
        stream.all_acked = ack.at
    if ack.number > stream.highest:
        stream.unseen += ack.number - stream.highest
        stream.highest = ack.number
    if ack.number > sender.acked:
        recovery.acknowledge(sender, ack, base_us, stream.highest)


@inner
def _hear_more(monitor, ack, blocks, repeats):
    """What an ACK tells of what is missing; repeats: its number was acknowledged before, and more
    had been sent."""
    stream, sender = monitor.stream[0], monitor.sender[0]
    if stream.missing:
        stream.unseen += missing.acknowledge(monitor.holes[0], ack.number)
        missing.acknowledge(monitor.skipped[0], ack.number)
    if repeats and stream.opened:
        same_window = ack.window == stream.last_window
        in_flight = -(-(stream.highest - ack.number) // stream.largest)
        recovery.acknowledge_again(sender, ack, same_window, blocks, in_flight)
    for k in range(0, len(blocks) - 1, 2):
        low, high = unwrap(blocks[k], ack.number), unwrap(blocks[k + 1], ack.number)
        if sender.acked < low < high <= stream.highest:
            recovery.report(monitor.reported[0], low, high, sender)
            missing.report(monitor.skipped[0], low, high)
    stream.missing = monitor.holes[0].n + monitor.skipped[0].n > 0


@inner
def _sent(i, segments, counts):
    """Downlink segment i; counts: of a STREAM."""
    start, payload_len = segments.number[i], segments.payload_len[i]
    return Sent(
        i,
        segments.ts[i],
        start,
        start + sequence_length(segments.tcp_flags[i], payload_len),
        start + np.int64(payload_len),
        np.int64(segments.ts_val[i]) if segments.has_timestamps[i] else NONE,
        np.int64(segments.ip_id[i]) if counts and not segments.tcp_flags[i] & SYN else NONE,
        segments.tcp_flags[i] & (PSH | FIN) != 0,
    )


@inner
def _see(stream, sender, sent):
    """The server sends."""
    stream.largest = max(stream.largest, sent.data_end - sent.start)
    stream.sent += sent.data_end > sent.start
    if sent.end > max(sent.start, stream.highest):
        stream.pending = stream.pushes and sent.data_end > sent.start and not sent.pushed
        stream.all_acked = NONE
        stream.data = max(stream.data, sent.data_end)
    if sent.end > sent.start >= stream.highest:
        recovery.send(sender, sent.end, sent.at)
    stream.highest = max(stream.highest, sent.end)


@inner
def _is_amiss(stream, sent, delays):
    """Whether a segment is not the next, or comes late."""
    return sent.start != stream.highest or _is_tail(stream, sent, delays)


@inner
def _is_tail(stream, sent, delays):
    """Whether what was pending comes so late that it had been sent before."""
    if not stream.pending or not stream.roomy or stream.all_acked == NONE:
        return False
    if sent.data_end == sent.start or delays.internet <= 0:
        return False
    return sent.at - stream.all_acked > delays.base + delays.internet + delays.slack


@inner
def _find(monitor, sent, delays, found):
    """What a segment tells of losses that is amiss."""
    stream = monitor.stream[0]
    if sent.start == stream.highest:
        at = np.int64(sent.segment)
        by = Shown(stream.all_acked, at, sent.start, at)
        lose(found, sent.start, sent.data_end, by, TAIL, 1.0)
    elif sent.start > stream.highest:
        missing.miss(monitor.holes[0], stream.highest, sent.start, sent)
    elif sent.end > sent.start:
        _see_again(monitor, sent, delays, found)
    stream.missing = monitor.holes[0].n + monitor.skipped[0].n > 0


@inner
def _see_again(monitor, sent, delays, found):
    """The server sends what lies below the highest number: a hole's filling, or a retransmission."""
    stream, sender = monitor.stream[0], monitor.sender[0]
    overtaken = again = False
    if stream.missing:
        overtaken, _ = _fill(monitor.holes[0], sent, delays, HOLE, found)
        _, again = _fill(monitor.skipped[0], sent, delays, SKIPPED, found)
    if overtaken or sent.data_end == sent.start:
        return
    stream.copies += 1
    if sent.end <= sender.acked:
        return
    by_timer = delays.internet > 0 and sent.start == sender.acked and stream.opened
    by_timer &= recovery.is_by_timer(sender, sent.at, delays.internet, delays.slack)
    if by_timer and sender.called != NONE and not again:
        at = np.int64(sent.segment)
        by = Shown(sender.called, at, sent.start, at)
        lose(found, sent.start, sent.data_end, by, TIMEOUT, 1.0)
    low = max(sender.reach, sender.acked)
    if low < sent.start and sender.acked != NONE:
        if not recovery.is_probe(sender, sent.start, sent.end, stream.highest):
            _skip(monitor, low, sent)
    anew = not sender.sack and sent.start <= sender.acked and not again
    recovery.retransmission(sender, sent, stream.highest, by_timer, anew)


@inner
def _leave_open(monitor, last_ts, delays, found):
    """What is still missing at the connection's end was lost."""
    stream, acked, holes = monitor.stream[0], monitor.sender[0].acked, monitor.holes[0]
    if not holes.n:
        return
    in_flight = stream.highest - acked if acked != NONE else 0
    if stream.alone:
        missing.keep_open(holes, last_ts - delays.slack, 4 * in_flight)
    else:
        missing.keep_open(holes, last_ts - (delays.base + delays.internet), in_flight)
    for k in range(holes.n):
        by = Shown(holes.seen[k], holes.shown[k], holes.begin[k], NOTHING)
        lose(found, holes.low[k], holes.high[k], by, HOLE, 1.0)


@inner
def _fill(gaps, sent, delays, evidence, found):
    """Take away what a segment carries from a MISSING; what was late had been lost. Returns whether
    any was overtaken, and whether the segment carries any."""
    k = 0
    overtaken = touched = False
    while k < gaps.n:
        low, high = max(sent.start, gaps.low[k]), min(sent.end, gaps.high[k])
        if low >= high:
            k += 1
            continue
        touched = True
        late = _is_late(gaps, k, sent, delays)
        overtaken |= late == 0
        if late > 0 and low < sent.data_end:
            by = Shown(gaps.seen[k], gaps.shown[k], gaps.begin[k], np.int64(sent.segment))
            of = evidence if late == 1 else UNDECIDED
            lose(found, low, min(high, sent.data_end), by, of, late)
        if missing.cut(gaps, k, low, high):
            k += 1
    return overtaken, touched


@inner
def _is_late(gaps, k, sent, delays):
    """The probability that what fills range k of a MISSING had been lost, not overtaken by what
    showed that it was missing."""
    if sent.ip_id != NONE and gaps.ip_id[k] != NONE:
        ahead = ip_ids.ahead(sent.ip_id, gaps.ip_id[k])
        if ahead != 0:
            return 1.0 if ahead > 0 else 0.0
    waited = sent.at - gaps.seen[k]
    if sent.stamp != NONE and gaps.ts_val[k] != NONE:
        age = np.int32(np.uint32(sent.stamp) - np.uint32(gaps.ts_val[k]))
        if age != 0:
            return 1.0 if age > 0 else 0.0
    if waited < delays.base + delays.internet:
        return 0.0
    if delays.internet == 0 and waited < delays.base + UNKNOWN_US:
        return 0.5
    return 1.0


@inner
def _skip(monitor, low, sent):
    """A retransmission goes past what lies from `low` up to it: what of that the mobile has not reported
    was skipped."""
    sender, reported, skipped = monitor.sender[0], monitor.reported[0], monitor.skipped[0]
    low = max(low, sender.blind)
    if sender.sack:
        for k in range(recovery.first_reaching(reported, low), reported.n):
            if reported.low[k] >= sent.start:
                break
            if low < reported.low[k]:
                missing.miss(skipped, low, reported.low[k], sent)
            low = max(low, reported.high[k])
    if low < sent.start:
        missing.miss(skipped, low, sent.start, sent)
