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

MOST_REPORTED = 256
"""Ranges that the mobile reported by SACK remembered of a connection."""
CALLS = 4
"""Duplicate ACKs that call for a retransmission: three (RFC 5681, 3.2), and one that may have been lost
between Gi and the server."""

SENDER = np.dtype(
    [
        ("sack", "?"),
        ("acked", "i8"),
        ("recover", "i8"),
        ("reach", "i8"),
        ("retransmitted", "i8"),
        ("retransmitted_ts", "i8"),
        ("retransmitted_ts_val", "i8"),
        ("retransmitted_last", "?"),
        ("duplicates", "i8"),
        ("block_low", "i8"),
        ("block_high", "i8"),
        ("heard", "i8"),
        ("called", "i8"),
        ("timed_out", "?"),
        ("flight", "i8"),
        ("advanced", "?"),
        ("answers", "?"),
        ("invited", "?"),
        ("waits", "?"),
        ("timed", "i8"),
        ("timed_ts", "i8"),
        ("round_trip", "i8"),
        ("blind", "i8"),
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


REPORTED = np.dtype(
    [("n", "i8"), ("low", "i8", (MOST_REPORTED,)), ("high", "i8", (MOST_REPORTED,))]
)
"""What the mobile reported by SACK: so many ranges, in order, apart."""


class Ack(NamedTuple):
    """An ACK."""

    number: np.int64
    at: np.int64
    """When Gi saw it (µs)."""
    echoed: np.int64
    """Its timestamp's echo, or NONE."""
    window: np.int64
    """As on the wire."""
    is_pure: bool
    """Without data."""


@inner
def begin(sender, sack, base_us):
    """A sender of which nothing was seen; base_us: the least RTT on the access side (µs)."""
    sender.sack, sender.round_trip = sack, base_us
    sender.acked = sender.recover = sender.reach = sender.blind = NONE
    sender.retransmitted = sender.retransmitted_ts = sender.retransmitted_ts_val = NONE
    sender.heard = sender.called = sender.timed = NONE
    sender.duplicates = sender.flight = 0
    sender.retransmitted_last = sender.timed_out = sender.advanced = sender.answers = False
    sender.invited = sender.waits = False


@inner
def acknowledge(sender, ack, base_us, highest):
    """An Ack of more; highest: what was sent before it."""
    number, at, echoed = ack.number, ack.at, ack.echoed
    sender.acked, sender.heard = number, at
    sender.duplicates = 0
    sender.advanced = sender.recover != NONE and number < sender.recover
    sender.called = NONE
    if sender.timed != NONE and number >= sender.timed:
        sender.round_trip = at - sender.timed_ts
        sender.timed = NONE
    more = sender.timed_out and sender.retransmitted_last and number > sender.retransmitted
    if sender.timed_out:
        due = sender.retransmitted_last and number == sender.retransmitted and not sender.waits
    else:
        due = sender.answers and number >= sender.reach
        due &= 2 * (highest - number) <= sender.flight
    sender.invited = False
    if (due or more) and sender.advanced:
        ours = at - sender.retransmitted_ts >= base_us
        if echoed != NONE and sender.retransmitted_ts_val != NONE:
            ours = np.int32(np.uint32(echoed) - np.uint32(sender.retransmitted_ts_val)) >= 0
        if ours and due:
            sender.called = at
        sender.invited = ours and more and echoed != NONE


@inner
def acknowledge_again(sender, ack, same_window, blocks, in_flight):
    """An Ack of what was acknowledged before, when more had been sent: in_flight segments at least;
    same_window: as the one before it; blocks: its SACK edges."""
    sender.heard = ack.at
    sender.advanced = False
    if sender.recover != NONE or not ack.is_pure:
        return
    if len(blocks) >= 2:
        low, high = unwrap(blocks[0], sender.acked), unwrap(blocks[1], sender.acked)
        if low < sender.acked or is_d_sack(blocks, sender.acked):
            return
        if sender.duplicates and low == sender.block_low and high == sender.block_high:
            return
        sender.block_low, sender.block_high = low, high
    elif sender.sack or not same_window:
        return
    sender.duplicates += 1
    if sender.duplicates >= max(CALLS, in_flight - 1):
        sender.called = ack.at


@inner
def send(sender, end, at):
    """New data up to `end`."""
    sender.called = NONE
    sender.retransmitted_last = sender.timed_out = False
    if sender.timed == NONE:
        sender.timed, sender.timed_ts = end, at


@inner
def is_by_timer(sender, at, internet_us, slack_us):
    """Whether a retransmission answers no ACK: none was heard for longer than a timeout. Heard by the
    server, an ACK's answer is `internet_us` later; a timeout is no shorter than the whole round
    trip and slack_us (RFC 6298: the smoothed round trip and more)."""
    timeout = sender.round_trip + 2 * internet_us + slack_us
    return sender.heard != NONE and at - sender.heard > timeout


@inner
def retransmission(sender, sent, highest, by_timer, anew):
    """A retransmission of what lies below the highest number; by_timer: it answers no ACK; anew: those in
    order begin with it."""
    start, end = sent.start, sent.end
    if sender.recover == NONE or sender.acked >= sender.recover:
        sender.recover, sender.timed_out = highest, False
        sender.flight, sender.answers = highest - sender.acked, False
    sender.timed_out |= by_timer
    if sender.invited and start == sender.acked:
        sender.waits = by_timer
    sender.invited = False
    if by_timer:
        sender.answers = False
    elif sender.advanced and start == sender.acked:
        sender.answers = not sender.sack and not sender.timed_out
    if anew:
        sender.reach = end
    elif not is_probe(sender, start, end, highest):
        sender.reach = max(sender.reach, end)
    sender.retransmitted, sender.retransmitted_ts, sender.retransmitted_ts_val = (
        end,
        sent.at,
        sent.stamp,
    )
    sender.retransmitted_last = True
    sender.called = sender.timed = NONE


@inner
def is_probe(sender, start, end, highest):
    """Whether a retransmission goes past others and ends with the highest number: with SACK it may probe
    for the tail (RFC 8985, 7.3; RFC 6675, NextSeg (4)), out of turn."""
    return sender.sack and start > max(sender.acked, sender.reach) and end >= highest


@inner
def report(reported, low, high, sender):
    """Add a SACK block to a REPORTED."""
    n = reported.n
    k = first_reaching(reported, low)
    if k < n and reported.low[k] <= low and high <= reported.high[k]:
        return
    to = k
    while to < n and reported.low[to] <= high:
        low, high = min(low, reported.low[to]), max(high, reported.high[to])
        to += 1
    if to == k and n == MOST_REPORTED:
        gone = max(first_reaching(reported, sender.acked + 1), 1)
        sender.blind = reported.high[gone - 1]
        for x in range(gone, n):
            _copy(reported, x - gone, x)
        n, k, to = n - gone, max(k - gone, 0), max(k - gone, 0)
    if to == k:
        for x in range(n, k, -1):
            _copy(reported, x, x - 1)
    else:
        for x in range(to, n):
            _copy(reported, x - to + k + 1, x)
    reported.low[k], reported.high[k] = low, high
    reported.n = n + k + 1 - to


@inner
def _copy(reported, to, of):
    reported.low[to], reported.high[to] = reported.low[of], reported.high[of]


@inner
def first_reaching(reported, low):
    """The first range of a REPORTED that ends at `low` or above, or how many there are."""
    k, to = 0, reported.n
    while k < to:
        middle = (k + to) >> 1
        if reported.high[middle] < low:
            k = middle + 1
        else:
            to = middle
    return k
