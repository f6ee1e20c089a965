"""Simulation of a server's TCP over the packets that Gi saw.

For each packet, the replay updates the state of the server by the rules of the Linux kernel or, for
other servers, of RFC 6298. It infers
the cause of each retransmission, the RTO, the congestion window, and what limits the transfer.
A time
in the server's clock is an estimate of when the server sent or received a packet. For a packet that
it sent, it is the time at Gi minus half of the RTT on the Internet side; for a packet that it
received, plus half.
"""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators import ip_ids
from spark_jobs.estimators.options import MAX_WINDOW_SHIFT
from spark_jobs.estimators.records import NO_SCALE
from spark_jobs.estimators.sender import (
    acks,
    handshake,
    limits,
    rtt_sampling,
    scoreboard,
    server,
    stall_classes,
    state,
    timer,
    transmissions,
    window,
)
from spark_jobs.estimators.sequence import NONE, sequence_length
from spark_jobs.estimators.tcp import ACK, FIN, RST, SYN

MIN_RTO_CHANGE = 1 / 32
"""Smallest relative change of the RTO that is recorded."""

MAX_WORK = 1000
"""Maximum number of segments looked at again for each one; beyond it nothing is known."""

TRANSFER = np.dtype(
    [
        ("known", "?"),
        ("retransmissions", "i8"),
        ("rto_expiries", "i8"),
        ("busy", "f8"),
        ("rwnd_limited", "f8"),
        ("limited", "f8", (len(limits.LIMITS),)),
        ("limited_by_marks", "f8"),
        ("rtt_quantiles", rtt_sampling.QUANTILES, (2,)),
    ]
)
"""Behaviour of a connection's server.

known: whether the other fields are known
retransmissions: number of retransmitted packets, including SYN ACKs and FINs, and including packets
    that Gi did not see but that gaps in the IP IDs show
rto_expiries: number of RTO expiries
busy: time in which the server had data to send or in flight (s)
rwnd_limited: part of `busy` in which the mobile's window held the server back (s), as the Linux
    kernel counts it (tcpi_rwnd_limited)
limited: time in which each limit held the transfer back (s; see `limits`)
limited_by_marks: part of it in which the limit was a window that marks had reduced (s)
rtt_quantiles: QUANTILES of the RTT by side (see `rtt_sampling`)
"""

RTO = np.dtype(
    [("connection", "i8"), ("ts", "i8"), ("rto", "f8"), ("rule", "i1"), ("backed_off", "?")]
)
"""RTO of a connection.

connection: index of the connection
ts: the time from which on it applies (µs, the server's clock)
rto: RTO (s)
rule: index into timer.TIMER_RULES
backed_off: true if it is longer because of an RTO expiry
"""

MOMENT = np.dtype(
    [
        ("time", "i8"),
        ("attributed_until", "i8"),
        ("limited", "f8", (len(limits.LIMITS),)),
        ("cwnd", "f8"),
    ]
)
"""State of a server after a packet.

time: when the server received or sent it (µs, the server's clock); NEVER: before the first packet
attributed_until: end of the time that is attributed to limits (µs)
limited: time attributed to each limit (µs; see `limits`)
cwnd: congestion window (B; see `window`)
"""


class ReplayResults(NamedTuple):
    """Results of a replay of N segments and C connections."""

    cause: np.ndarray
    """uint8[N]: the cause of each retransmission, an index into transmissions.CAUSES."""
    spurious: np.ndarray
    """uint8[N]: evidence that an RTO expiry was spurious.

    The evidence is stored at the index of the expiry's first retransmission. It consists of the
    bits acks.BY_FRTO, BY_EIFEL and BY_DSACK.
    """
    transfers: np.ndarray
    """TRANSFER[C]."""
    rto_values: np.ndarray
    """RTO[T]: T values, sorted by connection and time."""
    rtt_samples: np.ndarray
    """SAMPLE[R]: R samples, sorted by connection and time."""
    stalls: np.ndarray
    """STALL[S]: S stalls, sorted by connection and time."""
    moments: np.ndarray
    """MOMENT[P]: P moments, sorted by connection and packet; empty unless they were asked for."""


class Workspace(NamedTuple):
    """Arrays that the replay of a connection works in."""

    sender: np.ndarray
    """state.SENDER[1]: the state of the server."""
    setup: np.ndarray
    """handshake.SETUP[1]: the state of the set-up."""
    sent: np.ndarray
    """scoreboard.SENT[..]: the segments in flight."""
    edges: np.ndarray
    """window.EDGE[..]: the upper edges of the mobile's window."""
    histograms: np.ndarray
    """int64[2, rtt_sampling.BINS]: histograms of the RTT by side."""
    written: np.ndarray
    """int64[4]: number of rto_values, rtt_samples, stalls and moments written so far."""


@compiled
def replay(segments, connections, servers, base_us, rto_settings, with_moments):
    """Return ReplayResults of Segments and their Connections.

    servers: server.SERVER[C], what is known of each connection's server; base_us: float64[C], base
    RTT of each connection's user on the access side (µs); rto_settings: state.RtoSettings;
    with_moments: record MOMENTs, too. A connection is left out if its RTT on the Internet side is
    unknown.
    """
    first = connections.first
    count = len(first) - 1
    n = len(segments.ts)
    max_segments = np.int64(0)
    for c in range(count):
        max_segments = max(max_segments, first[c + 1] - first[c])
    out = ReplayResults(
        np.zeros(n, np.uint8),
        np.zeros(n, np.uint8),
        np.zeros(count, TRANSFER),
        np.empty(n + count, RTO),
        np.empty(n + count, rtt_sampling.SAMPLE),
        np.empty(n, stall_classes.STALL),
        np.empty((n + 2 * count) * with_moments, MOMENT),
    )
    workspace = Workspace(
        np.empty(1, state.SENDER),
        np.empty(1, handshake.SETUP),
        np.empty(3 * max_segments + 3, scoreboard.SENT),
        np.empty(max_segments + 1, window.EDGE),
        np.zeros((2, rtt_sampling.BINS), np.int64),
        np.zeros(4, np.int64),
    )
    workspace.sender[0].lowest_bin[:], workspace.sender[0].highest_bin[:] = 0, -1
    for c in range(count):
        if np.isnan(servers[c].internet_rtt):
            continue
        written_before = workspace.written.copy()
        context = state.ServerContext(
            server.clock_of(servers[c].internet_rtt),
            rto_settings,
            np.int64(base_us[c]),
            connections.sack[c],
            servers[c].ids_in_order,
            servers[c].ids_exclusive,
        )
        _replay_with_best_rule((first[c], first[c + 1]), segments, workspace, context, out)
        if workspace.sender[0].work > MAX_WORK * (first[c + 1] - first[c]):
            workspace.written[:] = written_before
            out.cause[first[c] : first[c + 1]] = out.spurious[first[c] : first[c + 1]] = 0
            continue
        out.rto_values["connection"][written_before[0] : workspace.written[0]] = c
        out.rtt_samples["connection"][written_before[1] : workspace.written[1]] = c
        out.stalls["connection"][written_before[2] : workspace.written[2]] = c
        _write_transfer(workspace, out.transfers[c])
    return ReplayResults(
        out.cause,
        out.spurious,
        out.transfers,
        out.rto_values[: workspace.written[0]].copy(),
        out.rtt_samples[: workspace.written[1]].copy(),
        out.stalls[: workspace.written[2]].copy(),
        out.moments[: workspace.written[3]].copy(),
    )


@inner
def _replay_with_best_rule(span, segments, workspace, context, out):
    """Replay a connection, segments [begin, end), into ReplayResults.

    The replay first assumes Linux's timer, which most servers have, or that of RFC 6298 if the
    network's minimum RTO is as high as this RFC asks. If RTO expiries differ too much from this
    rule, and the other rule fits better, it is repeated with that rule.
    """
    by_rfc = context.rto_settings.min_rto >= timer.RFC_MIN_RTO_US
    usual = np.int64(timer.RFC6298 if by_rfc else timer.LINUX)
    other = np.int64(timer.LINUX if by_rfc else timer.RFC6298)
    sender = workspace.sender[0]
    written = workspace.written
    rto_values, rtt_samples, stalls, moments = written[0], written[1], written[2], written[3]
    _replay_with_rule(span, segments, workspace, context, out, usual)
    usual_error = timer.mean_rto_error(sender)
    if usual_error > timer.MAX_RTO_ERROR:
        for timer_rule in (other, usual):
            written[0], written[1] = rto_values, rtt_samples
            written[2], written[3] = stalls, moments
            _replay_with_rule(span, segments, workspace, context, out, timer_rule)
            if timer.mean_rto_error(sender) < usual_error and sender.rto_error_count > 0:
                break


@inner
def _replay_with_rule(span, segments, workspace, context, out, timer_rule):
    """Replay a connection, segments [begin, end), into ReplayResults by one timer rule.

    The arrays are taken out of their tuples here, once. To do so for each packet would cost more
    than all the rest.
    """
    (begin, end), clock = span, context.clock
    sender, setup = workspace.sender[0], workspace.setup[0]
    sent, edges, sack_edges = workspace.sent, workspace.edges, segments.sack_edges
    ts, number, downlink = segments.ts, segments.number, segments.downlink
    flags, payload_len = segments.tcp_flags, segments.payload_len
    cause, spurious = out.cause, out.spurious
    rto_values, rtt_samples = out.rto_values, out.rtt_samples
    histograms, written, stalls = workspace.histograms, workspace.written, out.stalls
    moments, now = out.moments, state.NEVER
    first_unrecovered = written[2]
    state.initialize(sender, context, timer_rule)
    window.initialize(sender)
    rtt_sampling.initialize(sender, histograms)
    limits.initialize(sender)
    handshake.initialize(setup, NO_SCALE)
    cause[begin:end], spurious[begin:end] = 0, 0
    down = up = passed = begin
    acked_at_gi = NONE
    while True:
        if len(moments) > 0:
            _write_moment(sender, moments, written, now)
        while down < end and not downlink[down]:
            down += 1
        while up < end and downlink[up]:
            up += 1
        if (down == end and up == end) or sender.work > MAX_WORK * (end - begin):
            break
        is_ack = down == end
        if up < down < end:  # the ACK may reach the server after it sent the segment
            is_ack = ts[up] + clock.half - clock.slack <= ts[down] - clock.half
            if (
                is_ack
                and number[up] > sender.snd_una
                and not transmissions.has_nothing_to_retransmit(sender, ts[up] + clock.half)
            ):
                is_ack = not _retransmissions_first(down, up, end, segments, sender, clock)
        i = up if is_ack else down
        expiries_before = sender.rto_expiries
        now = ts[i] + clock.half if is_ack else ts[i] - clock.half
        up, down = up + is_ack, down + (not is_ack)
        if flags[i] & (SYN | RST):
            cause[i] = _replay_syn_or_rst(i, now, segments, sender, setup, context)
            if flags[i] & RST or downlink[i] or not flags[i] & ACK:
                continue
        if number[i] == NONE:
            if downlink[i]:  # a probe or keep-alive takes an IP ID, too
                transmissions.take_ip_id(sender, segments.ip_id[i])
            continue
        has_timestamps = segments.has_timestamps[i]
        is_stall = stall_classes.is_stall(sender, now)
        is_silence = is_stall or stall_classes.is_brief(sender, now)
        if is_silence:
            stall_classes.write_stall(sender, stalls[written[2]], i, now)
            stalls[written[2]].brief = not is_stall
        if is_ack:
            if is_silence:
                stalls[written[2]].stall_class = stall_classes.class_if_mobile_ends(sender)
            if sender.snd_nxt == NONE or (setup.sent > 0 and not setup.acked):
                _complete_setup(i, begin, segments, sender, setup, context)
            if number[i] < sender.snd_una:
                sender.last_event_at = now
                continue
            ack = acks.Ack(
                now,
                number[i],
                np.int64(segments.window[i]) << sender.window_scale,
                np.int64(segments.ts_ecr[i]) if sender.has_timestamps and has_timestamps else NONE,
                payload_len[i] > 0 or flags[i] & (SYN | FIN) != 0,
                segments.sack_at[i],
                np.int64(segments.sack_count[i]),
                segments.reports_marks[i],
            )
            sender.had_cause |= not transmissions.has_nothing_to_retransmit(sender, now)
            spurious_bits = acks.on_ack(sender, sent, edges, ack, sack_edges, context)
            if spurious_bits and sender.rto_retransmission != NONE:
                spurious[sender.rto_retransmission] |= spurious_bits
        else:
            if sender.snd_nxt == NONE or (setup.sent == 0 and number[i] > sender.snd_nxt):
                sender.snd_nxt = sender.snd_una = number[i]
            passed = max(passed, up)  # the server has received all ACKs before `up`
            while passed < i:
                acked_at_gi = acked_at_gi if downlink[passed] else max(acked_at_gi, number[passed])
                passed += 1
            segment = scoreboard.Segment(
                now,
                number[i],
                number[i] + sequence_length(flags[i], payload_len[i]),
                np.int64(segments.ts_val[i]) if has_timestamps else NONE,
                np.int64(payload_len[i]),
                np.int64(segments.ip_id[i]),
                np.int64(i),
                max(acked_at_gi, sender.snd_una),
            )
            if is_silence:
                stalls[written[2]].stall_class = stall_classes.class_if_server_ends(
                    sender, sent, segment.low
                )
            cause[i] = transmissions.send(sender, sent, edges, segment, context)
            if is_silence:
                stalls[written[2]].ended_by_rto = cause[i] == transmissions.RTO_EXPIRY
        written[2] += is_silence
        if first_unrecovered < written[2]:
            first_unrecovered = stall_classes.mark_recovered(
                sender, stalls, first_unrecovered, written[2], now
            )
        sender.last_event_at = now
        if sender.sample_rtt != NONE:
            rtt_sampling.count_sample(sender, histograms)
            if rtt_sampling.should_record(sender, ts[i]):
                sample = rtt_samples[written[1]]
                sample.ts = ts[i]
                sample.rtt, sample.flight = sender.sample_rtt, sender.sample_flight
                sample.side, sample.delayed = sender.sample_side, sender.sample_delayed
                written[1] += 1
            sender.sample_rtt = NONE
        if abs(sender.rto - sender.recorded_rto) > MIN_RTO_CHANGE * sender.recorded_rto:
            row = rto_values[written[0]]
            row.ts, row.rto, row.rule = now, sender.rto / 1e6, timer_rule
            row.backed_off = sender.rto_expiries > expiries_before
            sender.recorded_rto = sender.rto
            written[0] += 1
    _end_connection(sender, ts[end - 1])
    if len(moments) > 0:
        _write_moment(sender, moments, written, ts[end - 1])


@inner
def _write_moment(sender, moments, written, now):
    """Write the current state as a MOMENT."""
    moment = moments[written[3]]
    moment.time, moment.attributed_until = now, sender.attributed_until
    moment.cwnd = sender.cwnd * sender.max_segment
    for k in range(len(limits.LIMITS)):
        moment.limited[k] = sender.limited[k]
    written[3] += 1


@inner
def _end_connection(sender, now):
    """End the connection, with data in flight or without."""
    if sender.busy_since != NONE:
        limits.attribute_time(sender, limits.current_limit(sender), now)
    state.close(sender, now)


@inner
def _write_transfer(workspace, transfer):
    """Write the server's TRANSFER."""
    sender, setup = workspace.sender[0], workspace.setup[0]
    transfer.known = True
    transfer.rto_expiries = sender.rto_expiries + setup.rto_expiries
    transfer.retransmissions = sender.retransmissions + max(setup.sent - 1, 0)
    transfer.busy, transfer.rwnd_limited = sender.busy_time / 1e6, sender.rwnd_limited / 1e6
    transfer.limited_by_marks = sender.limited_by_marks / 1e6
    for k in range(len(limits.LIMITS)):
        transfer.limited[k] = sender.limited[k] / 1e6
    for side in range(2):
        rtt_sampling.write_quantiles(
            sender, workspace.histograms, side, transfer.rtt_quantiles[side]
        )


@inner
def _retransmissions_first(down, up, end, segments, sender, clock):
    """Return whether the server retransmitted data before it received the ACK in segment `up`.

    This gives the order of the retransmission and the ACK at the server. [down, end) are the
    segments that passed Gi after the ACK. True if one of these segments to the mobile has data that
    this ACK acknowledges, and came so soon that the server sent it before it received the ACK.
    """
    latest = segments.ts[up] + clock.internet_rtt + clock.half + clock.jitter
    acknowledged = min(segments.number[up], sender.snd_nxt)
    i = down
    while i < end and segments.ts[i] <= latest:
        if segments.downlink[i] and segments.number[i] != NONE:
            low = segments.number[i]
            high = low + sequence_length(segments.tcp_flags[i], segments.payload_len[i])
            if low < high and sender.snd_una < high and high <= acknowledged:
                if (
                    not sender.ids_in_order
                    or ip_ids.ahead(segments.ip_id[i], sender.latest_ip_id) >= 0
                ):
                    return True
        i += 1
    sender.work += i - down
    return False


@inner
def _replay_syn_or_rst(i, now, segments, sender, setup, context):
    """Process segment i, which is a SYN, a SYN ACK or a reset.

    Returns the cause of its retransmission, an index into transmissions.CAUSES.
    """
    flags = segments.tcp_flags[i]
    if flags & RST:
        _end_connection(sender, now)
        return transmissions.ORIGINAL
    if not segments.downlink[i]:
        setup.mobile_scale = segments.window_scale[i]
        if not flags & ACK:
            sender.rwnd = np.int64(segments.window[i])
            handshake.receive_syn(setup, now, context.clock)
        return transmissions.ORIGINAL
    setup.server_scale = segments.window_scale[i]
    sender.has_timestamps = segments.has_timestamps[i]
    sender.snd_nxt = sender.snd_una = segments.number[i] + 1
    if flags & ACK:
        repeated = handshake.send_synack(setup, now, context.clock, context.rto_settings)
        return transmissions.SYNACK if repeated else transmissions.ORIGINAL
    return transmissions.RTO_EXPIRY if handshake.send_syn(setup, now) else transmissions.ORIGINAL


@inner
def _complete_setup(i, begin, segments, sender, setup, context):
    """Process the first ACK of the set-up, in uplink segment i."""
    if sender.snd_nxt == NONE:
        sender.snd_nxt = sender.snd_una = segments.number[i]
    if setup.sent == 0:
        return
    setup.acked = True
    limits.start(sender, segments.ts[i] + context.clock.half)
    if setup.mobile_scale > NO_SCALE and setup.server_scale > NO_SCALE:
        sender.window_scale = min(np.int64(setup.mobile_scale), MAX_WINDOW_SHIFT)
    passed_at = setup.first_sent_at + context.clock.half
    if setup.sent > 1:
        passed_at = _echoed_passed_at(i, begin, segments)
    if passed_at != NONE:
        rtt = segments.ts[i] - passed_at + context.clock.internet_rtt
        timer.add_rtt_sample(sender, float(rtt), context.rto_settings)
        return
    timer.use_fallback_rto(sender)
    if setup.sent > 2 and setup.rto_expiries > 0:
        sender.cwnd = 1.0  # RFC 5681, 3.1


@inner
def _echoed_passed_at(i, begin, segments):
    """Return when Gi saw the first segment with the timestamp that uplink segment i echoes.

    Returns NONE if there is none.
    """
    if segments.has_timestamps[i]:
        for k in range(begin, i):
            if segments.downlink[k] and segments.has_timestamps[k]:
                if segments.ts_val[k] == segments.ts_ecr[i]:
                    return segments.ts[k]
    return NONE
