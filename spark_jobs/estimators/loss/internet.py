"""Downlink data lost on the Internet side: sent, but never seen at Gi (INFOCOM 2004, Section V).

The paper, with Benkő and Veres (GLOBECOM 2002), takes a hole in the sequence space that is filled
later. A lost retransmission leaves no hole, nor does lost data that nothing followed. In these
cases the sender's behaviour is the evidence. There are five kinds of evidence:

hole      A packet carries a number above the next one expected. The packet has data, or it has none
          and carries the number of what its sender will send next (RFC 9293, 3.4). A retransmission
          filled the hole, or it was still open when the connection ended.
tail      Data came in order, but late. A segment without PSH had more data behind it in the
          server's buffer (RFC 9293, 3.9.1.2). If all is acknowledged, the window has room for a
          segment, and yet the next data takes longer than an RTO, then this data had been sent
          before and lost. For less room a sender may wait (RFC 9293, 3.8.6.2.1). This applies only
          to senders that use PSH.
skipped   A retransmission passed over data that was due first (see `recovery`) and that came later.
timeout   ACKs called for a retransmission at once (see `recovery`), but it came only by an RTO
          expiry.
ip_id     IP IDs that count packets of this connection alone have a gap (see `id_gaps`). The gap
          shows all losses but those that nothing followed. It also shows lost retransmissions of
          data that had arrived.

An RTO is not less than the RTT of both sides and `slack_us`. The rules tail and timeout need the
RTT on the Internet side: the base RTT of the connection (see `sender.server`).

A segment that was reordered was not lost, and is no retransmission. If IP IDs show the order, it is
reordered if its ID is lower than that of the segment that overtook it. Else it is reordered if its
timestamp is older, or if it comes within an RTT of both sides, sooner than the server can know of a
loss. If the RTT on the Internet side is unknown, both are possible until a long RTT has passed.

Data that the mobile acknowledged though Gi never saw it is a drop of the capture. Data that was
skipped and then acknowledged may be one, too, and so may a hole that is still open. Lost
retransmissions that leave no trace, without such IP IDs, are estimated by `expected`.
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
from spark_jobs.estimators.options import MAX_WINDOW_SHIFT
from spark_jobs.estimators.records import NO_SCALE
from spark_jobs.estimators.sequence import NONE, sequence_length, unwrap
from spark_jobs.estimators.tcp import FIN, PSH, SYN

MAX_LOSSES_PER_STEP = 2 * MAX_HOLES + 2
"""Maximum number of losses that one packet or a connection's end shows."""

MAX_UNKNOWN_RTT_US = 300_000
"""Maximum RTT on the Internet side, if it is unknown: that of another continent (µs)."""

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
"""Downlink stream of a connection.

highest_sent: highest number sent
data_end: end of the data sent
max_segment: largest segment (B)
all_acked_at: when the mobile last acknowledged all data (µs); or NONE
last_window: last window of the mobile
unseen_bytes: bytes acknowledged but never seen
data_packets: data packets seen
retransmissions: data packets seen that were retransmissions
latest_ip_id: latest IP ID, counted on beyond 65535; -1: none yet
distant_ip_id: last IP ID that was too far from it
last_segment: index of the last packet
ids_in_order: IP IDs show the order of sending
ids_exclusive: IP IDs count packets of this connection alone
uses_psh: the sender uses PSH
more_buffered: more data is in the server's buffer
window_open: the mobile's window is open
window_fits_segment: the mobile's window has room for a whole segment
window_scale: shift of this window (RFC 7323)
has_missing: some data is missing
"""


class InternetLosses(NamedTuple):
    """Losses of C connections on the Internet side."""

    losses: np.ndarray
    """LOSS[L], by connection."""
    unseen_bytes: np.ndarray
    """int64[C]: bytes acknowledged but never seen."""
    data_packets: np.ndarray
    """int64[C]: data packets seen."""
    retransmissions: np.ndarray
    """int64[C]: data packets seen that were retransmissions."""
    counted_by_ids: np.ndarray
    """bool[C]: whether IP IDs show all losses."""


class Monitor(NamedTuple):
    """Knowledge about a connection at Gi, updated packet by packet."""

    stream: np.ndarray
    """STREAM[1]."""
    sender: np.ndarray
    """recovery.SENDER[1]."""
    holes: np.ndarray
    """HOLES[1]: missing ranges of the sequence space."""
    skipped: np.ndarray
    """HOLES[1]: ranges that retransmissions passed over."""
    sacked: np.ndarray
    """recovery.SACKED[1]."""
    gaps: id_gaps.Gaps


class Transmission(NamedTuple):
    """Downlink segment as Gi saw it."""

    segment_index: int
    time: np.int64
    """When it passed Gi (µs)."""
    start: np.int64
    """First number of its range of the stream."""
    end: np.int64
    """End of its range of the stream."""
    data_end: np.int64
    """End of its data."""
    ts_val: np.int64
    """Its timestamp, or NONE."""
    ip_id: np.int64
    """Its IP ID; NONE: IP IDs do not show the order of sending."""
    pushed: bool
    """True if nothing more was in the server's buffer."""


class Delays(NamedTuple):
    """RTTs of a connection (µs)."""

    access_rtt: float
    """Base RTT of the user on the access side."""
    internet_rtt: float
    """Base RTT of the connection on the Internet side; 0: unknown."""
    slack: int
    """Minimum difference between an RTO and the RTT of both sides."""


@compiled
def internet_losses(segments, connections, base_us, servers, slack_us=100_000):
    """Return InternetLosses of Segments and their Connections.

    base_us: float64[C], the user's base RTT on the access side (µs); servers: SERVER[C]; slack_us:
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
        first_loss = losses.size[0]
        _initialize(monitor, connections.sack[c], base_us[c])
        stream.uses_psh = _uses_psh(i, end, segments)
        stream.window_scale = _window_scale(i, end, segments)
        stream.ids_in_order = servers[c].ids_in_order
        stream.ids_exclusive = servers[c].ids_exclusive
        while i < end:
            i = _read_segments(i, end, segments, monitor, delays, losses)
            if losses.size[0] + MAX_LOSSES_PER_STEP > len(losses.rows):
                losses = enlarged(losses)
        _add_open_holes(monitor, segments.ts[end - 1], delays, losses)
        for k in range(first_loss, losses.size[0]):
            loss = losses.rows[k]
            loss.packets = -(-loss.length // stream.max_segment)
        counted_by_ids[c] = stream.ids_exclusive
        if stream.ids_exclusive and (monitor.gaps.size[0] or losses.size[0] > first_loss):
            losses, counted_by_ids[c] = _add_id_gap_losses(
                monitor, first_loss, (first[c], end), segments, delays, losses
            )
        losses.rows["connection"][first_loss : losses.size[0]] = c
        unseen_bytes[c], data_packets[c] = stream.unseen_bytes, stream.data_packets
        retransmissions[c] = stream.retransmissions
    return InternetLosses(
        losses.rows[: losses.size[0]].copy(),
        unseen_bytes,
        data_packets,
        retransmissions,
        counted_by_ids,
    )


@inner
def _read_segments(i, end, segments, monitor, delays, losses):
    """Process segments from i on while there is room for losses, and return the next index."""
    stream, sender = monitor.stream[0], monitor.sender[0]
    number, downlink, sack_count = segments.number, segments.downlink, segments.sack_count
    while i < end and losses.size[0] + MAX_LOSSES_PER_STEP <= len(losses.rows):
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
    """Add the losses that IP IDs show.

    Returns the LossList, and whether the IP IDs count packets of this connection alone.

    first_loss: index of the connection's first loss; span: bounds of its segments.
    """
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
    for k in range(gaps.size[0]):
        gap = gaps.rows[k]
        if gap.retransmissions:
            while losses.size[0] + gap.retransmissions > len(losses.rows):
                losses = enlarged(losses)
            id_gaps.add_losses(gap, losses, segments, sender)
    return losses, True


@inner
def _initialize(monitor, sack, base_us):
    """Initialize the Monitor before the first packet of a connection."""
    stream = monitor.stream[0]
    stream.highest_sent = stream.data_end = stream.all_acked_at = NONE
    stream.latest_ip_id, stream.distant_ip_id, stream.last_segment = -1, -1, -1
    stream.max_segment, stream.last_window = 1, -1
    stream.unseen_bytes = stream.data_packets = stream.retransmissions = 0
    stream.more_buffered = stream.has_missing = False
    stream.window_open = stream.window_fits_segment = False
    monitor.holes[0].count = monitor.skipped[0].count = 0
    monitor.sacked[0].count = monitor.gaps.size[0] = 0
    recovery.initialize(monitor.sender[0], sack, np.int64(base_us))


@inner
def _uses_psh(start, end, segments):
    for i in range(start, end):
        if segments.downlink[i] and segments.tcp_flags[i] & PSH:
            return True
    return False


@inner
def _window_scale(start, end, segments):
    """Return the shift of the mobile's window, from the SYNs that a connection begins with."""
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
    """Return the recovery.Ack in uplink segment i."""
    ts_ecr = np.int64(segments.ts_ecr[i]) if segments.has_timestamps[i] else NONE
    is_pure = segments.payload_len[i] == 0 and segments.tcp_flags[i] & (SYN | FIN) == 0
    window = np.int64(segments.window[i])
    return recovery.Ack(segments.number[i], segments.ts[i], ts_ecr, window, is_pure)


@inner
def _on_ack(stream, sender, ack, base_us):
    """Process an ACK of the mobile; base_us: see Delays.access_rtt."""
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
    """Update the missing ranges and the duplicate ACKs by an ACK.

    repeats: its number was acknowledged before, and more had been sent.
    """
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
    """Return the Transmission of downlink segment i; ids_in_order: see STREAM."""
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
    """Update the stream by a segment of the server."""
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
    """Return whether a segment is not the next one in order, or comes late."""
    return transmission.start != stream.highest_sent or _is_late_tail(stream, transmission, delays)


@inner
def _is_late_tail(stream, transmission, delays):
    """Return whether buffered data comes so late that it had been sent before."""
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
    """Add the losses that an unexpected segment shows."""
    stream = monitor.stream[0]
    if transmission.start == stream.highest_sent:
        index = np.int64(transmission.segment_index)
        detection = Detection(stream.all_acked_at, index, transmission.start, index)
        add_loss(losses, transmission.start, transmission.data_end, detection, TAIL, 1.0)
    elif transmission.start > stream.highest_sent:
        sequence_holes.add(monitor.holes[0], stream.highest_sent, transmission.start, transmission)
    elif transmission.end > transmission.start:
        _process_old_data(monitor, transmission, delays, losses)
    stream.has_missing = monitor.holes[0].count + monitor.skipped[0].count > 0


@inner
def _process_old_data(monitor, transmission, delays, losses):
    """Process data below the highest number sent: it fills a hole, or is a retransmission."""
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
        index = np.int64(transmission.segment_index)
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
    """Add what is still missing at the connection's end to the losses."""
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
    """Remove the data of a segment from HOLES, and add it to the losses if it had been lost.

    Returns whether some of it was reordered, and whether the segment carries any missing data.
    """
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
                np.int64(transmission.segment_index),
            )
            kind = evidence if probability == 1 else UNDECIDED
            add_loss(losses, low, min(high, transmission.data_end), detection, kind, probability)
        if sequence_holes.remove_range(holes, k, low, high):
            k += 1
    return reordered, filled


@inner
def _loss_probability(holes, k, transmission, delays):
    """Return the probability that the data that fills range k of HOLES had been lost.

    Otherwise it was overtaken by the segment that showed that it was missing.
    """
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
    """Add the data from `low` up to a retransmission to the skipped ranges.

    Data that the mobile has reported by SACK is left out.
    """
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
