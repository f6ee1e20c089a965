"""Scoreboard of a server: the segments that it sent and that are not acknowledged (RFC 6675, 3)."""

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
"""Segment in flight.

low, high: its range of the stream
data_high: end of its data, without a FIN
first_sent_at, last_sent_at: when it was first and last sent (µs, the server's clock)
last_ts_val, first_ts_val: timestamps of its last and first transmission; or NONE
flight: bytes in flight at that time, with its own; 0: it has no data
transmissions: how often it was sent
sacked: a SACK block reported it
lost: the sender considers it lost and has not retransmitted it
unseen: Gi has not seen it; it is assumed to have been sent with the segment after it
"""


class Segment(NamedTuple):
    """Segment that the server sends."""

    time: np.int64
    """When the server sent it (µs, the server's clock)."""
    low: np.int64
    """First number of its range of the stream."""
    high: np.int64
    """End of its range of the stream."""
    ts_val: np.int64
    """Its timestamp, or NONE."""
    payload_len: np.int64
    """Length of its data (B)."""
    ip_id: np.int64
    segment_index: np.int64
    """Its index among the Segments."""
    acked: np.int64
    """Highest ACK that had passed Gi before it."""


class AckedSegments(NamedTuple):
    """Segments that an ACK acknowledges."""

    newly_acked: np.int64
    """Number of segments."""
    delivered: np.int64
    """Number of these that no SACK block had reported."""
    first_sent_at: np.int64
    """When the first of these that was sent once was sent, or NONE (µs)."""
    echoed_sent_at: np.int64
    """When the transmission was sent whose timestamp the ACK echoes, or NONE (µs)."""
    last_sent_at: np.int64
    """When the last segment with data was sent, or NONE (µs).

    NONE, too, if Gi has not seen it or a SACK block had reported it.
    """
    flight: np.int64
    """Bytes in flight when this segment was sent.

    0: the very last segment, which the ACK answers, is a FIN without data.
    """
    retransmitted_at: np.int64
    """When a segment that was retransmitted was last sent, or NONE (µs)."""
    retransmitted: bool
    """True if some of the segments had been retransmitted."""
    original_arrived: bool
    """True if some of them had been sent only once, before the last RTO expiry."""


@inner
def add(sender, sent, low, high, segment):
    """Add new data [low, high) to the scoreboard, SENT[..] of a SENDER.

    The data was sent with a Segment, or shortly before it.
    """
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
    """Return the index of the first segment in flight that ends above `number`, or tail."""
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
    """Return the number of segments that count as in flight for the sender (RFC 6675, 4: pipe).

    Without SACK each duplicate ACK reports one segment that has arrived (RFC 5681, 3.2).
    """
    unacked = sender.tail - sender.head - sender.lost_count
    if sender.sack:
        return unacked - sender.sacked_count
    return unacked - min(sender.dup_acks, max(sender.tail - sender.head - 1, 0))


@inner
def acknowledge(sender, sent, number, ts_ecr):
    """Remove all segments up to a cumulative ACK and return AckedSegments.

    ts_ecr: the timestamp that the ACK echoes, or NONE.
    """
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
    """Mark the segments in a SACK block as sacked.

    A block ends with a FIN (Linux) or before it (BSD). Returns the number of segments newly
    reported; when the lowest of these that was sent once was sent, or NONE; whether one of them was
    sent but once, before the last RTO expiry; and the index of the highest of them, or NONE.
    """
    newly_sacked, first_sent_at, original_arrived, highest = np.int64(0), NONE, False, NONE
    k = first_above(sender, sent, low)
    while k < sender.tail and sent[k].data_high <= high:
        sender.work += 1
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
    """Mark segments below a SACK block as lost, if they were not retransmitted."""
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
    """Mark the oldest segment as lost.

    Without SACK it is the one that duplicate and partial ACKs report as missing (RFC 6582).
    """
    if sender.head < sender.tail and not sent[sender.head].lost:
        sent[sender.head].lost = True
        sender.lost_count += 1


@inner
def mark_all_lost(sender, sent):
    """Mark all segments that are not sacked as lost, after an RTO expiry (RFC 6675, 5.1)."""
    for k in range(sender.head, sender.tail):
        if sender.sacked_count + sender.lost_count == sender.tail - sender.head:
            break
        sender.work += 1
        if not sent[k].sacked and not sent[k].lost:
            sent[k].lost = True
            sender.lost_count += 1


@inner
def clear_lost(sender, sent):
    """Mark no segment as lost: all is repaired, or the RTO expiry was spurious."""
    for k in range(sender.head, sender.tail):
        if sender.lost_count == 0:
            break
        sender.work += 1
        sender.lost_count -= sent[k].lost
        sent[k].lost = False


@inner
def retransmit(sender, sent, segment):
    """Record that a Segment is retransmitted."""
    k = first_above(sender, sent, segment.low)
    while k < sender.tail and sent[k].low < segment.high:
        sender.work += 1
        sent[k].transmissions += 1
        sent[k].last_sent_at, sent[k].last_ts_val = segment.time, segment.ts_val
        if sent[k].flight:
            sent[k].flight = sender.snd_nxt - min(segment.low, segment.acked)
        sender.lost_count -= sent[k].lost
        sent[k].lost = False
        k += 1


@inner
def clear(sender):
    """Clear the counters of a scoreboard with nothing in flight."""
    sender.head = sender.tail
    sender.sacked_count = sender.lost_count = sender.dup_acks = 0
