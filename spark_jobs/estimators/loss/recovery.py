"""Retransmissions that a sender must have made, inferred from ACKs and its other retransmissions.

A sender that conforms (RFC 5681, 6582, 6675, 8985) retransmits from the lowest number that is due
to the highest. Without SACK, after an RTO expiry, that is all data that is not acknowledged. With
SACK it is all that is lost and that the mobile has not reported. So if a retransmission passes over
such data, this data was retransmitted before.

With nothing else in flight, a sender retransmits the data at the highest ACK at once, whatever its
congestion window,

- when three or more duplicate ACKs report that all else has arrived (RFC 5681, 3.2; RFC 6675, 5);
- after an RTO expiry, without SACK, when all that it retransmitted since is acknowledged (RFC 5681,
  3.1).

Without SACK it may also retransmit at each partial ACK of a fast recovery (RFC 6582, 3.2, step 3).
It must do so under two conditions. It has done so before in this recovery, because RFC 5681 alone
does not ask for it. And no more is in flight than half of what was when the recovery began. RFC
6937 delays retransmissions only above ssthresh, which is at least this half (RFC 5681, 3.1). Data
below a retransmission is not due again.

The retransmission that finally begins at an ACK's number shows that this ACK reached the server. A
sender that considers its RTO expiry spurious stops retransmitting. It decides so by timestamps (RFC
3522), so the ACK must echo the retransmission. Or it decides by the ACKs of new data (RFC 5682),
which Gi sees.

Some senders wait for the next RTO expiry instead, each time. If a sender did so although an ACK
showed that its retransmission, and more, had arrived, no retransmission is expected of it.

In any recovery but the first, duplicate ACKs are no evidence: the sender may have learned from the
first to wait for more than three of them (RFC 4653).
"""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.loss.sack import is_d_sack
from spark_jobs.estimators.sequence import NONE, unwrap

MAX_SACKED = 256
"""Maximum number of SACK ranges kept for a connection."""
MIN_DUP_ACKS = 4
"""Number of duplicate ACKs that call for a retransmission.

Three (RFC 5681, 3.2), and one that may have been lost between Gi and the server.
"""

SENDER = np.dtype(
    [
        ("sack", "?"),
        ("acked", "i8"),
        ("recover", "i8"),
        ("retransmitted_to", "i8"),
        ("retransmission_end", "i8"),
        ("retransmission_time", "i8"),
        ("retransmission_ts_val", "i8"),
        ("no_new_data_since", "?"),
        ("dup_acks", "i8"),
        ("block_low", "i8"),
        ("block_high", "i8"),
        ("last_ack_at", "i8"),
        ("due_since", "i8"),
        ("rto_expired", "?"),
        ("recovery_flight", "i8"),
        ("ack_is_partial", "?"),
        ("answers_partial_acks", "?"),
        ("rto_retransmission_acked", "?"),
        ("waits_for_rto", "?"),
        ("timed_end", "i8"),
        ("timed_at", "i8"),
        ("rtt", "i8"),
        ("sacked_unknown_below", "i8"),
    ]
)
"""Knowledge about a sender at Gi.

sack: it uses SACK
acked: highest ACK
recover: highest number sent when its last recovery began (RFC 6582)
retransmitted_to: end of the data that it has retransmitted in order
retransmission_end: end of its last retransmission
retransmission_time: time of its last retransmission (µs)
retransmission_ts_val: timestamp of its last retransmission
no_new_data_since: no new data followed its last retransmission
dup_acks: number of duplicate ACKs
block_low, block_high: first SACK block of the last duplicate ACK
last_ack_at: when the last ACK passed (µs)
due_since: since when a retransmission is due (µs); or NONE
rto_expired: an RTO expiry was seen in this recovery, and no new data since
recovery_flight: bytes in flight when its last recovery began
ack_is_partial: the last ACK acknowledged new data, but less than `recover`
answers_partial_acks: it answered a partial ACK by a retransmission at once, in this recovery and
  since its last RTO expiry
rto_retransmission_acked: the last ACK acknowledged the retransmission of an RTO expiry, and more
waits_for_rto: it answered such an ACK only at the next RTO expiry
timed_end: end of the segment whose RTT is being measured, never one sent twice (Karn); or NONE
timed_at: when this segment passed (µs)
rtt: last such RTT on the access side (µs)
sacked_unknown_below: number below which SACK ranges were dropped
"""


SACKED = np.dtype([("count", "i8"), ("low", "i8", (MAX_SACKED,)), ("high", "i8", (MAX_SACKED,))])
"""Ranges that the mobile reported by SACK.

count: number of ranges
low, high: bounds of each; the ranges are in order and do not touch
"""


class Ack(NamedTuple):
    """ACK that passed Gi."""

    number: np.int64
    time: np.int64
    """When it passed Gi (µs)."""
    ts_ecr: np.int64
    """The timestamp that it echoes, or NONE."""
    window: np.int64
    """Window, as on the wire."""
    is_pure: bool
    """True if it carries no data, SYN or FIN."""


@inner
def initialize(sender, sack, base_us):
    """Initialize a SENDER before its first packet.

    base_us: the user's base RTT on the access side (µs).
    """
    sender.sack, sender.rtt = sack, base_us
    sender.acked = sender.recover = sender.retransmitted_to = sender.sacked_unknown_below = NONE
    sender.retransmission_end = sender.retransmission_time = sender.retransmission_ts_val = NONE
    sender.last_ack_at = sender.due_since = sender.timed_end = NONE
    sender.dup_acks = sender.recovery_flight = 0
    sender.no_new_data_since = sender.rto_expired = False
    sender.ack_is_partial = sender.answers_partial_acks = False
    sender.rto_retransmission_acked = sender.waits_for_rto = False


@inner
def on_cumulative_ack(sender, ack, base_us, highest_sent):
    """Process an Ack of new data; highest_sent: the highest number sent before it."""
    number, now, ts_ecr = ack.number, ack.time, ack.ts_ecr
    sender.acked, sender.last_ack_at = number, now
    sender.dup_acks = 0
    sender.ack_is_partial = sender.recover != NONE and number < sender.recover
    sender.due_since = NONE
    if sender.timed_end != NONE and number >= sender.timed_end:
        sender.rtt = now - sender.timed_at
        sender.timed_end = NONE
    acks_more = (
        sender.rto_expired and sender.no_new_data_since and number > sender.retransmission_end
    )
    if sender.rto_expired:
        is_due = (
            sender.no_new_data_since
            and number == sender.retransmission_end
            and not sender.waits_for_rto
        )
    else:
        is_due = sender.answers_partial_acks and number >= sender.retransmitted_to
        is_due &= 2 * (highest_sent - number) <= sender.recovery_flight
    sender.rto_retransmission_acked = False
    if (is_due or acks_more) and sender.ack_is_partial:
        answers_retransmission = now - sender.retransmission_time >= base_us
        if ts_ecr != NONE and sender.retransmission_ts_val != NONE:
            answers_retransmission = (
                np.int32(np.uint32(ts_ecr) - np.uint32(sender.retransmission_ts_val)) >= 0
            )
        if answers_retransmission and is_due:
            sender.due_since = now
        sender.rto_retransmission_acked = answers_retransmission and acks_more and ts_ecr != NONE


@inner
def on_duplicate_ack(sender, ack, same_window, blocks, in_flight):
    """Process an Ack that repeats the last number while data is in flight.

    same_window: its window is that of the ACK before; blocks: its SACK edges; in_flight: minimum
    number of segments in flight.
    """
    sender.last_ack_at = ack.time
    sender.ack_is_partial = False
    if sender.recover != NONE or not ack.is_pure:
        return
    if len(blocks) >= 2:
        low, high = unwrap(blocks[0], sender.acked), unwrap(blocks[1], sender.acked)
        if low < sender.acked or is_d_sack(blocks, sender.acked):
            return
        if sender.dup_acks and low == sender.block_low and high == sender.block_high:
            return
        sender.block_low, sender.block_high = low, high
    elif sender.sack or not same_window:
        return
    sender.dup_acks += 1
    if sender.dup_acks >= max(MIN_DUP_ACKS, in_flight - 1):
        sender.due_since = ack.time


@inner
def on_new_data(sender, end, now):
    """Process new data up to `end`."""
    sender.due_since = NONE
    sender.no_new_data_since = sender.rto_expired = False
    if sender.timed_end == NONE:
        sender.timed_end, sender.timed_at = end, now


@inner
def is_by_timer(sender, now, internet_rtt, slack_us):
    """Return whether a retransmission answers no ACK: none came for longer than an RTO.

    The answer to an ACK passes Gi internet_rtt after the ACK. An RTO is not less than the RTT of
    both sides and slack_us (RFC 6298: the smoothed RTT and more).
    """
    min_rto = sender.rtt + 2 * internet_rtt + slack_us
    return sender.last_ack_at != NONE and now - sender.last_ack_at > min_rto


@inner
def on_retransmission(sender, transmission, highest_sent, by_timer, restarts_order):
    """Process a retransmission of data below the highest number sent.

    by_timer: it answers no ACK; restarts_order: the retransmissions in order begin with it.
    """
    start, end = transmission.start, transmission.end
    if sender.recover == NONE or sender.acked >= sender.recover:
        sender.recover, sender.rto_expired = highest_sent, False
        sender.recovery_flight, sender.answers_partial_acks = highest_sent - sender.acked, False
    sender.rto_expired |= by_timer
    if sender.rto_retransmission_acked and start == sender.acked:
        sender.waits_for_rto = by_timer
    sender.rto_retransmission_acked = False
    if by_timer:
        sender.answers_partial_acks = False
    elif sender.ack_is_partial and start == sender.acked:
        sender.answers_partial_acks = not sender.sack and not sender.rto_expired
    if restarts_order:
        sender.retransmitted_to = end
    elif not is_probe(sender, start, end, highest_sent):
        sender.retransmitted_to = max(sender.retransmitted_to, end)
    sender.retransmission_end = end
    sender.retransmission_time = transmission.time
    sender.retransmission_ts_val = transmission.ts_val
    sender.no_new_data_since = True
    sender.due_since = sender.timed_end = NONE


@inner
def is_probe(sender, start, end, highest_sent):
    """Return whether a retransmission may be a probe of the tail.

    With SACK, a retransmission that passes over other data and ends at the highest number sent may
    be one (RFC 8985, 7.3; RFC 6675, NextSeg (4)).
    """
    return (
        sender.sack and start > max(sender.acked, sender.retransmitted_to) and end >= highest_sent
    )


@inner
def add_sacked(sacked, low, high, sender):
    """Add a SACK block to SACKED."""
    n = sacked.count
    k = first_reaching(sacked, low)
    if k < n and sacked.low[k] <= low and high <= sacked.high[k]:
        return
    end = k
    while end < n and sacked.low[end] <= high:
        low, high = min(low, sacked.low[end]), max(high, sacked.high[end])
        end += 1
    if end == k and n == MAX_SACKED:
        dropped = max(first_reaching(sacked, sender.acked + 1), 1)
        sender.sacked_unknown_below = sacked.high[dropped - 1]
        for j in range(dropped, n):
            _copy(sacked, j - dropped, j)
        n, k, end = n - dropped, max(k - dropped, 0), max(k - dropped, 0)
    if end == k:
        for j in range(n, k, -1):
            _copy(sacked, j, j - 1)
    else:
        for j in range(end, n):
            _copy(sacked, j - end + k + 1, j)
    sacked.low[k], sacked.high[k] = low, high
    sacked.count = n + k + 1 - end


@inner
def _copy(sacked, target, source):
    sacked.low[target], sacked.high[target] = sacked.low[source], sacked.high[source]


@inner
def first_reaching(sacked, low):
    """Return the index of the first range of SACKED that ends at `low` or above, or count."""
    k, end = 0, sacked.count
    while k < end:
        middle = (k + end) >> 1
        if sacked.high[middle] < low:
            k = middle + 1
        else:
            end = middle
    return k
