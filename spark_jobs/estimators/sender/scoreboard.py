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
        ("first_sent_at", "i8"),
        ("last_sent_at", "i8"),
        ("last_ts_val", "i8"),
        ("first_ts_val", "i8"),
        ("flight", "i8"),
        ("transmissions", "i4"),
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

    time: np.int64
    """When (µs, the server's clock)."""
    low: np.int64
    high: np.int64
    """Its range of the stream."""
    ts_val: np.int64
    """Its timestamp, or NONE."""
    payload_len: np.int64
    """How many bytes of it are data."""
    ip_id: np.int64
    index: np.int64
    """Which of the segments it is."""
    acked: np.int64
    """The highest ACK that had passed Gi before it."""


class AckedSegments(NamedTuple):
    """What an ACK's number tells."""

    newly_acked: np.int64
    """So many segments are acknowledged,"""
    delivered: np.int64
    """of which so many had not been reported;"""
    first_sent_at: np.int64
    """when the first of these that was sent once was sent, or NONE (µs);"""
    echoed_sent_at: np.int64
    """when the one was sent whose timestamp the ACK echoes, or NONE (µs);"""
    last_sent_at: np.int64
    """when the last of them with data was sent, if once and Gi has seen it, or NONE (µs),"""
    flight: np.int64
    """and the bytes in flight then; 0: the very last, which the ACK answers, is a bare FIN;"""
    retransmitted_at: np.int64
    """when the last copy was sent of one that had been retransmitted, or NONE (µs);"""
    retransmitted: bool
    """some had been retransmitted;"""
    original_arrived: bool
    """some had been sent but once, before the last timeout."""


@inner
def add(sender, sent, low, high, segment):
    """New data, of SENDER s with its SENT[..], is sent with a Segment, or was shortly before it."""
    row = sent[sender.tail]
    row.low, row.high = low, high
    row.data_high = min(high, segment.low + segment.payload_len) if segment.payload_len else high
    row.last_ts_val = row.first_ts_val = segment.ts_val
    row.first_sent_at = row.last_sent_at = segment.time
    row.flight = high - min(low, segment.acked) if segment.payload_len else 0
    row.transmissions = 1
    row.sacked, row.lost, row.unseen = False, False, high <= segment.low
    sender.tail += 1


@inner
def first_above(sender, sent, number):
    """The first segment in flight that ends above `number`, or s.tail."""
    low, high = sender.head, sender.tail
    while low < high:
        middle = (low + high) >> 1
        if sent[middle].high > number:
            high = middle
        else:
            low = middle + 1
    return low


@inner
def in_flight(sender):
    """Segments that the sender believes to be on their way (RFC 6675, 4: pipe): without SACK each
    duplicate ACK tells of one that has arrived (RFC 5681, 3.2)."""
    unacked = sender.tail - sender.head - sender.lost_count
    if sender.sack:
        return unacked - sender.sacked_count
    return unacked - min(sender.dup_acks, max(sender.tail - sender.head - 1, 0))


@inner
def acknowledge(sender, sent, number, ts_ecr):
    """The mobile acknowledges all up to a number; echoed: a timestamp, or NONE. Returns Acked."""
    newly_acked = delivered = np.int64(0)
    first_sent_at = last_sent_at = retransmitted_at = echoed_sent_at = NONE
    flight = np.int64(0)
    retransmitted = original_arrived = False
    while sender.head < sender.tail and sent[sender.head].high <= number:
        segment = sent[sender.head]
        newly_acked += 1
        if ts_ecr != NONE and segment.last_ts_val == ts_ecr:
            echoed_sent_at = segment.last_sent_at
        elif ts_ecr != NONE and segment.first_ts_val == ts_ecr:
            echoed_sent_at = segment.first_sent_at
        if segment.transmissions > 1:
            retransmitted = True
            retransmitted_at = max(retransmitted_at, segment.last_sent_at)
        elif not segment.sacked:
            first_sent_at = segment.first_sent_at if first_sent_at == NONE else first_sent_at
            original_arrived |= segment.high <= sender.recover
        if segment.flight:
            last_sent_at = NONE if segment.unseen or segment.sacked else segment.first_sent_at
            flight = segment.flight
        else:
            flight = np.int64(0)
        delivered += not segment.sacked
        sender.sacked_count -= segment.sacked
        sender.lost_count -= segment.lost
        sender.head += 1
    if sender.head < sender.tail and sent[sender.head].low < number:
        sent[sender.head].low = number
    return AckedSegments(
        newly_acked,
        delivered,
        first_sent_at,
        echoed_sent_at,
        last_sent_at,
        flight,
        retransmitted_at,
        retransmitted,
        original_arrived,
    )


@inner
def mark_sacked(sender, sent, low, high):
    """The mobile reports a range, with a FIN at its end (Linux) or without (BSD). Returns (how many
    segments are news; when the lowest of them that was sent once was sent, or NONE; whether one
    such was sent before the last timeout; the highest of them, or NONE)."""
    newly_sacked, first_sent_at, original_arrived, highest = np.int64(0), NONE, False, NONE
    k = first_above(sender, sent, low)
    while k < sender.tail and sent[k].data_high <= high:
        segment = sent[k]
        if not segment.sacked and segment.low >= low:
            segment.sacked = True
            sender.sacked_count += 1
            sender.lost_count -= segment.lost
            segment.lost = False
            newly_sacked += 1
            highest = k
            if segment.transmissions == 1:
                first_sent_at = segment.first_sent_at if first_sent_at == NONE else first_sent_at
                original_arrived |= segment.high <= sender.recover
        k += 1
    if newly_sacked and high > sender.highest_sacked:
        _mark_lost_below(sender, sent, high)
    return newly_sacked, first_sent_at, original_arrived, highest


@inner
def _mark_lost_below(sender, sent, high):
    """What lies below a range that the mobile reported, and has not been retransmitted, is lost."""
    k = first_above(sender, sent, sender.highest_sacked)
    while k < sender.tail and sent[k].high <= high:
        segment = sent[k]
        if not segment.sacked and segment.transmissions == 1 and not segment.lost:
            segment.lost = True
            sender.lost_count += 1
        k += 1
    sender.highest_sacked = high


@inner
def mark_head_lost(sender, sent):
    """Without SACK it is the oldest segment that duplicate and partial ACKs tell of (RFC 6582)."""
    if sender.head < sender.tail and not sent[sender.head].lost:
        sent[sender.head].lost = True
        sender.lost_count += 1


@inner
def mark_all_lost(sender, sent):
    """A timeout: what the mobile has not reported is lost (RFC 6675, 5.1)."""
    for k in range(sender.head, sender.tail):
        if not sent[k].sacked and not sent[k].lost:
            sent[k].lost = True
            sender.lost_count += 1


@inner
def clear_lost(sender, sent):
    """Nothing is lost: all is repaired, or the timeout came too soon."""
    for k in range(sender.head, sender.tail):
        sent[k].lost = False
    sender.lost_count = 0


@inner
def retransmit(sender, sent, segment):
    """A Segment is retransmitted."""
    k = first_above(sender, sent, segment.low)
    while k < sender.tail and sent[k].low < segment.high:
        sent[k].transmissions += 1
        sent[k].last_sent_at, sent[k].last_ts_val = segment.time, segment.ts_val
        if sent[k].flight:
            sent[k].flight = sender.snd_nxt - min(segment.low, segment.acked)
        sender.lost_count -= sent[k].lost
        sent[k].lost = False
        k += 1


@inner
def clear(sender):
    """Nothing is in flight any more."""
    sender.head = sender.tail
    sender.sacked_count = sender.lost_count = sender.dup_acks = 0
