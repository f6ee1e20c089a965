"""An ACK, as the server hears it: what is in flight, the round trip, the state it leads to."""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.loss.sack import is_d_sack
from spark_jobs.estimators.sender import flight, limits, samples, state, timer, window
from spark_jobs.estimators.sender.state import LOSS, OPEN, RECOVERY
from spark_jobs.estimators.sequence import NONE, unwrap

BY_FRTO, BY_EIFEL, BY_DSACK = 1, 2, 4
"""What tells that a timeout came too soon: data arrived that had been sent once, before it (RFC
5682); an older timestamp than its retransmission's is echoed (RFC 3522); its retransmission came twice (RFC
3708)."""


class Ack(NamedTuple):
    """What the server hears."""

    at: np.int64
    """When (µs, the server's clock)."""
    number: np.int64
    window: np.int64
    """B"""
    echoed: np.int64
    """The echoed timestamp, or NONE."""
    has_data: bool
    blocks: np.int64
    """Where its SACK edges are, and how many."""
    edges: np.int64


class Told(NamedTuple):
    """What SACK blocks tell."""

    news: np.int64
    """Segments reported for the first time;"""
    first_sent: np.int64
    """when the first of these that was sent once was sent, or NONE (µs);"""
    last_sent: np.int64
    """when the highest of them was sent, if it has data, was sent once, and Gi has seen it, or NONE
    (µs),"""
    flight: np.int64
    """and the bytes in flight then;"""
    original: bool
    """one such was sent before the last timeout;"""
    again: bool
    """what the last timeout had retransmitted first came twice (D-SACK)."""


@inner
def hear(s, sent, edges, ack, sack_edges, place):
    """An Ack is heard; sack_edges uint32: all SACK edges. Returns what tells that the last timeout
    came too soon: BY_FRTO, BY_EIFEL, BY_DSACK or 0."""
    s.highest = max(s.highest, ack.number)
    opened = ack.window > s.offered or ack.window == 0
    advanced = ack.number > s.acked
    limit, before = limits.limit_of(s), s.heard
    s.flight_before = flight.in_flight(s)
    s.alone = ack.at - max(s.heard, s.sent_last) > place.clock.round_trip
    told = Told(np.int64(0), NONE, NONE, np.int64(0), False, False)
    if s.sack and ack.edges >= 2:
        told = _read_blocks(s, sent, ack.number, sack_edges[ack.blocks : ack.blocks + ack.edges])
    acked = flight.acknowledge(s, sent, ack.number, ack.echoed)
    if advanced:
        s.acked = ack.number
        s.retransmitted_since = False
        if s.probed != NONE and ack.number >= s.probed:
            s.probed = NONE
    s.offered, s.heard, s.gained = ack.window, ack.at, acked.gained
    if advanced or told.news or opened:
        s.told = ack.at
    if s.busy_since != NONE:
        _share_time(s, ack.at, (acked, told), limit, before, place)
    elif limit == limits.MOBILE:
        limits.share(s, limit, ack.at)
    if ack.has_data:
        limits.ask(s, ack.at)
    _measure(s, ack, acked, told, place.rules)
    _see_round_trip(s, ack, acked, told, place.clock)
    s.awaits = s.alone
    duplicate = told.news > 0 if s.sack else not (advanced or opened or ack.has_data)
    duplicate &= s.head < s.tail
    original = (acked.original or told.original) and (s.sack or not acked.retransmitted)
    spurious = _move_on(s, sent, ack, duplicate, original)
    if told.again:
        spurious |= BY_DSACK
    arrived = acked.arrived + told.news + (duplicate and not s.sack)
    window.grow(s, arrived, advanced)
    if s.head == s.tail:
        flight.empty(s)
        s.highest_sacked = NONE
        s.timer = timer.NO_TIMER
    elif acked.gained:
        timer.arm(s, sent, ack.at, True, place.rules)
    elif told.first_sent != NONE and s.state == OPEN and s.timer != timer.NO_TIMER:
        s.timer = timer.REORDERING
        s.due = np.int64(ack.at + s.least_rtt * timer.REORDERING_SHARE)
    window.look(s, ack.at)
    window.offer(s, edges, ack.at)
    if s.head == s.tail:
        state.rest(s, ack.at)
    return spurious


@inner
def _read_blocks(s, sent, number, blocks):
    """What the SACK blocks tell, of Told."""
    news, first_sent, original, again = np.int64(0), NONE, False, False
    last_sent, under_way, begin = NONE, np.int64(0), 0
    if is_d_sack(blocks, number):
        begin = 2
        low, high = unwrap(blocks[0], number), unwrap(blocks[1], number)
        again = low < s.first_high and s.first_low < high
    for k in range(begin, len(blocks) - 1, 2):
        low, high = unwrap(blocks[k], number), unwrap(blocks[k + 1], number)
        more, sent_at, once, highest = flight.report(s, sent, low, high)
        news += more
        original |= once
        first_sent = sent_at if first_sent == NONE else first_sent
        # The first block has what the ACK answers (RFC 2018, 4).
        if highest != NONE and last_sent == NONE:
            segment = sent[highest]
            if segment.copies == 1 and not segment.unseen and segment.flight:
                last_sent, under_way = segment.sent, segment.flight
    return Told(news, first_sent, last_sent, under_way, original, again)


@inner
def _measure(s, ack, acked, told, rules):
    """A round trip: of data sent once (Karn), else of a timestamp (RFC 7323, 4)."""
    if acked.first_sent != NONE and not acked.retransmitted:
        timer.measure(s, float(ack.at - acked.first_sent), rules)
    elif told.first_sent != NONE:
        timer.measure(s, float(ack.at - told.first_sent), rules)
    elif acked.stamped != NONE:
        timer.measure(s, float(ack.at - acked.stamped), rules)


@inner
def _share_time(s, now, news, limit, heard, place):
    """What held the server back between the ACK heard before and this one; news: (Acked, Told)."""
    acked, told = news
    answered = acked.retransmitted_at if acked.retransmitted else acked.last_sent
    if answered == NONE:
        answered = told.first_sent
    if answered != NONE:
        s.was_busy = limits.is_busy(answered, heard, place)
    limits.share(s, limits.CHANNEL if s.was_busy else limit, now)


@inner
def _see_round_trip(s, ack, acked, told, clock):
    """The round trip between Gi and the mobile, of what an ACK answers: a SACK block at once (RFC
    5681, 4.2)."""
    answered = acked.retransmitted or (not s.sack and s.duplicates > 0)
    sent_at = NONE if answered else acked.last_sent
    under_way, delayed = acked.flight, acked.gained == 1
    if acked.retransmitted and acked.gained == 1:
        sent_at = acked.stamped
    if acked.gained == 0 and told.last_sent != NONE:
        sent_at, under_way, delayed = told.last_sent, told.flight, False
    if sent_at != NONE and under_way:
        rtt = ack.at - sent_at - clock.round_trip
        samples.take(s, samples.ACCESS, rtt, under_way, delayed)


@inner
def _move_on(s, sent, ack, duplicate, original):
    """The state after an Ack; original: data that was sent but once, before the last timeout, has
    arrived. Returns what tells that that timeout came too soon."""
    spurious = np.int64(0)
    if s.state == LOSS:
        spurious = _after_timeout(s, sent, ack, duplicate, original)
    elif s.state == RECOVERY and _is_repaired(s):
        s.state = OPEN
        s.duplicates = 0
        flight.forgive(s, sent)
        window.end_recovery(s)
    elif s.state == RECOVERY and s.gained and not s.sack:
        flight.lose_head(s, sent)
    if s.gained:
        s.duplicates = 0 if s.state != RECOVERY else max(s.duplicates - s.gained + 1, 0)
    if duplicate:
        most = s.tail - s.head - 1
        s.duplicates = s.duplicates + 1 if s.state == LOSS else min(s.duplicates + 1, most)
    return spurious


@inner
def _is_repaired(s):
    """Without SACK one more byte must be acknowledged than was sent when the loss was noticed, lest
    duplicate ACKs of retransmissions tell of another (RFC 6582, 3.2)."""
    if s.sack or s.head == s.tail:
        return s.acked >= s.recover
    return s.acked > s.recover


@inner
def _after_timeout(s, sent, ack, duplicate, original):
    """F-RTO (RFC 5682) and Eifel (RFC 3522)."""
    spurious = np.int64(0)
    if s.gained and ack.echoed != NONE and s.first_stamp != NONE:
        if np.int32(np.uint32(ack.echoed) - np.uint32(s.first_stamp)) < 0:
            spurious |= BY_EIFEL
            s.first_stamp = NONE
            _undo(s, sent, s.sack)
    if s.state == LOSS and s.may_be_spurious:
        if original:
            spurious |= BY_FRTO
            _undo(s, sent, True)
        elif s.highest > s.recover:
            s.may_be_spurious = not duplicate
        elif s.gained and s.acked < s.recover:
            s.recover = s.highest
    if s.state == LOSS and _is_repaired(s):
        s.state = OPEN
    return spurious


@inner
def _undo(s, sent, reopen):
    """The last timeout came too soon; reopen: the sender goes on as if nothing had been. Without
    SACK, Linux waits for F-RTO to say so, too."""
    flight.forgive(s, sent)
    window.undo(s)
    if reopen:
        s.state = OPEN
        s.may_be_spurious = False
        s.duplicates = 0
