"""Ranges of a stream that had to come and did not, in the order in which they were missed."""

import numpy as np

from spark_jobs.compiled import inner

MOST_HOLES = 64
"""Ranges remembered of a connection; of more, the oldest is forgotten."""

MISSING = np.dtype(
    [
        ("n", "i8"),
        ("low", "i8", (MOST_HOLES,)),
        ("high", "i8", (MOST_HOLES,)),
        ("begin", "i8", (MOST_HOLES,)),
        ("seen", "i8", (MOST_HOLES,)),
        ("shown", "i8", (MOST_HOLES,)),
        ("ts_val", "i8", (MOST_HOLES,)),
        ("ip_id", "i8", (MOST_HOLES,)),
    ]
)
"""So many ranges of a connection: where each lies, and began, when it was seen to be missing (µs),
which packet showed it, its timestamp and its IP ID, or NONE."""


@inner
def miss(missing, low, high, sent):
    """Add a range to a MISSING, which a Sent shows."""
    if missing.n == MOST_HOLES:
        for k in range(1, MOST_HOLES):
            _copy(missing, k - 1, k)
        missing.n -= 1
    k = missing.n
    missing.low[k], missing.high[k], missing.begin[k] = low, high, low
    missing.seen[k] = sent.at
    missing.shown[k], missing.ts_val[k], missing.ip_id[k] = sent.segment, sent.stamp, sent.ip_id
    missing.n += 1


@inner
def _copy(missing, to, of):
    missing.low[to], missing.high[to] = missing.low[of], missing.high[of]
    missing.begin[to] = missing.begin[of]
    missing.seen[to], missing.shown[to] = missing.seen[of], missing.shown[of]
    missing.ts_val[to], missing.ip_id[to] = missing.ts_val[of], missing.ip_id[of]


@inner
def _forget(missing, k):
    """Take range k away; the last one takes its place."""
    missing.n -= 1
    _copy(missing, k, missing.n)


@inner
def acknowledge(missing, acked):
    """Take away what is acknowledged; returns how many bytes went."""
    k = went = 0
    while k < missing.n:
        low, high = missing.low[k], missing.high[k]
        if low < acked:
            went += min(high, acked) - low
            missing.low[k] = min(high, acked)
        if missing.low[k] == high:
            _forget(missing, k)
        else:
            k += 1
    return went


@inner
def report(missing, low, high):
    """Take away what the mobile reported by SACK to have. Of a range that it lies within, the lower
    part is kept."""
    k = 0
    while k < missing.n:
        if low < missing.high[k] and missing.low[k] < high:
            if missing.low[k] < low:
                missing.high[k] = low
            else:
                missing.low[k] = high
        if missing.low[k] >= missing.high[k]:
            _forget(missing, k)
        else:
            k += 1


@inner
def keep_open(missing, before, in_flight):
    """Keep the holes that were seen `before` (µs) and may have been data: one number may be a
    FIN's, and more than half of what is in flight (B) tells of numbers that make no sense."""
    k = size = 0
    while k < missing.n:
        length = missing.high[k] - missing.low[k]
        size += length
        if missing.seen[k] <= before and length > 1:
            k += 1
        else:
            _forget(missing, k)
    if size > in_flight // 2:
        missing.n = 0


@inner
def cut(missing, k, low, high):
    """Take [low, high), which lies within range k, away from it, and put what is above it behind
    the others; whether some of range k is left in its place."""
    if high < missing.high[k] and missing.n < MOST_HOLES:
        _copy(missing, missing.n, k)
        missing.low[missing.n] = high
        missing.n += 1
    if low > missing.low[k]:
        missing.high[k] = low
        return True
    _forget(missing, k)
    return False
