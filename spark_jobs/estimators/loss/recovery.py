"""Which retransmissions a sender must have made, told at Gi from the ACKs that it got and its retransmissions.

A sender that conforms (RFC 5681, 6582, 6675, 8985) retransmissions from the lowest number that is due to
the highest: without SACK, after a timeout, all that is not acknowledged; with SACK what is lost and
not reported by the mobile. So what a retransmission goes past has been retransmitted before.

And with nothing else in flight it retransmissions what lies at the highest ACK at once, whatever its
congestion window,

- when duplicate ACKs tell that all else has arrived, three at least (RFC 5681, 3.2; RFC 6675, 5);
- after a timeout, without SACK, when all that it retransmitted since is acknowledged (RFC 5681, 3.1).

Without SACK it may also retransmission at each partial ACK of a fast recovery (RFC 6582, 3.2, step 3). That
is its duty if it has done so in this recovery, for RFC 5681 alone does not ask for it; and if no
more is in flight than half of what was when the recovery began: RFC 6937 holds retransmissions back only
above ssthresh, which is no lower (RFC 5681, 3.1). What lies below a retransmission is not due again.

That an ACK reached the server is told by the retransmission that begins at its number in the end. A sender
that takes its timeout for spurious stops retransmitting: by timestamps (RFC 3522), so the ACK must echo
the retransmission; or by the ACKs of new data (RFC 5682), which is seen.

Some wait for the next timeout instead, each time: of one that did so though an ACK showed that its
retransmission, and more, had arrived, nothing is called for.

Of a later recovery than the first, duplicate ACKs tell nothing: the sender may have learned from
the first to await more than three of them (RFC 4653).
"""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.loss.sack import is_d_sack
from spark_jobs.estimators.sequence import NONE, unwrap

MAX_SACKED = 256
"""Ranges that the mobile reported by SACK remembered of a connection."""
MIN_DUP_ACKS = 4
"""Duplicate ACKs that call for a retransmission: three (RFC 5681, 3.2), and one that may have been lost
between Gi and the server."""

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
"""What is known of a sender.

sack, acked          whether it uses SACK; the highest ACK
recover, reach       the highest number sent when its last recovery began (RFC 6582); up to where it
                     has retransmitted in order
retransmitted, retransmitted_ts,   its last retransmission's end, time (µs) and timestamp, and whether no new data
retransmitted_ts_val,       followed it
retransmitted_last
timed_out            whether a timeout was seen in this recovery, and no new data since
flight               how much was in flight when its last recovery began (B)
advanced, answers    whether the last ACK was of more and below `recover`; whether in this recovery,
                     and since its last timeout, it has answered such a one by a retransmission at once
invited, waits       whether the last ACK was of a timeout's retransmission and more; whether such a one was
                     not answered before the next timeout
duplicates,          duplicate ACKs, and the SACK block that the last of them led with
block_low, block_high
heard, called        when the last ACK passed; since when a retransmission is called for (µs)
timed, timed_ts,     the end and time (µs) of the segment whose round trip is being measured, never
round_trip           one sent twice (Karn), and the last such RTT on the access side (µs)
blind                below which number ranges reported by SACK were forgotten
"""


SACKED = np.dtype([("count", "i8"), ("low", "i8", (MAX_SACKED,)), ("high", "i8", (MAX_SACKED,))])
"""What the mobile reported by SACK: so many ranges, in order, apart."""


class Ack(NamedTuple):
    """An ACK."""

    number: np.int64
    time: np.int64
    """When Gi saw it (µs)."""
    ts_ecr: np.int64
    """Its timestamp's echo, or NONE."""
    window: np.int64
    """As on the wire."""
    is_pure: bool
    """Without data."""


@inner
def initialize(sender, sack, base_us):
    """A sender of which nothing was seen; base_us: the least RTT on the access side (µs)."""
    sender.sack, sender.rtt = sack, base_us
    sender.acked = sender.recover = sender.retransmitted_to = sender.sacked_unknown_below = NONE
    sender.retransmission_end = sender.retransmission_time = sender.retransmission_ts_val = NONE
    sender.last_ack_at = sender.due_since = sender.timed_end = NONE
    sender.dup_acks = sender.recovery_flight = 0
    sender.no_new_data_since = sender.rto_expired = sender.ack_is_partial = (
        sender.answers_partial_acks
    ) = False
    sender.rto_retransmission_acked = sender.waits_for_rto = False


@inner
def on_cumulative_ack(sender, ack, base_us, highest_sent):
    """An Ack of more; highest: what was sent before it."""
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
    """An Ack of what was acknowledged before, when more had been sent: in_flight segments at least;
    same_window: as the one before it; blocks: its SACK edges."""
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
    """New data up to `end`."""
    sender.due_since = NONE
    sender.no_new_data_since = sender.rto_expired = False
    if sender.timed_end == NONE:
        sender.timed_end, sender.timed_at = end, now


@inner
def is_by_timer(sender, now, internet_rtt, slack_us):
    """Whether a retransmission answers no ACK: none was heard for longer than a timeout. Heard by the
    server, an ACK's answer is `internet_us` later; a timeout is no shorter than the whole round
    trip and slack_us (RFC 6298: the smoothed round trip and more)."""
    timeout = sender.rtt + 2 * internet_rtt + slack_us
    return sender.last_ack_at != NONE and now - sender.last_ack_at > timeout


@inner
def on_retransmission(sender, transmission, highest_sent, by_timer, restarts_order):
    """A retransmission of what lies below the highest number; by_timer: it answers no ACK; anew: those in
    order begin with it."""
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
    sender.retransmission_end, sender.retransmission_time, sender.retransmission_ts_val = (
        end,
        transmission.time,
        transmission.ts_val,
    )
    sender.no_new_data_since = True
    sender.due_since = sender.timed_end = NONE


@inner
def is_probe(sender, start, end, highest_sent):
    """Whether a retransmission goes past others and ends with the highest number: with SACK it may probe
    for the tail (RFC 8985, 7.3; RFC 6675, NextSeg (4)), out of turn."""
    return (
        sender.sack and start > max(sender.acked, sender.retransmitted_to) and end >= highest_sent
    )


@inner
def add_sacked(sacked, low, high, sender):
    """Add a SACK block to a REPORTED."""
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
    """The first range of a REPORTED that ends at `low` or above, or how many there are."""
    k, end = 0, sacked.count
    while k < end:
        middle = (k + end) >> 1
        if sacked.high[middle] < low:
            k = middle + 1
        else:
            end = middle
    return k
