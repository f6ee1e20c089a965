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
from spark_jobs.estimators.loss import id_gaps, recovery, sequence_holes
from spark_jobs.estimators.loss.evidence import (
    HOLE,
    LOSS,
    NO_PACKET,
    SKIPPED,
    TAIL,
    TIMEOUT,
    UNDECIDED,
    Detection,
    LossList,
    add_loss,
    enlarged,
)
from spark_jobs.estimators.loss.sequence_holes import HOLES, MAX_HOLES
from spark_jobs.estimators.options import LARGEST_SHIFT
from spark_jobs.estimators.records import NO_SCALE
from spark_jobs.estimators.sequence import NONE, sequence_length, unwrap
from spark_jobs.estimators.tcp import FIN, PSH, SYN

MAX_LOSSES_PER_STEP = 2 * MAX_HOLES + 2
"""More losses than one packet or a connection's end tells of."""

MAX_UNKNOWN_RTT_US = 300_000
"""A RTT on the Internet side that is not known is taken to be shorter: that of another continent."""

STREAM = np.dtype(
    [
        ("highest_sent", "i8"),
        ("max_segment", "i8"),
        ("all_acked_at", "i8"),
        ("last_window", "i8"),
        ("unseen_bytes", "i8"),
        ("data_packets", "i8"),
        ("retransmissions", "i8"),
        ("data_end", "i8"),
        ("latest_ip_id", "i8"),
        ("distant_ip_id", "i8"),
        ("last_segment", "i8"),
        ("ids_in_order", "?"),
        ("ids_exclusive", "?"),
        ("uses_psh", "?"),
        ("more_buffered", "?"),
        ("window_open", "?"),
        ("window_scale", "i8"),
        ("window_fits_segment", "?"),
        ("has_missing", "?"),
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
    unseen_bytes: np.ndarray
    """int64[C]: bytes acknowledged but never seen."""
    data_packets: np.ndarray
    """int64[C]: data packets seen,"""
    retransmissions: np.ndarray
    """int64[C]: and how many of these were retransmitted."""
    counted_by_ids: np.ndarray
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
    sacked: np.ndarray
    """REPORTED[1]"""
    gaps: id_gaps.Gaps


class Transmission(NamedTuple):
    """A downlink segment."""

    index: int
    time: np.int64
    """When Gi saw it (µs)."""
    start: np.int64
    end: np.int64
    """Its range of the stream,"""
    data_end: np.int64
    """and where its data ends."""
    ts_val: np.int64
    """Its timestamp, or NONE."""
    ip_id: np.int64
    """Its IP ID, or NONE where these do not tell the order of sending."""
    pushed: bool
    """Nothing more was in the server's buffer."""


class Delays(NamedTuple):
    """A connection's times (µs)."""

    access_rtt: float
    """The user's least RTT on the access side,"""
    internet_rtt: float
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
    max_segments = np.int64(0)
    for c in range(len(first) - 1):
        max_segments = max(max_segments, first[c + 1] - first[c])
    losses = LossList(np.empty(1024, LOSS), np.zeros(1, np.int64))
    count = len(connections.user)
    unseen_bytes, retransmissions = np.zeros(count, np.int64), np.zeros(count, np.int64)
    data_packets = np.zeros(count, np.int64)
    counted_by_ids = np.zeros(count, np.bool_)
    monitor = Monitor(
        np.empty(1, STREAM),
        np.empty(1, recovery.SENDER),
        np.empty(1, HOLES),
        np.empty(1, HOLES),
        np.empty(1, recovery.SACKED),
        id_gaps.Gaps(np.empty(max_segments + 1, id_gaps.GAP), np.zeros(1, np.int64)),
    )
    stream = monitor.stream[0]
    for c in range(len(connections.user)):
        i, end = first[c], first[c + 1]
        internet_us = 0.0 if np.isnan(servers[c].internet_rtt) else servers[c].internet_rtt
        delays = Delays(base_us[c], internet_us, slack_us)
        first_loss = losses.count[0]
        _initialize(monitor, connections.sack[c], base_us[c])
        stream.uses_psh, stream.window_scale = (
            _uses_psh(i, end, segments),
            _window_scale(i, end, segments),
        )
        stream.ids_in_order, stream.ids_exclusive = (
            servers[c].ids_in_order,
            servers[c].ids_exclusive,
        )
        while i < end:
            i = _read_segments(i, end, segments, monitor, delays, losses)
            if losses.count[0] + MAX_LOSSES_PER_STEP > len(losses.losses):
                losses = enlarged(losses)
        _add_open_holes(monitor, segments.ts[end - 1], delays, losses)
        for k in range(first_loss, losses.count[0]):
            loss = losses.losses[k]
            loss.packets = -(-loss.length // stream.max_segment)
        counted_by_ids[c] = stream.ids_exclusive
        if stream.ids_exclusive and (monitor.gaps.count[0] or losses.count[0] > first_loss):
            losses, counted_by_ids[c] = _add_id_gap_losses(
                monitor, first_loss, (first[c], end), segments, delays, losses
            )
        losses.losses["connection"][first_loss : losses.count[0]] = c
        unseen_bytes[c], data_packets[c], retransmissions[c] = (
            stream.unseen_bytes,
            stream.data_packets,
            stream.retransmissions,
        )
    return InternetLosses(
        losses.losses[: losses.count[0]].copy(),
        unseen_bytes,
        data_packets,
        retransmissions,
        counted_by_ids,
    )


@inner
def _read_segments(i, end, segments, monitor, delays, losses):
    """Segments from i on, as far as there is room for what is found of them; returns the next."""
    stream, sender = monitor.stream[0], monitor.sender[0]
    number, downlink, sack_count = segments.number, segments.downlink, segments.sack_count
    while i < end and losses.count[0] + MAX_LOSSES_PER_STEP <= len(losses.losses):
        if number[i] == NONE and not (downlink[i] and segments.probe[i]):
            i += 1
            continue
        if downlink[i]:
            transmission = _transmission(i, segments, stream.ids_in_order)
            if stream.ids_exclusive and transmission.ip_id != NONE:
                if transmission.ip_id == (stream.latest_ip_id + 1) & 0xFFFF:
                    stream.latest_ip_id += 1
                else:
                    id_gaps.add_packet(monitor.gaps, stream, transmission, sender.acked)
                stream.last_segment = i
            if number[i] == NONE:  # a probe: it has an ID, but brings no data
                i += 1
                continue
            if stream.highest_sent != NONE and _is_unexpected(stream, transmission, delays):
                _find_losses(monitor, transmission, delays, losses)
            _on_transmission(stream, sender, transmission)
        elif stream.highest_sent != NONE:
            ack = _ack(i, segments)
            repeats = ack.number == sender.acked and ack.number < stream.highest_sent
            _on_ack(stream, sender, ack, delays.access_rtt)
            if repeats or stream.has_missing or sack_count[i]:
                at = segments.sack_at[i]
                blocks = segments.sack_edges[at : at + sack_count[i]]
                _update_holes(monitor, ack, blocks, repeats)
            stream.last_window = ack.window
        i += 1
    return i


@making
def _add_id_gap_losses(monitor, first_loss, span, segments, delays, losses):
    """Found with what the IP IDs tell, and whether they count this connection alone; begun: where
    its losses begin; span: its segments."""
    stream, gaps = monitor.stream[0], monitor.gaps
    sender = id_gaps.SenderTraits(
        monitor.sender[0].sack,
        stream.max_segment,
        delays.internet_rtt,
        delays.access_rtt,
        delays.slack,
    )
    if id_gaps.explain_by_losses(gaps, losses, first_loss):
        id_gaps.remove_unshown(losses, first_loss)
    if not id_gaps.classify(gaps, stream.data_packets, span, segments, sender):
        return losses, False
    for k in range(gaps.count[0]):
        gap = gaps.rows[k]
        if gap.retransmissions:
            while losses.count[0] + gap.retransmissions > len(losses.losses):
                losses = enlarged(losses)
            id_gaps.add_losses(gap, losses, segments, sender)
    return losses, True


@inner
def _initialize(monitor, sack, base_us):
    """A connection of which nothing was seen."""
    stream = monitor.stream[0]
    stream.highest_sent = stream.data_end = stream.all_acked_at = NONE
    stream.latest_ip_id, stream.distant_ip_id, stream.last_segment = -1, -1, -1
    stream.max_segment, stream.last_window = 1, -1
    stream.unseen_bytes = stream.data_packets = stream.retransmissions = 0
    stream.more_buffered = stream.window_open = stream.window_fits_segment = stream.has_missing = (
        False
    )
    monitor.holes[0].count = monitor.skipped[0].count = monitor.sacked[
        0
    ].count = monitor.gaps.count[0] = 0
    recovery.initialize(monitor.sender[0], sack, np.int64(base_us))


@inner
def _uses_psh(start, end, segments):
    for i in range(start, end):
        if segments.downlink[i] and segments.tcp_flags[i] & PSH:
            return True
    return False


@inner
def _window_scale(start, end, segments):
    """The mobile's window scale, by the SYNs that a connection begins with."""
    up = down = np.int64(NO_SCALE)
    i = start
    while i < end and segments.tcp_flags[i] & SYN:
        if segments.downlink[i]:
            down = np.int64(segments.window_scale[i])
        else:
            up = np.int64(segments.window_scale[i])
        i += 1
    return min(up, LARGEST_SHIFT) if up > NO_SCALE and down > NO_SCALE else np.int64(0)


@inner
def _ack(i, segments):
    """Uplink segment i."""
    ts_ecr = np.int64(segments.ts_ecr[i]) if segments.has_timestamps[i] else NONE
    is_pure = segments.payload_len[i] == 0 and segments.tcp_flags[i] & (SYN | FIN) == 0
    window = np.int64(segments.window[i])
    return recovery.Ack(segments.number[i], segments.ts[i], ts_ecr, window, is_pure)


@inner
def _on_ack(stream, sender, ack, base_us):
    """The mobile acknowledges; base_us: see Delays."""
    stream.window_open = ack.window > 0
    stream.window_fits_segment = ack.window << stream.window_scale >= stream.max_segment
    if ack.number >= stream.highest_sent:
        stream.all_acked_at = ack.time
    if ack.number > stream.highest_sent:
        stream.unseen_bytes += ack.number - stream.highest_sent
        stream.highest_sent = ack.number
    if ack.number > sender.acked:
        recovery.on_cumulative_ack(sender, ack, base_us, stream.highest_sent)


@inner
def _update_holes(monitor, ack, blocks, repeats):
    """What an ACK tells of what is missing; repeats: its number was acknowledged before, and more
    had been sent."""
    stream, sender = monitor.stream[0], monitor.sender[0]
    if stream.has_missing:
        stream.unseen_bytes += sequence_holes.remove_acked(monitor.holes[0], ack.number)
        sequence_holes.remove_acked(monitor.skipped[0], ack.number)
    if repeats and stream.window_open:
        same_window = ack.window == stream.last_window
        in_flight = -(-(stream.highest_sent - ack.number) // stream.max_segment)
        recovery.on_duplicate_ack(sender, ack, same_window, blocks, in_flight)
    for k in range(0, len(blocks) - 1, 2):
        low, high = unwrap(blocks[k], ack.number), unwrap(blocks[k + 1], ack.number)
        if sender.acked < low < high <= stream.highest_sent:
            recovery.add_sacked(monitor.sacked[0], low, high, sender)
            sequence_holes.remove_sacked(monitor.skipped[0], low, high)
    stream.has_missing = monitor.holes[0].count + monitor.skipped[0].count > 0


@inner
def _transmission(i, segments, ids_in_order):
    """Downlink segment i; counts: of a STREAM."""
    start, payload_len = segments.number[i], segments.payload_len[i]
    return Transmission(
        i,
        segments.ts[i],
        start,
        start + sequence_length(segments.tcp_flags[i], payload_len),
        start + np.int64(payload_len),
        np.int64(segments.ts_val[i]) if segments.has_timestamps[i] else NONE,
        np.int64(segments.ip_id[i]) if ids_in_order and not segments.tcp_flags[i] & SYN else NONE,
        segments.tcp_flags[i] & (PSH | FIN) != 0,
    )


@inner
def _on_transmission(stream, sender, transmission):
    """The server sends."""
    stream.max_segment = max(stream.max_segment, transmission.data_end - transmission.start)
    stream.data_packets += transmission.data_end > transmission.start
    if transmission.end > max(transmission.start, stream.highest_sent):
        stream.more_buffered = (
            stream.uses_psh
            and transmission.data_end > transmission.start
            and not transmission.pushed
        )
        stream.all_acked_at = NONE
        stream.data_end = max(stream.data_end, transmission.data_end)
    if transmission.end > transmission.start >= stream.highest_sent:
        recovery.on_new_data(sender, transmission.end, transmission.time)
    stream.highest_sent = max(stream.highest_sent, transmission.end)


@inner
def _is_unexpected(stream, transmission, delays):
    """Whether a segment is not the next, or comes late."""
    return transmission.start != stream.highest_sent or _is_late_tail(stream, transmission, delays)


@inner
def _is_late_tail(stream, transmission, delays):
    """Whether what was pending comes so late that it had been sent before."""
    if not stream.more_buffered or not stream.window_fits_segment or stream.all_acked_at == NONE:
        return False
    if transmission.data_end == transmission.start or delays.internet_rtt <= 0:
        return False
    return (
        transmission.time - stream.all_acked_at
        > delays.access_rtt + delays.internet_rtt + delays.slack
    )


@inner
def _find_losses(monitor, transmission, delays, losses):
    """What a segment tells of losses that is amiss."""
    stream = monitor.stream[0]
    if transmission.start == stream.highest_sent:
        index = np.int64(transmission.index)
        detection = Detection(stream.all_acked_at, index, transmission.start, index)
        add_loss(losses, transmission.start, transmission.data_end, detection, TAIL, 1.0)
    elif transmission.start > stream.highest_sent:
        sequence_holes.add(monitor.holes[0], stream.highest_sent, transmission.start, transmission)
    elif transmission.end > transmission.start:
        _process_old_data(monitor, transmission, delays, losses)
    stream.has_missing = monitor.holes[0].count + monitor.skipped[0].count > 0


@inner
def _process_old_data(monitor, transmission, delays, losses):
    """The server sends what lies below the highest number: a hole's filling, or a retransmission."""
    stream, sender = monitor.stream[0], monitor.sender[0]
    is_reordered = was_skipped = False
    if stream.has_missing:
        is_reordered, _ = _fill_holes(monitor.holes[0], transmission, delays, HOLE, losses)
        _, was_skipped = _fill_holes(monitor.skipped[0], transmission, delays, SKIPPED, losses)
    if is_reordered or transmission.data_end == transmission.start:
        return
    stream.retransmissions += 1
    if transmission.end <= sender.acked:
        return
    by_timer = delays.internet_rtt > 0 and transmission.start == sender.acked and stream.window_open
    by_timer &= recovery.is_by_timer(sender, transmission.time, delays.internet_rtt, delays.slack)
    if by_timer and sender.due_since != NONE and not was_skipped:
        index = np.int64(transmission.index)
        detection = Detection(sender.due_since, index, transmission.start, index)
        add_loss(losses, transmission.start, transmission.data_end, detection, TIMEOUT, 1.0)
    low = max(sender.retransmitted_to, sender.acked)
    if low < transmission.start and sender.acked != NONE:
        if not recovery.is_probe(sender, transmission.start, transmission.end, stream.highest_sent):
            _add_skipped(monitor, low, transmission)
    restarts_order = not sender.sack and transmission.start <= sender.acked and not was_skipped
    recovery.on_retransmission(sender, transmission, stream.highest_sent, by_timer, restarts_order)


@inner
def _add_open_holes(monitor, last_ts, delays, losses):
    """What is still missing at the connection's end was lost."""
    stream, acked, holes = monitor.stream[0], monitor.sender[0].acked, monitor.holes[0]
    if not holes.count:
        return
    in_flight = stream.highest_sent - acked if acked != NONE else 0
    if stream.ids_exclusive:
        sequence_holes.keep_likely_data(holes, last_ts - delays.slack, 4 * in_flight)
    else:
        sequence_holes.keep_likely_data(
            holes, last_ts - (delays.access_rtt + delays.internet_rtt), in_flight
        )
    for k in range(holes.count):
        detection = Detection(holes.missed_at[k], holes.shown_by[k], holes.first_low[k], NO_PACKET)
        add_loss(losses, holes.low[k], holes.high[k], detection, HOLE, 1.0)


@inner
def _fill_holes(holes, transmission, delays, evidence, losses):
    """Take away what a segment carries from a MISSING; what was late had been lost. Returns whether
    any was overtaken, and whether the segment carries any."""
    k = 0
    reordered = filled = False
    while k < holes.count:
        low, high = max(transmission.start, holes.low[k]), min(transmission.end, holes.high[k])
        if low >= high:
            k += 1
            continue
        filled = True
        probability = _loss_probability(holes, k, transmission, delays)
        reordered |= probability == 0
        if probability > 0 and low < transmission.data_end:
            detection = Detection(
                holes.missed_at[k],
                holes.shown_by[k],
                holes.first_low[k],
                np.int64(transmission.index),
            )
            kind = evidence if probability == 1 else UNDECIDED
            add_loss(losses, low, min(high, transmission.data_end), detection, kind, probability)
        if sequence_holes.remove_range(holes, k, low, high):
            k += 1
    return reordered, filled


@inner
def _loss_probability(holes, k, transmission, delays):
    """The probability that what fills range k of a MISSING had been lost, not overtaken by what
    showed that it was missing."""
    if transmission.ip_id != NONE and holes.ip_id[k] != NONE:
        ahead = ip_ids.ahead(transmission.ip_id, holes.ip_id[k])
        if ahead != 0:
            return 1.0 if ahead > 0 else 0.0
    waited = transmission.time - holes.missed_at[k]
    if transmission.ts_val != NONE and holes.ts_val[k] != NONE:
        age = np.int32(np.uint32(transmission.ts_val) - np.uint32(holes.ts_val[k]))
        if age != 0:
            return 1.0 if age > 0 else 0.0
    if waited < delays.access_rtt + delays.internet_rtt:
        return 0.0
    if delays.internet_rtt == 0 and waited < delays.access_rtt + MAX_UNKNOWN_RTT_US:
        return 0.5
    return 1.0


@inner
def _add_skipped(monitor, low, transmission):
    """A retransmission goes past what lies from `low` up to it: what of that the mobile has not reported
    was skipped."""
    sender, sacked, skipped = monitor.sender[0], monitor.sacked[0], monitor.skipped[0]
    low = max(low, sender.sacked_unknown_below)
    if sender.sack:
        for k in range(recovery.first_reaching(sacked, low), sacked.count):
            if sacked.low[k] >= transmission.start:
                break
            if low < sacked.low[k]:
                sequence_holes.add(skipped, low, sacked.low[k], transmission)
            low = max(low, sacked.high[k])
    if low < transmission.start:
        sequence_holes.add(skipped, low, transmission.start, transmission)
