"""What a server has sent and not heard acknowledged: its scoreboard (RFC 6675, 3)."""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.sequence import NONE

SENT = np.dtype(
    [
        ("low", "i8"),
        ("high", "i8"),
        ("data_high", "i8"),
        ("sent", "i8"),
        ("last", "i8"),
        ("stamp", "i8"),
        ("first_stamp", "i8"),
        ("flight", "i8"),
        ("copies", "i4"),
        ("sacked", "?"),
        ("lost", "?"),
        ("unseen", "?"),
    ]
)
"""A segment: its range of the stream; where its data ends; when it was first and when last sent
(µs, the server's clock), and with which timestamps, last and first (or NONE); the bytes in flight
then, its own included (0: it has no data); how often it was sent.

sacked   the mobile reported it
lost     the sender takes it for lost and has not sent it again
unseen   Gi has not seen it; it is taken to have been sent with what came after it
"""


class Segment(NamedTuple):
    """What the server sends."""

    at: np.int64
    """When (µs, the server's clock)."""
    low: np.int64
    high: np.int64
    """Its range of the stream."""
    stamp: np.int64
    """Its timestamp, or NONE."""
    data: np.int64
    """How many bytes of it are data."""
    ip_id: np.int64
    place: np.int64
    """Which of the segments it is."""
    acked: np.int64
    """The highest ACK that had passed Gi before it."""


class Acked(NamedTuple):
    """What an ACK's number tells."""

    gained: np.int64
    """So many segments are acknowledged,"""
    arrived: np.int64
    """of which so many had not been reported;"""
    first_sent: np.int64
    """when the first of these that was sent once was sent, or NONE (µs);"""
    stamped: np.int64
    """when the one was sent whose timestamp the ACK echoes, or NONE (µs);"""
    last_sent: np.int64
    """when the last of them with data was sent, if once and Gi has seen it, or NONE (µs),"""
    flight: np.int64
    """and the bytes in flight then; 0: the very last, which the ACK answers, is a bare FIN;"""
    retransmitted_at: np.int64
    """when the last copy was sent of one that had been retransmitted, or NONE (µs);"""
    retransmitted: bool
    """some had been retransmitted;"""
    original: bool
    """some had been sent but once, before the last timeout."""


@inner
def add(s, sent, low, high, segment):
    """New data, of SENDER s with its SENT[..], is sent with a Segment, or was shortly before it."""
    k = sent[s.tail]
    k.low, k.high = low, high
    k.data_high = min(high, segment.low + segment.data) if segment.data else high
    k.stamp = k.first_stamp = segment.stamp
    k.sent = k.last = segment.at
    k.flight = high - min(low, segment.acked) if segment.data else 0
    k.copies = 1
    k.sacked, k.lost, k.unseen = False, False, high <= segment.low
    s.tail += 1


@inner
def first_beyond(s, sent, number):
    """The first segment in flight that ends above `number`, or s.tail."""
    low, high = s.head, s.tail
    while low < high:
        middle = (low + high) >> 1
        if sent[middle].high > number:
            high = middle
        else:
            low = middle + 1
    return low


@inner
def in_flight(s):
    """Segments that the sender believes to be on their way (RFC 6675, 4: pipe): without SACK each
    duplicate ACK tells of one that has arrived (RFC 5681, 3.2)."""
    under_way = s.tail - s.head - s.lost
    if s.sack:
        return under_way - s.sacked
    return under_way - min(s.duplicates, max(s.tail - s.head - 1, 0))


@inner
def acknowledge(s, sent, number, echoed):
    """The mobile acknowledges all up to a number; echoed: a timestamp, or NONE. Returns Acked."""
    gained = arrived = np.int64(0)
    first_sent = last_sent = retransmitted_at = stamped = NONE
    under_way = np.int64(0)
    retransmitted = original = False
    while s.head < s.tail and sent[s.head].high <= number:
        segment = sent[s.head]
        gained += 1
        if echoed != NONE and segment.stamp == echoed:
            stamped = segment.last
        elif echoed != NONE and segment.first_stamp == echoed:
            stamped = segment.sent
        if segment.copies > 1:
            retransmitted = True
            retransmitted_at = max(retransmitted_at, segment.last)
        elif not segment.sacked:
            first_sent = segment.sent if first_sent == NONE else first_sent
            original |= segment.high <= s.recover
        if segment.flight:
            last_sent = NONE if segment.unseen or segment.sacked else segment.sent
            under_way = segment.flight
        else:
            under_way = np.int64(0)
        arrived += not segment.sacked
        s.sacked -= segment.sacked
        s.lost -= segment.lost
        s.head += 1
    if s.head < s.tail and sent[s.head].low < number:
        sent[s.head].low = number
    return Acked(
        gained,
        arrived,
        first_sent,
        stamped,
        last_sent,
        under_way,
        retransmitted_at,
        retransmitted,
        original,
    )


@inner
def report(s, sent, low, high):
    """The mobile reports a range, with a FIN at its end (Linux) or without (BSD). Returns (how many
    segments are news; when the lowest of them that was sent once was sent, or NONE; whether one
    such was sent before the last timeout; the highest of them, or NONE)."""
    news, earliest, original, highest = np.int64(0), NONE, False, NONE
    k = first_beyond(s, sent, low)
    while k < s.tail and sent[k].data_high <= high:
        segment = sent[k]
        if not segment.sacked and segment.low >= low:
            segment.sacked = True
            s.sacked += 1
            s.lost -= segment.lost
            segment.lost = False
            news += 1
            highest = k
            if segment.copies == 1:
                earliest = segment.sent if earliest == NONE else earliest
                original |= segment.high <= s.recover
        k += 1
    if news and high > s.highest_sacked:
        _lose_below(s, sent, high)
    return news, earliest, original, highest


@inner
def _lose_below(s, sent, high):
    """What lies below a range that the mobile reported, and has not been retransmitted, is lost."""
    k = first_beyond(s, sent, s.highest_sacked)
    while k < s.tail and sent[k].high <= high:
        segment = sent[k]
        if not segment.sacked and segment.copies == 1 and not segment.lost:
            segment.lost = True
            s.lost += 1
        k += 1
    s.highest_sacked = high


@inner
def lose_head(s, sent):
    """Without SACK it is the oldest segment that duplicate and partial ACKs tell of (RFC 6582)."""
    if s.head < s.tail and not sent[s.head].lost:
        sent[s.head].lost = True
        s.lost += 1


@inner
def lose_all(s, sent):
    """A timeout: what the mobile has not reported is lost (RFC 6675, 5.1)."""
    for k in range(s.head, s.tail):
        if not sent[k].sacked and not sent[k].lost:
            sent[k].lost = True
            s.lost += 1


@inner
def forgive(s, sent):
    """Nothing is lost: all is repaired, or the timeout came too soon."""
    for k in range(s.head, s.tail):
        sent[k].lost = False
    s.lost = 0


@inner
def retransmission(s, sent, segment):
    """A Segment is retransmitted."""
    k = first_beyond(s, sent, segment.low)
    while k < s.tail and sent[k].low < segment.high:
        sent[k].copies += 1
        sent[k].last, sent[k].stamp = segment.at, segment.stamp
        if sent[k].flight:
            sent[k].flight = s.highest - min(segment.low, segment.acked)
        s.lost -= sent[k].lost
        sent[k].lost = False
        k += 1


@inner
def empty(s):
    """Nothing is in flight any more."""
    s.head = s.tail
    s.sacked = s.lost = s.duplicates = 0
