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

COPY = np.dtype(
    [
        ("at", "i8"),
        ("low", "i8"),
        ("high", "i8"),
        ("ts", "i8"),
        ("place", "i8"),
        ("size", "i8"),
        ("work", "f8"),
        ("floor", "f8"),
        ("ceiling", "f8"),
        ("clock", "f8"),
        ("answered", "i8"),
        ("ts_val", "u4"),
        ("has_ts", "?"),
        ("old", "?"),
        ("opens", "?"),
        ("ambiguous", "?"),
        ("last", "?"),
        ("data", "?"),
        ("watched", "?"),
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

ACK_SEEN = np.dtype(
    [
        ("ts", "i8"),
        ("value", "i8"),
        ("sack_at", "i8"),
        ("block_low", "i8"),
        ("block_high", "i8"),
        ("stray", "f8"),
        ("moved", "f8"),
        ("unseen", "i4"),
        ("shared", "?"),
        ("ecr", "u4"),
        ("window", "u2"),
        ("sack_count", "u1"),
        ("has_ts", "?"),
    ]
)
"""An uplink packet at Gi: time (µs), what it acknowledges, its SACK blocks' place and the first of
them, what it costs as a stray and as a duplicate ACK of data (see `costs`); how many the mobile
sent since the last one that Gi never saw (NOT_TOLD: who knows), or at most, for others share what
was passed over; echoed timestamp, window."""

NOT_TOLD = -1

SEEN = np.dtype(
    [
        ("copy", "i8"),
        ("copy_end", "i8"),
        ("ack", "i8"),
        ("ack_end", "i8"),
        ("acked", "i8"),
        ("longest", "i8"),
        ("reached", "i8"),
        ("unproven", "i8"),
        ("lost", "i8"),
        ("seen", "?"),
        ("questions", "?"),
        ("twice", "?"),
        ("waited", "f8"),
    ]
)
"""A connection: where its copies and ACKs lie among its user's; the highest ACK; the longest round
trip that is certain (µs); a copy that had arrived, or a later one had (-1: none); how many copies
are unproven and how many certainly lost; seen: both directions were; questions: a copy is
ambiguous; twice: a D-SACK told of what came twice; waited: see `Heard`."""


class Heard(NamedTuple):
    """What the mobile told of a connection."""

    acks: np.ndarray
    """ACK_SEEN[m]"""
    edges: np.ndarray
    """uint32[..]: the SACK edges that the ACKs point to."""
    sack: bool
    """SACK is permitted."""
    acked: int
    """The highest ACK."""
    d_sack: bool
    """The mobile tells by D-SACK (RFC 2883) what came twice: it has done so."""
    waited: float
    """What it costs that the ACK of a single segment waited for the next one (see `costs`)."""
    longest: int
    """The longest round trip that is certain (µs; 0: none is)."""


class Exchange(NamedTuple):
    """A connection."""

    copies: np.ndarray
    """COPY[n]"""
    top: np.ndarray
    """int64[n]: the highest number sent up to each copy."""
    heard: Heard


class UserExchanges(NamedTuple):
    """A user's connections, one after another; of those without questions, nothing is kept but
    their SEEN."""

    copies: np.ndarray
    """COPY[n]"""
    top: np.ndarray
    """int64[n]"""
    acks: np.ndarray
    """ACK_SEEN[m]"""
    seen: np.ndarray
    """SEEN[connections]"""
    d_sack: bool
    """A D-SACK is among all."""


@making
def exchange_of(exchanges, x, edges, sack):
    """A user's connection x; edges: all SACK edges; sack: whether it is permitted."""
    seen = exchanges.seen[x]
    acks = exchanges.acks[seen.ack : seen.ack_end]
    return Exchange(
        exchanges.copies[seen.copy : seen.copy_end],
        exchanges.top[seen.copy : seen.copy_end],
        Heard(acks, edges, sack, seen.acked, exchanges.d_sack, seen.waited, seen.longest),
    )


@making
def read_user(segments, connections, packets, original):
    """UserExchanges of a user's Connections and all Segments and Packets.

    Fills original int64[N]: the last packet before each that carried some of the same data, -1:
    none.
    """
    begin, end = connections.first[0], connections.first[-1]
    sent = np.count_nonzero(segments.downlink[begin:end])
    room = UserExchanges(
        np.empty(sent, COPY),
        np.empty(sent, np.int64),
        np.empty(end - begin - sent, ACK_SEEN),
        np.zeros(len(connections.user), SEEN),
        False,
    )
    n = m = 0
    for x in range(len(room.seen)):
        mine = room.seen[x]
        left = UserExchanges(
            room.copies[n:], room.top[n:], room.acks[m:], room.seen[x : x + 1], False
        )
        got, told = _read(x, segments, connections, packets, left, original)
        if not mine.questions:
            continue
        mine.copy, mine.copy_end, mine.ack, mine.ack_end = n, n + got, m, m + told
        n, m = n + got, m + told
    d_sack = bool(room.seen["twice"].any())
    return UserExchanges(room.copies[:n], room.top[:n], room.acks[:m], room.seen, d_sack)


@inner
def _read(x, segments, connections, packets, to, original):
    """Writes a connection's copies, ACKs and SEEN to the beginning of UserExchanges, and fills
    original. Returns how many copies and ACKs there are."""
    copies, top, acks, seen = to.copies, to.top, to.acks, to.seen[0]
    begins = packets.first[connections.user[x]]
    number, downlink = segments.number, segments.downlink
    if _leaves_no_question(connections.first[x], connections.first[x + 1], segments, seen):
        return 0, 0
    n = m = 0
    highest = acked = NONE
    newest = np.uint32(0)
    for i in range(connections.first[x], connections.first[x + 1]):
        if number[i] == NONE:
            continue
        if not downlink[i]:
            _read_ack(acks[m], i, segments)
            if m:
                _compare(acks[m], acks[m - 1], segments.sack_edges)
            if acks[m].sack_count >= 2:
                at = acks[m].sack_at
                blocks = segments.sack_edges[at : at + acks[m].sack_count]
                seen.twice |= is_d_sack(blocks, acks[m].value)
            acked = max(acked, number[i])
            m += 1
            continue
        c = copies[n]
        _read_copy(c, i, segments)
        if c.has_ts:
            c.old = n > 0 and np.int32(newest - c.ts_val) > 0
            newest = newest if c.old else c.ts_val
        place = segments.place[i]
        c.place = place - begins
        c.size = packets.downlink_bytes_before[place + 1] - packets.downlink_bytes_before[place]
        if highest != NONE and c.low < min(c.high, highest):
            for k in range(first_above(top, 0, n, c.low), n):
                if max(c.low, copies[k].low) < min(c.high, copies[k].high):
                    copies[k].ambiguous = c.ambiguous = True
                    if copies[k].data or not c.data:  # no bare FIN is the original of data
                        original[i] = copies[k].at
        highest = max(highest, c.high)
        top[n] = highest
        n += 1
    seen.acked, seen.seen = acked, n > 0 and m > 0
    for k in range(n):
        copies[k].ambiguous |= copies[k].high > max(acked, copies[k].low)
        seen.questions |= copies[k].ambiguous and seen.seen
    if seen.questions:
        seen.waited = -np.log(1 - _alone(copies[:n], top, acks[:m]))
        _set_unseen(connections.first[x], connections.first[x + 1], segments, packets, acks)
    return n, m


@inner
def _leaves_no_question(begin, end, segments, seen):
    """Whether segments [begin, end) of a connection leave nothing to decide: nothing was sent that
    might have been sent before, all of it was acknowledged, no SACK block came. If so, SEEN is all
    that is told of it."""
    number, downlink, sack_count = segments.number, segments.downlink, segments.sack_count
    flags, payload = segments.tcp_flags, segments.payload_len
    highest = sent = acked = NONE
    down = up = False
    for i in range(begin, end):
        if number[i] == NONE:
            continue
        if not downlink[i]:
            if sack_count[i]:
                return False
            acked, up = max(acked, number[i]), True
            continue
        high = number[i] + sequence_length(flags[i], payload[i])
        if highest != NONE and number[i] < min(high, highest):
            return False
        highest, down = max(highest, high), True
        sent = max(sent, high) if high > number[i] else sent
    if down and up and sent > acked:
        return False
    seen.acked, seen.seen = acked, down and up
    return True


@inner
def _set_unseen(begin, end, segments, packets, acks):
    """Sets how many packets a mobile sent before each ACK that Gi never saw, by IP IDs, as far as
    they count the packets of segments [begin, end); what else they count may stand between."""
    counts, alone = ip_ids.counter_kind(begin, end, segments, False)
    before = np.int64(-1)
    m, passed, shared = 0, np.int64(0), False
    for i in range(begin, end):
        if segments.downlink[i]:
            continue
        told = counts and segments.ip_id[i] != 0 and segments.tcp_flags[i] & RST == 0
        if told:
            latest = np.int64(segments.ip_id[before]) if before >= 0 else np.int64(0)
            step = ip_ids.ahead(segments.ip_id[i], latest) if before >= 0 else np.int64(0)
            told = step > 0
            if told:
                others = ip_ids.packets_of_others(
                    packets, segments.place[before], segments.place[i], step
                )
                shared |= others > 0
                passed += step - 1 - others
            if step > 0 or before < 0:
                before = np.int64(i)
        if segments.number[i] != NONE:
            acks[m].unseen = passed if told and (alone or passed == 0) else NOT_TOLD
            acks[m].shared = shared
            m += 1
            passed, shared = np.int64(0), False


@inner
def _alone(copies, top, acks):
    """The share of segments in order that the mobile acknowledges without waiting for a second
    (RFC 9293, 3.8.6.3): of those that it does wait with, it acknowledges every second."""
    seen = told = j = 0
    for k in range(1, len(copies)):
        c = copies[k]
        if c.ambiguous or not c.data or c.low != top[k - 1]:
            continue
        while j < len(acks) and acks[j].value < c.high:
            j += 1
        seen += 1
        told += j < len(acks) and acks[j].value == c.high
    return max(2 * told - seen + 1, 1) / (seen + 2)


@inner
def _read_copy(c, i, segments):
    """Segment i as a COPY, but for its place among the user's packets and its size."""
    c.at, c.ts = i, segments.ts[i]
    c.low = segments.number[i]
    c.high = c.low + sequence_length(segments.tcp_flags[i], segments.payload_len[i])
    c.ts_val, c.has_ts = segments.ts_val[i], segments.has_timestamps[i]
    c.opens, c.data = segments.tcp_flags[i] & SYN != 0, segments.payload_len[i] > 0
    c.old = c.ambiguous = c.last = c.watched = False
    c.fate, c.answered = UNPROVEN, 0
    c.work = c.floor = c.ceiling = c.clock = 0.0


@inner
def _read_ack(ack, i, segments):
    """Segment i as an ACK_SEEN, by itself."""
    ack.ts, ack.value, ack.window = segments.ts[i], segments.number[i], segments.window[i]
    ack.ecr, ack.has_ts = segments.ts_ecr[i], segments.has_timestamps[i]
    ack.sack_at, ack.sack_count = segments.sack_at[i], segments.sack_count[i]
    ack.block_low = ack.block_high = NONE
    ack.unseen, ack.shared = NOT_TOLD, False
    ack.moved = 0.0
    ack.stray = costs.STRAY_SACK if ack.sack_count else costs.STRAY_ACK
    if segments.payload_len[i] or segments.tcp_flags[i] & (SYN | FIN):
        ack.stray = 0.0
    if ack.sack_count >= 2:
        edges = segments.sack_edges
        ack.block_low = unwrap(edges[ack.sack_at], ack.value)
        ack.block_high = unwrap(edges[ack.sack_at + 1], ack.value)


@inner
def _compare(ack, before, edges):
    """What an ACK costs beside the one before it: where it moves the window, it may say no more."""
    moved = ack.window != before.window
    ack.moved = costs.MOVED_WINDOW if moved else 0.0
    if ack.stray > 0 and moved and _same_blocks(ack, before, edges):
        ack.stray = costs.WINDOW_UPDATE


@inner
def _same_blocks(a, b, edges):
    if a.sack_count != b.sack_count:
        return False
    for k in range(a.sack_count):
        if edges[a.sack_at + k] != edges[b.sack_at + k]:
            return False
    return True
