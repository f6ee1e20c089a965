"""A user's connections as Gi saw them: downlink transmissions, and ACKs from the mobile."""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import inner, making
from spark_jobs.estimators import ip_ids
from spark_jobs.estimators.loss import costs
from spark_jobs.estimators.loss.sack import is_d_sack
from spark_jobs.estimators.sequence import (
    MAX_WORK,
    NONE,
    first_above,
    search_begin,
    sequence_length,
    unwrap,
)
from spark_jobs.estimators.tcp import FIN, RST, SYN

UNPROVEN, LOST, ARRIVED = 0, 1, 2
"""Fates of a transmission, as far as order alone proves them (see `order`)."""

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
"""A downlink segment as Gi saw it.

segment: index of the segment.
low, high: its range [low, high) in the downlink stream.
ts: time at Gi (µs).
packet: index among the user's packets.
size: IP bytes.
work, floor, ceiling: what the link did since the connection's previous transmission (see `link`).
clock: the link's clock before it (see `link`).
ack_ts: time of the ACK for it, if that is certain, else 0 (µs).
ts_val, has_ts: TSval, and whether the segment has the timestamp option (RFC 7323).
overtaken: a transmission with a newer timestamp passed Gi before it.
is_syn: it has the SYN flag.
ambiguous: another transmission overlaps it, or it was never acknowledged.
last_candidate: no later transmission can have brought what was reported, at the time of the report.
has_data: it has payload.
ack_observable: the capture goes on long enough to have the ACK for it.
fate: the fate that order alone proves.
"""

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
"""An uplink packet as Gi saw it.

ts: time at Gi (µs).
number: the acknowledgment number.
sack_begin, sack_count: its SACK edges, by the first one's index in all edges and their number.
block_low, block_high: the first SACK block (NONE: it has none).
unexplained_cost: its cost if no arrival explains it (see `costs`).
window_change_cost: its cost, for a change of the window, as a duplicate ACK for data (see `costs`).
unseen_before: packets that the mobile sent since its previous one and that Gi did not see (UNKNOWN:
    IP IDs do not show it).
unseen_shared: `unseen_before` is an upper bound, because other connections took some of the IP IDs.
ts_ecr, has_ts: TSecr, and whether it has the timestamp option (RFC 7323).
window: the window field.
"""

UNKNOWN = -1
"""The number of unseen packets if IP IDs do not show it."""

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
"""A connection of a user.

tx_begin, tx_end: range of its transmissions among the user's.
ack_begin, ack_end: range of its ACKs among the user's.
highest_ack: the highest acknowledgment number.
max_rtt: the longest RTT that is certain (µs).
last_arrived: index of a transmission of which this is proven: it or a later one had arrived (-1:
    none).
unproven: number of ambiguous transmissions whose fate order does not prove.
lost: number of transmissions that order proves lost.
both_directions: Gi saw both directions.
ambiguous: a transmission is ambiguous, and Gi saw both directions.
d_sack: an ACK has a D-SACK (RFC 2883).
delayed_ack_cost: see `Feedback`.
"""


class Feedback(NamedTuple):
    """The mobile's reports in a connection."""

    acks: np.ndarray
    """ACK[m]"""
    sack_edges: np.ndarray
    """uint32[..]: the SACK edges to which the ACKs point."""
    sack_permitted: bool
    """True if SACK is permitted."""
    highest_ack: int
    """The highest acknowledgment number."""
    sends_d_sack: bool
    """True if the mobile has sent a D-SACK, so that it reports duplicates (RFC 2883)."""
    delayed_ack_cost: float
    """Cost if the ACK for a single segment waited for the next segment (see `costs`)."""
    max_rtt: int
    """The longest RTT that is certain (µs; 0: none is)."""


class Observation(NamedTuple):
    """A connection as Gi saw it."""

    transmissions: np.ndarray
    """TRANSMISSION[n]"""
    highest_sent: np.ndarray
    """int64[n]: the end of the highest data sent up to and including each transmission."""
    feedback: Feedback


class UserObservation(NamedTuple):
    """A user's connections, one after another.

    Of a connection without ambiguous transmissions, only the SUMMARY is kept.
    """

    transmissions: np.ndarray
    """TRANSMISSION[n]"""
    highest_sent: np.ndarray
    """int64[n]: see `Observation`."""
    acks: np.ndarray
    """ACK[m]"""
    summaries: np.ndarray
    """SUMMARY[connections]"""
    d_sack: bool
    """True if an ACK of any connection has a D-SACK."""


@making
def connection_observation(user_observation, connection, sack_edges, sack_permitted):
    """Return the Observation of one of a user's connections.

    sack_edges: all SACK edges; sack_permitted: whether SACK is permitted in this connection.
    """
    summary = user_observation.summaries[connection]
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
    """Return the UserObservation of a user's Connections, from all Segments and Packets.

    Sets original int64[N]: the previous packet that carried some of the same data (-1: none).
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
    for connection in range(len(buffers.summaries)):
        summary = buffers.summaries[connection]
        free = UserObservation(
            buffers.transmissions[n:],
            buffers.highest_sent[n:],
            buffers.acks[m:],
            buffers.summaries[connection : connection + 1],
            False,
        )
        tx_count, ack_count = _read_connection(
            connection, segments, connections, packets, free, original
        )
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
def _read_connection(connection, segments, connections, packets, out, original):
    """Write a connection's transmissions, ACKs and SUMMARY to the start of a UserObservation.

    Sets `original`, too (see `read_user`). Returns the number of transmissions and of ACKs.
    """
    sent, highest_sent, acks, summary = (
        out.transmissions,
        out.highest_sent,
        out.acks,
        out.summaries[0],
    )
    user_begin = packets.first[connections.user[connection]]
    number, downlink = segments.number, segments.downlink
    if _is_unambiguous(
        connections.first[connection], connections.first[connection + 1], segments, summary
    ):
        return 0, 0
    n = m = 0
    highest = highest_ack = NONE
    newest_ts_val = np.uint32(0)
    steps_left = MAX_WORK * (connections.first[connection + 1] - connections.first[connection])
    for i in range(connections.first[connection], connections.first[connection + 1]):
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
        tx.size = packets.downlink_bytes_before[packet + 1] - packets.downlink_bytes_before[packet]
        if highest != NONE and tx.low < min(tx.high, highest):
            k = first_above(highest_sent, 0, n, tx.low)
            begin = search_begin(k, n, steps_left)
            steps_left -= n - begin
            while k < n:  # the first transmission of its first byte, and those from `begin` on
                if max(tx.low, sent[k].low) < min(tx.high, sent[k].high):
                    sent[k].ambiguous = tx.ambiguous = True
                    if sent[k].has_data or not tx.has_data:  # no bare FIN is the original of data
                        original[i] = sent[k].segment
                k = max(k + 1, begin)
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
        _set_unseen_before(
            connections.first[connection],
            connections.first[connection + 1],
            segments,
            packets,
            acks,
        )
    return n, m


@inner
def _is_unambiguous(begin, end, segments, summary):
    """Return whether segments [begin, end), one connection, leave nothing to decide.

    This is so if no data was sent that might have been sent before, all data was acknowledged, and
    no SACK block came. In that case the function fills the SUMMARY.
    """
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
    """Set `unseen_before` and `unseen_shared` of a connection's ACKs, by the mobile's IP IDs.

    The connection's segments are [begin, end). Other connections' packets may have taken some of
    the IDs that are missing.
    """
    counts, exclusive = ip_ids.counter_kind(begin, end, segments, False)
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
                others = ip_ids.packets_of_others(
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
    """Return the share of in-order segments that the mobile acknowledges without delay.

    With delay, the mobile waits for a second segment and acknowledges both (RFC 9293, 3.8.6.3). So
    the segments without an ACK of their own are half of those whose ACK is delayed.
    """
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
    """Write segment i to a TRANSMISSION, except `packet` and `size`."""
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
    """Write segment i to an ACK, without regard to the ACK before it."""
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
    """Set what an ACK costs if its window differs from that of the previous ACK.

    An ACK with another window may be no more than a window update.
    """
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
