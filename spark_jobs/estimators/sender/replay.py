"""A connection's server, packet by packet."""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators import ip_ids
from spark_jobs.estimators.options import MAX_WINDOW_SHIFT
from spark_jobs.estimators.records import NO_SCALE
from spark_jobs.estimators.sender import (
    flight,
    handshake,
    hearing,
    limits,
    samples,
    sending,
    server,
    stalls,
    state,
    timer,
    window,
)
from spark_jobs.estimators.sequence import NONE, sequence_length
from spark_jobs.estimators.tcp import ACK, FIN, RST, SYN

STEP = 1 / 32
"""A timeout is written down when it has changed by this share."""

TRANSFER = np.dtype(
    [
        ("known", "?"),
        ("retransmissions", "i8"),
        ("rto_expiries", "i8"),
        ("busy", "f8"),
        ("rwnd_limited", "f8"),
        ("limited", "f8", (len(limits.LIMITS),)),
        ("rtt_samples", samples.QUANTILES, (2,)),
    ]
)
"""What a server did: known: that much is known of it; packets retransmitted, SYN ACKs and FINs among
them, whether Gi saw them or not; how often the timer went off; how long it had data to send or not
acknowledged, and for how long of that the mobile's window held it back (s); what limited the
transfer for how long (s, see `limits`); round trips by side (see `samples`)."""

RTO = np.dtype(
    [("connection", "i8"), ("ts", "i8"), ("rto", "f8"), ("kind", "i1"), ("backed_off", "?")]
)
"""A connection's timeout (s) from a time on (µs, the server's clock), whose timer it is (into
timer.TIMER_RULES), and whether it is longer because the timer went off."""

MOMENT = np.dtype(
    [
        ("at", "i8"),
        ("shared_until", "i8"),
        ("limited", "f8", (len(limits.LIMITS),)),
        ("cwnd", "f8"),
    ]
)
"""A server as a packet left it: when that was (µs, the server's clock; LONG_AGO before the first);
until when the time is shared out, and what each limit has of it (µs, see `limits`); the congestion
window (B, see `window`)."""


class Sending(NamedTuple):
    """Of N segments and C connections."""

    cause: np.ndarray
    """uint8[N]: why each was retransmitted, into sending.CAUSES."""
    spurious: np.ndarray
    """uint8[N]: of the first that a timeout retransmitted, what tells that it came too soon: bits of
    hearing.BY_FRTO, BY_EIFEL, BY_DSACK."""
    transfers: np.ndarray
    """TRANSFER[C]"""
    rto_values: np.ndarray
    """RTO[T], by connection and time."""
    samples: np.ndarray
    """SAMPLE[R], by connection and time."""
    stalls: np.ndarray
    """STALL[S], by connection and time."""
    moments: np.ndarray
    """MOMENT[P], by connection and packet, where asked for."""


class Desk(NamedTuple):
    """Where a connection is worked on."""

    sender: np.ndarray
    """SENDER[1]"""
    opening: np.ndarray
    """OPENING[1]"""
    sent: np.ndarray
    """SENT[..]"""
    edges: np.ndarray
    """EDGE[..]"""
    histograms: np.ndarray
    """int64[2, samples.BINS]"""
    written: np.ndarray
    """int64[4]: how many of Sending.rto_values, samples, stalls and moments are written."""


@compiled
def replay(segments, connections, servers, base_us, rules, watched):
    """Sending of Segments and their Connections.

    servers: SERVER[C]; base_us float64[C]: the user's least RTT on the access side (µs); rules: see
    state.Rules; watched: whether each moment is told, too. A connection whose round trip on the Internet side is not known is left out.
    """
    first = connections.first
    count = len(first) - 1
    n = len(segments.ts)
    most = np.int64(0)
    for c in range(count):
        most = max(most, first[c + 1] - first[c])
    out = Sending(
        np.zeros(n, np.uint8),
        np.zeros(n, np.uint8),
        np.zeros(count, TRANSFER),
        np.empty(n + count, RTO),
        np.empty(n + count, samples.SAMPLE),
        np.empty(n, stalls.STALL),
        np.empty((n + 2 * count) * watched, MOMENT),
    )
    desk = Desk(
        np.empty(1, state.SENDER),
        np.empty(1, handshake.OPENING),
        np.empty(3 * most + 3, flight.SENT),
        np.empty(most + 1, window.EDGE),
        np.zeros((2, samples.BINS), np.int64),
        np.zeros(4, np.int64),
    )
    desk.sender[0].lowest_bin[:], desk.sender[0].highest_bin[:] = 0, -1
    for c in range(count):
        if np.isnan(servers[c].round_trip):
            continue
        begun = desk.written.copy()
        place = state.Place(
            server.clock_of(servers[c].round_trip),
            rules,
            np.int64(base_us[c]),
            connections.sack[c],
            servers[c].counts,
            servers[c].alone,
        )
        _replay_as_it_fits((first[c], first[c + 1]), segments, desk, place, out)
        out.rto_values["connection"][begun[0] : desk.written[0]] = c
        out.samples["connection"][begun[1] : desk.written[1]] = c
        out.stalls["connection"][begun[2] : desk.written[2]] = c
        _sum_up(desk, out.transfers[c])
    return Sending(
        out.cause,
        out.spurious,
        out.transfers,
        out.rto_values[: desk.written[0]].copy(),
        out.samples[: desk.written[1]].copy(),
        out.stalls[: desk.written[2]].copy(),
        out.moments[: desk.written[3]].copy(),
    )


@inner
def _replay_as_it_fits(span, segments, desk, place, out):
    """Replays a connection, segments [begin, end), into Sending: with Linux's timer, as most
    servers have it, and again with another if it strays and that fits better."""
    s = desk.sender[0]
    rto_values, rows, silences = desk.written[0], desk.written[1], desk.written[2]
    moments = desk.written[3]
    _replay(span, segments, desk, place, out, timer.LINUX)
    strayed = timer.strays(s)
    if strayed > timer.STRAYS:
        for kind in (timer.RFC6298, timer.LINUX):
            desk.written[0], desk.written[1], desk.written[2] = rto_values, rows, silences
            desk.written[3] = moments
            _replay(span, segments, desk, place, out, kind)
            if timer.strays(s) < strayed and s.went_off > 0:
                break


@inner
def _replay(span, segments, desk, place, out, kind):
    """Replays a connection, segments [begin, end), on its Desk and into Sending; kind: whose timer
    it has.

    The arrays are taken out of their tuples here, once: for each packet anew, that would cost more
    than all the rest.
    """
    (begin, end), clock, s, o = span, place.clock, desk.sender[0], desk.opening[0]
    sent, edges, sack_edges = desk.sent, desk.edges, segments.sack_edges
    ts, number, downlink = segments.ts, segments.number, segments.downlink
    flags, payload_len = segments.tcp_flags, segments.payload_len
    cause, spurious, rto_values, rows = out.cause, out.spurious, out.rto_values, out.samples
    histograms, written, silences = desk.histograms, desk.written, out.stalls
    moments, now = out.moments, state.LONG_AGO
    unrepaired = written[2]
    state.begin(s, place, kind)
    window.begin(s)
    samples.begin(s, histograms)
    limits.begin(s)
    handshake.begin(o, NO_SCALE)
    cause[begin:end], spurious[begin:end] = 0, 0
    down = up = passed = begin
    acked = NONE
    while True:
        if len(moments) > 0:
            _tell_moment(s, moments, written, now)
        while down < end and not downlink[down]:
            down += 1
        while up < end and downlink[up]:
            up += 1
        if down == end and up == end:
            break
        hears = down == end
        if up < down < end:  # what Gi sees later, the server hears later than it sent
            hears = ts[up] + clock.half - clock.slack <= ts[down] - clock.half
            if hears and number[up] > s.acked and not _is_calm(s, ts[up] + clock.half):
                hears = not _retransmissions_first(down, up, end, segments, s, clock)
        i = up if hears else down
        timeouts = s.rto_expiries
        now = ts[i] + clock.half if hears else ts[i] - clock.half
        up, down = up + hears, down + (not hears)
        if flags[i] & (SYN | RST):
            cause[i] = _open_or_close(i, now, segments, s, o, place)
            if flags[i] & RST or downlink[i] or not flags[i] & ACK:
                continue
        if number[i] == NONE:
            continue
        stamped = segments.has_timestamps[i]
        stalled = stalls.is_stall(s, now)
        silent = stalled or stalls.is_brief(s, now)
        if silent:
            stalls.note(s, silences[written[2]], i, now)
            silences[written[2]].brief = not stalled
        if hears:
            if silent:
                silences[written[2]].kind = stalls.class_of_heard(s)
            if s.highest == NONE or (o.sent > 0 and not o.done):
                _be_open(i, begin, segments, s, o, place)
            if number[i] < s.acked:
                s.last_at = now
                continue
            ack = hearing.Ack(
                now,
                number[i],
                np.int64(segments.window[i]) << s.scale,
                np.int64(segments.ts_ecr[i]) if s.stamps and stamped else NONE,
                payload_len[i] > 0 or flags[i] & (SYN | FIN) != 0,
                segments.sack_at[i],
                np.int64(segments.sack_count[i]),
            )
            verdict = hearing.hear(s, sent, edges, ack, sack_edges, place)
            if verdict and s.first_retransmission != NONE:
                spurious[s.first_retransmission] |= verdict
        else:
            if s.highest == NONE or (o.sent == 0 and number[i] > s.highest):
                s.highest = s.acked = number[i]
            passed = max(passed, up)  # what lies before has been heard
            while passed < i:
                acked = acked if downlink[passed] else max(acked, number[passed])
                passed += 1
            segment = flight.Segment(
                now,
                number[i],
                number[i] + sequence_length(flags[i], payload_len[i]),
                np.int64(segments.ts_val[i]) if stamped else NONE,
                np.int64(payload_len[i]),
                np.int64(segments.ip_id[i]),
                np.int64(i),
                max(acked, s.acked),
            )
            if silent:
                silences[written[2]].kind = stalls.class_of_sent(s, sent, segment.low)
            cause[i] = sending.send(s, sent, edges, segment, place)
            if silent:
                silences[written[2]].by_timeout = cause[i] == sending.BY_TIMEOUT
        written[2] += silent
        if unrepaired < written[2]:
            unrepaired = stalls.recover(s, silences, unrepaired, written[2], now)
        s.last_at = now
        if s.sample != NONE:
            samples.count(s, histograms)
            if samples.is_kept(s, ts[i]):
                seen = rows[written[1]]
                seen.ts, seen.rtt, seen.flight = ts[i], s.sample, s.sample_flight
                seen.side, seen.delayed = s.sample_side, s.sample_delayed
                written[1] += 1
            s.sample = NONE
        if abs(s.rto - s.told_rto) > STEP * s.told_rto:
            row = rto_values[written[0]]
            row.ts, row.rto, row.kind = now, s.rto / 1e6, kind
            row.backed_off = s.rto_expiries > timeouts
            s.told_rto = s.rto
            written[0] += 1
    _end(s, ts[end - 1])
    if len(moments) > 0:
        _tell_moment(s, moments, written, ts[end - 1])


@inner
def _tell_moment(s, moments, written, now):
    """What the sender is like now, as a MOMENT."""
    moment = moments[written[3]]
    moment.at, moment.shared_until, moment.cwnd = now, s.shared_until, s.cwnd * s.largest
    for k in range(len(limits.LIMITS)):
        moment.limited[k] = s.limited[k]
    written[3] += 1


@inner
def _end(s, now):
    """The connection ends, with data in flight or not."""
    if s.busy_since != NONE:
        limits.share(s, limits.limit_of(s), now)
    state.close(s, now)


@inner
def _sum_up(desk, transfer):
    """What a connection's server did, as a TRANSFER."""
    s, o = desk.sender[0], desk.opening[0]
    transfer.known = True
    transfer.rto_expiries = s.rto_expiries + o.rto_expiries
    transfer.retransmissions = s.retransmissions + max(o.sent - 1, 0)
    transfer.busy, transfer.rwnd_limited = s.busy / 1e6, s.rwnd_limited / 1e6
    for k in range(len(limits.LIMITS)):
        transfer.limited[k] = s.limited[k] / 1e6
    for side in range(2):
        samples.quantiles(s, desk.histograms, side, transfer.rtt_samples[side])


@inner
def _is_calm(s, heard):
    """Whether the sender has no reason to send anything again when it hears an ACK."""
    if s.head == s.tail:
        return True
    if s.state != state.OPEN or s.duplicates > 0 or s.sacked > 0:
        return False
    return s.timer == timer.NO_TIMER or heard <= s.due - s.rto / 4


@inner
def _retransmissions_first(down, up, end, segments, s, clock):
    """Whether the server retransmits what uplink segment `up` acknowledges, before it hears so: a
    segment from `down` on that comes no later than an answer to what it heard before."""
    latest = segments.ts[up] + clock.round_trip + clock.half + clock.jitter
    acknowledged = min(segments.number[up], s.highest)
    i = down
    while i < end and segments.ts[i] <= latest:
        if segments.downlink[i] and segments.number[i] != NONE:
            low = segments.number[i]
            high = low + sequence_length(segments.tcp_flags[i], segments.payload_len[i])
            if low < high and s.acked < high and high <= acknowledged:
                if not s.counts or ip_ids.ahead(segments.ip_id[i], s.latest_id) >= 0:
                    return True
        i += 1
    return False


@inner
def _open_or_close(i, now, segments, s, o, place):
    """Segment i is a SYN, a SYN ACK or a reset. Returns why it was sent, into CAUSES."""
    flags = segments.tcp_flags[i]
    if flags & RST:
        _end(s, now)
        return sending.NOT_AGAIN
    if not segments.downlink[i]:
        o.up_scale = segments.window_scale[i]
        if not flags & ACK:
            s.offered = np.int64(segments.window[i])
            handshake.ask(o, now, place.clock)
        return sending.NOT_AGAIN
    o.down_scale = segments.window_scale[i]
    s.stamps = segments.has_timestamps[i]
    s.highest = s.acked = segments.number[i] + 1
    if flags & ACK:
        again = handshake.answer(o, now, place.clock, place.rules)
        return sending.SYNACK if again else sending.NOT_AGAIN
    return sending.BY_TIMEOUT if handshake.call(o, now) else sending.NOT_AGAIN


@inner
def _be_open(i, begin, segments, s, o, place):
    """Uplink segment i is the first that acknowledges anything."""
    if s.highest == NONE:
        s.highest = s.acked = segments.number[i]
    if o.sent == 0:
        return
    o.done = True
    limits.start(s, segments.ts[i] + place.clock.half)
    if o.up_scale > NO_SCALE and o.down_scale > NO_SCALE:
        s.scale = min(np.int64(o.up_scale), MAX_WINDOW_SHIFT)
    sent_at = o.first + place.clock.half
    if o.sent > 1:
        sent_at = _stamped_at(i, begin, segments)
    if sent_at != NONE:
        round_trip = segments.ts[i] - sent_at + place.clock.round_trip
        timer.measure(s, float(round_trip), place.rules)
        return
    timer.no_sample(s)
    if o.sent > 2 and o.rto_expiries > 0:
        s.cwnd = 1.0  # RFC 5681, 3.1


@inner
def _stamped_at(i, begin, segments):
    """When Gi saw the first segment with the timestamp that uplink segment i echoes, or NONE."""
    if segments.has_timestamps[i]:
        for k in range(begin, i):
            if segments.downlink[k] and segments.has_timestamps[k]:
                if segments.ts_val[k] == segments.ts_ecr[i]:
                    return segments.ts[k]
    return NONE
