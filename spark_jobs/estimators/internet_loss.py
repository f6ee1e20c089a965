"""Downlink data lost before Gi (INFOCOM 2004, Section V): Gi never saw it, but it was sent.

The paper, with Benkő and Veres (GLOBECOM 2002), takes a hole in the sequence space that is filled
later. A resend that is lost, too, leaves none, nor does what nothing followed: of these the
sender's behaviour tells. Four things are evidence:

hole      What came lies higher than what was next, be it data or a packet without, which carries
          the number of what its sender will send next (RFC 9293, 3.4). A resend filled the hole,
          or it was still open when the connection ended.
tail      The data came in order, but late. What had no PSH had more behind it in the server's
          buffer (RFC 9293, 3.9.1.2); if all is acknowledged, the window is open and yet the next
          data takes longer than a timeout, that data had been sent and lost. This is told only of
          senders that use PSH.
skipped   A resend went past what had to be resent first (see `recovery`), and that came later.
timeout   ACKs called for a resend at once (see `recovery`), but it came only after a timeout.

A timeout is no shorter than a round trip on both sides and `slack_us`; tail and timeout are told
where the round trip before Gi is known. What comes sooner than the server can know of a loss,
within a round trip on both sides, was overtaken, not lost; so was what has an older timestamp than
what it followed. What the mobile acknowledged though Gi never saw it is a drop of the capture; so
may be what was skipped and then acknowledged, and a hole still open.
"""

import numpy as np
from numba import njit

from spark_jobs.estimators import recovery
from spark_jobs.estimators.sequence import NONE, sequence_length, unwrap
from spark_jobs.estimators.tcp import FIN, PSH, SYN

EVIDENCE = ("hole", "tail", "skipped", "timeout")
HOLE, TAIL, SKIPPED, TIMEOUT = range(len(EVIDENCE))

MOST_HOLES = 64
"""Holes before Gi remembered of a connection, and as many ranges that resends skipped; of more, the
oldest is forgotten."""

LOSS = np.dtype(
    [
        ("connection", "i8"),
        ("low", "i8"),
        ("length", "i8"),
        ("seen", "i8"),
        ("packets", "i8"),
        ("filler", "i8"),
        ("evidence", "u1"),
    ]
)
"""Data lost: of which connection, the stream's number of its first byte, its length (B), when it
was missed (µs), how many of the connection's largest segments it is, the packet that brought it in
the end or -1, what tells of it (into EVIDENCE)."""

MISSING = np.dtype([("low", "i8"), ("high", "i8"), ("seen", "i8"), ("ts_val", "i8")])
"""A range that had to come and did not: when that was seen (µs), the timestamp of what showed it or
NONE."""


@njit(cache=True, nogil=True)
def internet_losses(
    first,
    ts,
    downlink,
    flags,
    payload_len,
    window,
    number,
    has_ts,
    ts_val,
    ts_ecr,
    sack_at,
    sack_count,
    sack_edges,
    sack,
    base_us,
    internet_us,
    slack_us=100_000,
):
    """Downlink data lost before Gi.

    Arrays as in `access_losses`; base_us, internet_us float64[C]: the user's least round trip
    behind Gi, the handshake's before it (µs; 0: unknown).

    Returns LOSS[L], by connection; and int64[C]: bytes acknowledged but never seen.
    """
    losses = np.empty(1024, LOSS)
    found = 0
    unseen = np.zeros(len(first) - 1, np.int64)
    holes = np.empty(MOST_HOLES, MISSING)
    skipped = np.empty(MOST_HOLES, MISSING)
    reported = np.empty((recovery.MOST_REPORTED, 2), np.int64)
    senders = np.empty(1, recovery.SENDER)  # a record alone would not keep its memory
    for c in range(len(first) - 1):
        sender = senders[0]
        n_holes = n_skipped = n_reported = 0
        highest = NONE
        largest = np.int64(1)
        told = internet_us[c] > 0
        soon = base_us[c] + internet_us[c]
        begun = found
        pushes = _pushes(first[c], first[c + 1], downlink, flags)
        pending = opened = False  # more is in the server's buffer; the mobile's window is open
        all_acked = NONE  # when the mobile last said that it has all
        last_window = -1
        recovery.begin(sender, sack[c], np.int64(base_us[c]))
        for i in range(first[c], first[c + 1]):
            if number[i] == NONE:
                continue
            if not downlink[i]:
                if highest == NONE:
                    continue
                opened = window[i] > 0
                if number[i] >= highest:
                    all_acked = ts[i]
                if number[i] > highest:
                    unseen[c] += number[i] - highest
                    highest = number[i]
                if n_holes:
                    n_holes, dropped = _acknowledge(holes, n_holes, number[i])
                    unseen[c] += dropped
                if n_skipped:
                    n_skipped, _ = _acknowledge(skipped, n_skipped, number[i])
                blocks = sack_edges[sack_at[i] : sack_at[i] + sack_count[i]]
                if number[i] > sender.acked:
                    echoed = np.int64(ts_ecr[i]) if has_ts[i] else NONE
                    recovery.acknowledge(sender, number[i], ts[i], echoed, base_us[c], highest)
                elif number[i] == sender.acked and number[i] < highest and opened:
                    pure = payload_len[i] == 0 and flags[i] & (SYN | FIN) == 0
                    same = window[i] == last_window
                    segments = -(-(highest - number[i]) // largest)
                    recovery.acknowledge_again(sender, ts[i], pure, same, blocks, segments)
                last_window = window[i]
                for k in range(0, len(blocks) - 1, 2):
                    low, high = unwrap(blocks[k], number[i]), unwrap(blocks[k + 1], number[i])
                    if sender.acked < low < high <= highest:
                        n_reported = recovery.report(reported, n_reported, low, high, sender)
                        if n_skipped:
                            n_skipped = _report(skipped, n_skipped, low, high)
                continue
            start = number[i]
            end = start + sequence_length(flags[i], payload_len[i])
            data_end = start + np.int64(payload_len[i])
            largest = max(largest, np.int64(payload_len[i]))
            stamp = np.int64(ts_val[i]) if has_ts[i] else NONE
            if found + 2 * MOST_HOLES + 2 > len(losses):
                losses = np.concatenate((losses, np.empty(len(losses), LOSS)))
            if start == highest and payload_len[i] and pending and opened and all_acked != NONE:
                if told and ts[i] - all_acked > soon + slack_us:
                    found = _lose(losses, found, c, start, data_end, all_acked, i, TAIL)
            if end > start and end > highest:
                pending = pushes and payload_len[i] > 0 and flags[i] & (PSH | FIN) == 0
                all_acked = NONE
            if highest == NONE or start >= highest:
                if highest != NONE and start > highest:
                    n_holes = _miss(holes, n_holes, highest, start, ts[i], stamp)
                if end > start:
                    recovery.send(sender, end, ts[i])
            elif end > start:
                overtaken = again = False
                if n_holes:
                    n_holes, found, overtaken, _ = _fill(
                        holes, n_holes, start, end, data_end, ts[i], stamp, soon,
                        losses, found, c, i, HOLE,
                    )  # fmt: skip
                if n_skipped:
                    n_skipped, found, _, again = _fill(
                        skipped, n_skipped, start, end, data_end, ts[i], stamp, soon,
                        losses, found, c, i, SKIPPED,
                    )  # fmt: skip
                if payload_len[i] and end > sender.acked and not overtaken:
                    by_timer = told and start == sender.acked and opened
                    by_timer &= recovery.is_by_timer(sender, ts[i], internet_us[c], slack_us)
                    called = sender.called
                    if by_timer and called != NONE and not again:
                        found = _lose(losses, found, c, start, data_end, called, i, TIMEOUT)
                    low = max(sender.reach, sender.acked)
                    if low < start and sender.acked != NONE:
                        if not recovery.is_probe(sender, start, end, highest):
                            n_skipped = _skip(
                                skipped, n_skipped, reported, n_reported,
                                low, start, ts[i], stamp, sender,
                            )  # fmt: skip
                    anew = not sender.sack and start <= sender.acked and not again
                    recovery.resend(sender, start, end, highest, ts[i], stamp, by_timer, anew)
            highest = max(highest, end)
        if n_holes:
            in_flight = highest - sender.acked if sender.acked != NONE else 0
            n_holes = _open(holes, n_holes, ts[first[c + 1] - 1] - soon, in_flight)
        if found + n_holes > len(losses):
            losses = np.concatenate((losses, np.empty(len(losses), LOSS)))
        for k in range(n_holes):
            gap = holes[k]
            found = _lose(losses, found, c, gap.low, gap.high, gap.seen, -1, HOLE)
        for k in range(begun, found):
            losses[k].packets = -(-losses[k].length // largest)
    return losses[:found].copy(), unseen


@njit(cache=True, nogil=True)
def _pushes(start, end, downlink, flags):
    for i in range(start, end):
        if downlink[i] and flags[i] & PSH:
            return True
    return False


@njit(cache=True, nogil=True)
def _lose(losses, found, connection, low, high, seen, filler, evidence):
    """Add a loss; returns how many they are then."""
    loss = losses[found]
    loss.connection, loss.low, loss.length = connection, low, high - low
    loss.seen, loss.filler, loss.evidence = seen, filler, evidence
    return found + 1


@njit(cache=True, nogil=True)
def _miss(missing, n, low, high, seen, stamp):
    """Add a range to MISSING[MOST_HOLES], the first n of which are; returns how many they are
    then."""
    if n == len(missing):
        for k in range(1, n):
            _copy(missing[k - 1], missing[k])
        n -= 1
    new = missing[n]
    new.low, new.high, new.seen, new.ts_val = low, high, seen, stamp
    return n + 1


@njit(cache=True, nogil=True)
def _copy(to, of):
    to.low, to.high, to.seen, to.ts_val = of.low, of.high, of.seen, of.ts_val


@njit(cache=True, nogil=True)
def _acknowledge(missing, n, acked):
    """Take away what is acknowledged; returns (how many ranges remain, how many bytes went)."""
    k = went = 0
    while k < n:
        gap = missing[k]
        if gap.low < acked:
            went += min(gap.high, acked) - gap.low
            gap.low = min(gap.high, acked)
        if gap.low == gap.high:
            n -= 1
            _copy(gap, missing[n])
        else:
            k += 1
    return n, went


@njit(cache=True, nogil=True)
def _open(missing, n, before, in_flight):
    """Keep the holes that were seen `before` (µs) and may have been data: one number may be a
    FIN's, and more than half of what is in flight (B) tells of numbers that make no sense. Returns
    how many remain."""
    k = size = 0
    while k < n:
        gap = missing[k]
        size += gap.high - gap.low
        if gap.seen <= before and gap.high - gap.low > 1:
            k += 1
        else:
            n -= 1
            _copy(gap, missing[n])
    return n if size <= in_flight // 2 else 0


@njit(cache=True, nogil=True)
def _report(missing, n, low, high):
    """Take away what the mobile reported by SACK to have; returns how many ranges remain. Of one
    that it lies within, the lower part is kept."""
    k = 0
    while k < n:
        gap = missing[k]
        if low < gap.high and gap.low < high:
            gap.low, gap.high = (gap.low, low) if gap.low < low else (high, gap.high)
        if gap.low >= gap.high:
            n -= 1
            _copy(gap, missing[n])
        else:
            k += 1
    return n


@njit(cache=True, nogil=True)
def _fill(
    missing, n, start, end, data_end, at, stamp, soon, losses, found, connection, filler, evidence
):  # fmt: skip
    """Take away what a packet carries, [start, end) with data up to data_end; what was late had
    been lost. Returns (how many ranges remain, how many losses they are then, if any was overtaken,
    if the packet carries any)."""
    k = 0
    overtaken = touched = False
    while k < n:
        gap = missing[k]
        a, b = max(start, gap.low), min(end, gap.high)
        if a >= b:
            k += 1
            continue
        touched = True
        late = at - gap.seen >= soon
        if stamp != NONE and gap.ts_val != NONE:
            age = np.int32(np.uint32(stamp) - np.uint32(gap.ts_val))
            late = age > 0 or (age == 0 and late)
        overtaken |= not late
        if late and a < data_end:
            to = min(b, data_end)
            found = _lose(losses, found, connection, a, to, gap.seen, filler, evidence)
        if b < gap.high and n < len(missing):
            _copy(missing[n], gap)
            missing[n].low = b
            n += 1
        if a > gap.low:
            gap.high = a
            k += 1
        else:
            n -= 1
            _copy(gap, missing[n])
    return n, found, overtaken, touched


@njit(cache=True, nogil=True)
def _skip(skipped, n, reported, n_reported, low, high, at, stamp, sender):
    """Add what of [low, high) the mobile has not reported; returns how many they are then."""
    low = max(low, sender.blind)
    if sender.sack:
        for k in range(recovery.first_reaching(reported, n_reported, low), n_reported):
            if reported[k, 0] >= high:
                break
            if low < reported[k, 0]:
                n = _miss(skipped, n, low, reported[k, 0], at, stamp)
            low = max(low, reported[k, 1])
    if low < high:
        n = _miss(skipped, n, low, high, at, stamp)
    return n
