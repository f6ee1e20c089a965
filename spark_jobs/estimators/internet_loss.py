"""Downlink data lost before Gi (INFOCOM 2004, Section V): holes in the sequence space; tails."""

import numpy as np
from numba import njit

from spark_jobs.estimators.sequence import NONE, sequence_length
from spark_jobs.estimators.tcp import FIN, PSH

MOST_HOLES = 64
"""Holes before Gi remembered of a connection; of more, the oldest is forgotten."""


@njit(cache=True, nogil=True)
def _pushes(start, end, downlink, flags):
    for i in range(start, end):
        if downlink[i] and flags[i] & PSH:
            return True
    return False


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
    base_us,
    internet_us,
    slack_us=100_000,
):
    """Downlink data lost before Gi: holes in the sequence space that a resend fills, and tails.

    A tail leaves no hole: the data comes in order, but late. What had no PSH had more behind it in
    the server's buffer (RFC 9293, 3.9.1.2); if all is acknowledged, the window is open and yet the
    next data takes longer than a timeout, which is no shorter than a round trip on both sides and
    `slack_us`, that data had been sent and lost. This is told only of senders that use PSH.
    Resends that are lost before Gi go unseen.

    What fills a hole sooner than the server can know of it, within a round trip on both sides, was
    overtaken, not lost; so was what has an older timestamp than what it followed. What the mobile
    acknowledged though Gi never saw it is a drop of the capture.

    Arrays as in `access_losses`; internet_us float64[C]: the handshake's round trip before Gi.

    Returns of each loss connection int64, number int64 (the stream's), length int64 (B), seen int64
    (when the hole was, µs), packets int64 (how many of the connection's largest segments it is),
    filler int64 (the packet that filled it) and tail bool; and int64[C]: bytes acknowledged but
    never seen.
    """
    connection = np.empty(len(ts), np.int64)
    low = np.empty(len(ts), np.int64)
    length = np.empty(len(ts), np.int64)
    seen = np.empty(len(ts), np.int64)
    packets = np.empty(len(ts), np.int64)
    filler = np.empty(len(ts), np.int64)
    tail = np.zeros(len(ts), np.bool_)
    unseen = np.zeros(len(first) - 1, np.int64)
    found = 0
    holes = np.empty((MOST_HOLES, 4), np.int64)  # low, high, when, the timestamp that showed it
    for c in range(len(first) - 1):
        n = 0
        highest = NONE
        largest = np.int64(1)
        soon = base_us[c] + internet_us[c]
        begun = found
        pushes = _pushes(first[c], first[c + 1], downlink, flags)
        pending = opened = False  # more is in the server's buffer; the mobile's window is open
        all_acked = NONE  # when the mobile last said that it has all
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
                k = 0
                while k < n:
                    if holes[k, 0] < number[i]:
                        unseen[c] += min(holes[k, 1], number[i]) - holes[k, 0]
                        holes[k, 0] = min(holes[k, 1], number[i])
                    if holes[k, 0] == holes[k, 1]:
                        n -= 1
                        holes[k] = holes[n]
                    else:
                        k += 1
                continue
            start = number[i]
            end = start + sequence_length(flags[i], payload_len[i])
            largest = max(largest, np.int64(payload_len[i]))
            if start == highest and payload_len[i] and pending and opened and all_acked != NONE:
                if ts[i] - all_acked > soon + slack_us:
                    connection[found], low[found], length[found] = c, start, end - start
                    seen[found], filler[found], tail[found] = all_acked, i, True
                    found += 1
            if end > start and end > highest:
                pending = pushes and payload_len[i] > 0 and flags[i] & (PSH | FIN) == 0
                all_acked = NONE
            if highest != NONE and start > highest and end > start:
                if n == MOST_HOLES:
                    holes[: n - 1] = holes[1:n]
                    n -= 1
                holes[n, 0], holes[n, 1], holes[n, 2] = highest, start, ts[i]
                holes[n, 3] = np.int64(ts_val[i]) if has_ts[i] else NONE
                n += 1
            elif highest != NONE and start < highest:
                k = 0
                while k < n:
                    a, b = max(start, holes[k, 0]), min(end, holes[k, 1])
                    if a >= b:
                        k += 1
                        continue
                    late = ts[i] - holes[k, 2] >= soon
                    if has_ts[i] and holes[k, 3] != NONE:
                        age = np.int32(ts_val[i] - np.uint32(holes[k, 3]))
                        late = age > 0 or (age == 0 and late)
                    if late:
                        connection[found], low[found], length[found] = c, a, b - a
                        seen[found], filler[found] = holes[k, 2], i
                        found += 1
                    if b < holes[k, 1] and n < MOST_HOLES:
                        holes[n] = holes[k]
                        holes[n, 0] = b
                        n += 1
                    if a > holes[k, 0]:
                        holes[k, 1] = a
                        k += 1
                    else:
                        n -= 1
                        holes[k] = holes[n]
            highest = max(highest, end)
        for k in range(begun, found):
            packets[k] = -(-length[k] // largest)
    return (
        connection[:found].copy(),
        low[:found].copy(),
        length[:found].copy(),
        seen[:found].copy(),
        packets[:found].copy(),
        filler[:found].copy(),
        tail[:found].copy(),
        unseen,
    )
