"""A user's connections as Gi saw them: the copies of downlink segments, and the ACKs."""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import inner, making
from spark_jobs.estimators import ip_ids
from spark_jobs.estimators.loss import costs
from spark_jobs.estimators.loss.sack import is_d_sack
from spark_jobs.estimators.sequence import NONE, first_above, sequence_length, unwrap
from spark_jobs.estimators.tcp import FIN, RST, SYN

UNPROVEN, LOST, ARRIVED = 0, 1, 2
"""A copy's fate, as far as order alone proves it (see `order`)."""

TRANSMISSION = np.dtype(
    [
        ("segment", "i8"),
        ("low", "i8"),
        ("high", "i8"),
        ("ts", "i8"),
        ("packet", "i8"),
        ("size", "i8"),
        ("work", "f8"),
        ("floor", "f8"),
        ("ceiling", "f8"),
        ("clock", "f8"),
        ("ack_ts", "i8"),
        ("ts_val", "u4"),
        ("has_ts", "?"),
        ("overtaken", "?"),
        ("is_syn", "?"),
        ("ambiguous", "?"),
        ("last_candidate", "?"),
        ("has_data", "?"),
        ("ack_observable", "?"),
        ("fate", "i1"),
    ]
)
"""A downlink segment at Gi: which of the segments it is, its range of the stream, time (µs), its
place among the user's packets, its IP bytes; what the link did since the connection's last copy,
the link's clock, when it was answered, if that is certain (see `link`); timestamp; old: something
with a newer timestamp came before it; opens: a SYN;
ambiguous: another copy overlaps it, or it was never acknowledged; last: no later copy can have
brought in time what was acknowledged; data: it has payload; watched: the observation goes on long
enough for its ACK to be seen; fate: what order alone proves (see `order`)."""

ACK = np.dtype(
    [
        ("ts", "i8"),
        ("number", "i8"),
        ("sack_begin", "i8"),
        ("block_low", "i8"),
        ("block_high", "i8"),
        ("unexplained_cost", "f8"),
        ("window_change_cost", "f8"),
        ("unseen_before", "i4"),
        ("unseen_shared", "?"),
        ("ts_ecr", "u4"),
        ("window", "u2"),
        ("sack_count", "u1"),
        ("has_ts", "?"),
    ]
)
"""An uplink packet at Gi: time (µs), what it acknowledges, its SACK blocks' place and the first of
them, what it costs as a stray and as a duplicate ACK of data (see `costs`); how many the mobile
sent since the last one that Gi never saw (NOT_TOLD: who knows), or at most, for others share what
was passed over; echoed timestamp, window."""

UNKNOWN = -1

SUMMARY = np.dtype(
    [
        ("tx_begin", "i8"),
        ("tx_end", "i8"),
        ("ack_begin", "i8"),
        ("ack_end", "i8"),
        ("highest_ack", "i8"),
        ("max_rtt", "i8"),
        ("last_arrived", "i8"),
        ("unproven", "i8"),
        ("lost", "i8"),
        ("both_directions", "?"),
        ("ambiguous", "?"),
        ("d_sack", "?"),
        ("delayed_ack_cost", "f8"),
    ]
)
"""A connection: where its copies and ACKs lie among its user's; the highest ACK; the longest round
trip that is certain (µs); a copy that had arrived, or a later one had (-1: none); how many copies
are unproven and how many certainly lost; seen: both directions were; questions: a copy is
ambiguous; twice: a D-SACK told of what came twice; waited: see `Heard`."""


class Feedback(NamedTuple):
    """What the mobile told of a connection."""

    acks: np.ndarray
    """ACK_SEEN[m]"""
    sack_edges: np.ndarray
    """uint32[..]: the SACK edges that the ACKs point to."""
    sack_permitted: bool
    """SACK is permitted."""
    highest_ack: int
    """The highest ACK."""
    sends_d_sack: bool
    """The mobile tells by D-SACK (RFC 2883) what came twice: it has done so."""
    delayed_ack_cost: float
    """What it costs that the ACK of a single segment waited for the next one (see `costs`)."""
    max_rtt: int
    """The longest round trip that is certain (µs; 0: none is)."""


class Observation(NamedTuple):
    """A connection."""

    transmissions: np.ndarray
    """COPY[n]"""
    highest_sent: np.ndarray
    """int64[n]: the highest number sent up to each copy."""
    feedback: Feedback


class UserObservation(NamedTuple):
    """A user's connections, one after another; of those without questions, nothing is kept but
    their SEEN."""

    transmissions: np.ndarray
    """COPY[n]"""
    highest_sent: np.ndarray
    """int64[n]"""
    acks: np.ndarray
    """ACK_SEEN[m]"""
    summaries: np.ndarray
    """SEEN[connections]"""
    d_sack: bool
    """A D-SACK is among all."""


@making
def connection_observation(user_observation, x, sack_edges, sack_permitted):
    """A user's connection x; edges: all SACK edges; sack: whether it is permitted."""
    summary = user_observation.summaries[x]
    acks = user_observation.acks[summary.ack_begin : summary.ack_end]
    return Observation(
        user_observation.transmissions[summary.tx_begin : summary.tx_end],
        user_observation.highest_sent[summary.tx_begin : summary.tx_end],
        Feedback(
            acks,
            sack_edges,
            sack_permitted,
            summary.highest_ack,
            user_observation.d_sack,
            summary.delayed_ack_cost,
            summary.max_rtt,
        ),
    )


@making
def read_user(segments, connections, packets, original):
    """UserExchanges of a user's Connections and all Segments and Packets.

    Fills original int64[N]: the last packet before each that carried some of the same data, -1:
    none.
    """
    begin, end = connections.first[0], connections.first[-1]
    downlink_count = np.count_nonzero(segments.downlink[begin:end])
    buffers = UserObservation(
        np.empty(downlink_count, TRANSMISSION),
        np.empty(downlink_count, np.int64),
        np.empty(end - begin - downlink_count, ACK),
        np.zeros(len(connections.user), SUMMARY),
        False,
    )
    n = m = 0
    for x in range(len(buffers.summaries)):
        summary = buffers.summaries[x]
        free = UserObservation(
            buffers.transmissions[n:],
            buffers.highest_sent[n:],
            buffers.acks[m:],
            buffers.summaries[x : x + 1],
            False,
        )
        tx_count, ack_count = _read_connection(x, segments, connections, packets, free, original)
        if not summary.ambiguous:
            continue
        summary.tx_begin, summary.tx_end, summary.ack_begin, summary.ack_end = (
            n,
            n + tx_count,
            m,
            m + ack_count,
        )
        n, m = n + tx_count, m + ack_count
    d_sack = bool(buffers.summaries["d_sack"].any())
    return UserObservation(
        buffers.transmissions[:n],
        buffers.highest_sent[:n],
        buffers.acks[:m],
        buffers.summaries,
        d_sack,
    )


@inner
def _read_connection(x, segments, connections, packets, out, original):
    """Writes a connection's copies, ACKs and SEEN to the beginning of UserExchanges, and fills
    original. Returns how many copies and ACKs there are."""
    sent, highest_sent, acks, summary = (
        out.transmissions,
        out.highest_sent,
        out.acks,
        out.summaries[0],
    )
    user_begin = packets.first[connections.user[x]]
    number, downlink = segments.number, segments.downlink
    if _is_unambiguous(connections.first[x], connections.first[x + 1], segments, summary):
        return 0, 0
    n = m = 0
    highest = highest_ack = NONE
    newest_ts_val = np.uint32(0)
    for i in range(connections.first[x], connections.first[x + 1]):
        if number[i] == NONE:
            continue
        if not downlink[i]:
            _read_ack(acks[m], i, segments)
            if m:
                _set_window_costs(acks[m], acks[m - 1], segments.sack_edges)
            if acks[m].sack_count >= 2:
                edge = acks[m].sack_begin
                edges = segments.sack_edges[edge : edge + acks[m].sack_count]
                summary.d_sack |= is_d_sack(edges, acks[m].number)
            highest_ack = max(highest_ack, number[i])
            m += 1
            continue
        tx = sent[n]
        _read_transmission(tx, i, segments)
        if tx.has_ts:
            tx.overtaken = n > 0 and np.int32(newest_ts_val - tx.ts_val) > 0
            newest_ts_val = newest_ts_val if tx.overtaken else tx.ts_val
        packet = segments.place[i]
        tx.packet = packet - user_begin
        tx.size = packets.sent_before[packet + 1] - packets.sent_before[packet]
        if highest != NONE and tx.low < min(tx.high, highest):
            for k in range(first_above(highest_sent, 0, n, tx.low), n):
                if max(tx.low, sent[k].low) < min(tx.high, sent[k].high):
                    sent[k].ambiguous = tx.ambiguous = True
                    if sent[k].has_data or not tx.has_data:  # no bare FIN is the original of data
                        original[i] = sent[k].segment
        highest = max(highest, tx.high)
        highest_sent[n] = highest
        n += 1
    summary.highest_ack, summary.both_directions = highest_ack, n > 0 and m > 0
    for k in range(n):
        sent[k].ambiguous |= sent[k].high > max(highest_ack, sent[k].low)
        summary.ambiguous |= sent[k].ambiguous and summary.both_directions
    if summary.ambiguous:
        summary.delayed_ack_cost = -np.log(
            1 - _immediate_ack_share(sent[:n], highest_sent, acks[:m])
        )
        _set_unseen_before(connections.first[x], connections.first[x + 1], segments, packets, acks)
    return n, m


@inner
def _is_unambiguous(begin, end, segments, summary):
    """Whether segments [begin, end) of a connection leave nothing to decide: nothing was sent that
    might have been sent before, all of it was acknowledged, no SACK block came. If so, SEEN is all
    that is told of it."""
    number, downlink, sack_count = segments.number, segments.downlink, segments.sack_count
    flags, payload = segments.tcp_flags, segments.payload_len
    highest = data_end = highest_ack = NONE
    saw_downlink = saw_uplink = False
    for i in range(begin, end):
        if number[i] == NONE:
            continue
        if not downlink[i]:
            if sack_count[i]:
                return False
            highest_ack, saw_uplink = max(highest_ack, number[i]), True
            continue
        high = number[i] + sequence_length(flags[i], payload[i])
        if highest != NONE and number[i] < min(high, highest):
            return False
        highest, saw_downlink = max(highest, high), True
        data_end = max(data_end, high) if high > number[i] else data_end
    if saw_downlink and saw_uplink and data_end > highest_ack:
        return False
    summary.highest_ack, summary.both_directions = highest_ack, saw_downlink and saw_uplink
    return True


@inner
def _set_unseen_before(begin, end, segments, packets, acks):
    """Sets how many packets a mobile sent before each ACK that Gi never saw, by IP IDs, as far as
    they count the packets of segments [begin, end); what else they count may stand between."""
    counts, exclusive = ip_ids.count_these(begin, end, segments, False)
    previous = np.int64(-1)
    m, unseen, shared = 0, np.int64(0), False
    for i in range(begin, end):
        if segments.downlink[i]:
            continue
        known = counts and segments.ip_id[i] != 0 and segments.tcp_flags[i] & RST == 0
        if known:
            previous_id = np.int64(segments.ip_id[previous]) if previous >= 0 else np.int64(0)
            step = ip_ids.ahead(segments.ip_id[i], previous_id) if previous >= 0 else np.int64(0)
            known = step > 0
            if known:
                others = ip_ids.of_others(
                    packets, segments.place[previous], segments.place[i], step
                )
                shared |= others > 0
                unseen += step - 1 - others
            if step > 0 or previous < 0:
                previous = np.int64(i)
        if segments.number[i] != NONE:
            acks[m].unseen_before = unseen if known and (exclusive or unseen == 0) else UNKNOWN
            acks[m].unseen_shared = shared
            m += 1
            unseen, shared = np.int64(0), False


@inner
def _immediate_ack_share(sent, highest_sent, acks):
    """The share of segments in order that the mobile acknowledges without waiting for a second
    (RFC 9293, 3.8.6.3): of those that it does wait with, it acknowledges every second."""
    in_order = acked_at_once = j = 0
    for k in range(1, len(sent)):
        tx = sent[k]
        if tx.ambiguous or not tx.has_data or tx.low != highest_sent[k - 1]:
            continue
        while j < len(acks) and acks[j].number < tx.high:
            j += 1
        in_order += 1
        acked_at_once += j < len(acks) and acks[j].number == tx.high
    return max(2 * acked_at_once - in_order + 1, 1) / (in_order + 2)


@inner
def _read_transmission(tx, i, segments):
    """Segment i as a COPY, but for its place among the user's packets and its size."""
    tx.segment, tx.ts = i, segments.ts[i]
    tx.low = segments.number[i]
    tx.high = tx.low + sequence_length(segments.tcp_flags[i], segments.payload_len[i])
    tx.ts_val, tx.has_ts = segments.ts_val[i], segments.has_timestamps[i]
    tx.is_syn, tx.has_data = segments.tcp_flags[i] & SYN != 0, segments.payload_len[i] > 0
    tx.overtaken = tx.ambiguous = tx.last_candidate = tx.ack_observable = False
    tx.fate, tx.ack_ts = UNPROVEN, 0
    tx.work = tx.floor = tx.ceiling = tx.clock = 0.0


@inner
def _read_ack(ack, i, segments):
    """Segment i as an ACK_SEEN, by itself."""
    ack.ts, ack.number, ack.window = segments.ts[i], segments.number[i], segments.window[i]
    ack.ts_ecr, ack.has_ts = segments.ts_ecr[i], segments.has_timestamps[i]
    ack.sack_begin, ack.sack_count = segments.sack_at[i], segments.sack_count[i]
    ack.block_low = ack.block_high = NONE
    ack.unseen_before, ack.unseen_shared = UNKNOWN, False
    ack.window_change_cost = 0.0
    ack.unexplained_cost = costs.UNEXPLAINED_SACK if ack.sack_count else costs.UNEXPLAINED_DUP_ACK
    if segments.payload_len[i] or segments.tcp_flags[i] & (SYN | FIN):
        ack.unexplained_cost = 0.0
    if ack.sack_count >= 2:
        sack_edges = segments.sack_edges
        ack.block_low = unwrap(sack_edges[ack.sack_begin], ack.number)
        ack.block_high = unwrap(sack_edges[ack.sack_begin + 1], ack.number)


@inner
def _set_window_costs(ack, previous, sack_edges):
    """What an ACK costs beside the one before it: where it moves the window, it may say no more."""
    window_changed = ack.window != previous.window
    ack.window_change_cost = costs.DUP_ACK_MOVES_WINDOW if window_changed else 0.0
    if ack.unexplained_cost > 0 and window_changed and _has_same_blocks(ack, previous, sack_edges):
        ack.unexplained_cost = costs.WINDOW_UPDATE


@inner
def _has_same_blocks(a, b, sack_edges):
    if a.sack_count != b.sack_count:
        return False
    for k in range(a.sack_count):
        if sack_edges[a.sack_begin + k] != sack_edges[b.sack_begin + k]:
            return False
    return True
