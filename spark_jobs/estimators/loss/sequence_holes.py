"""Ranges of a stream that had to come and did not, in the order in which they were missed."""

import numpy as np

from spark_jobs.compiled import inner

MAX_HOLES = 64
"""Ranges remembered of a connection; of more, the oldest is forgotten."""

HOLES = np.dtype(
    [
        ("count", "i8"),
        ("low", "i8", (MAX_HOLES,)),
        ("high", "i8", (MAX_HOLES,)),
        ("first_low", "i8", (MAX_HOLES,)),
        ("missed_at", "i8", (MAX_HOLES,)),
        ("shown_by", "i8", (MAX_HOLES,)),
        ("ts_val", "i8", (MAX_HOLES,)),
        ("ip_id", "i8", (MAX_HOLES,)),
    ]
)
"""So many ranges of a connection: where each lies, and began, when it was seen to be missing (µs),
which packet showed it, its timestamp and its IP ID, or NONE."""


@inner
def add(holes, low, high, transmission):
    """Add a range to a MISSING, which a Sent shows."""
    if holes.count == MAX_HOLES:
        for k in range(1, MAX_HOLES):
            _copy(holes, k - 1, k)
        holes.count -= 1
    k = holes.count
    holes.low[k], holes.high[k], holes.first_low[k] = low, high, low
    holes.missed_at[k] = transmission.time
    holes.shown_by[k], holes.ts_val[k], holes.ip_id[k] = (
        transmission.index,
        transmission.ts_val,
        transmission.ip_id,
    )
    holes.count += 1


@inner
def _copy(holes, target, source):
    holes.low[target], holes.high[target] = holes.low[source], holes.high[source]
    holes.first_low[target] = holes.first_low[source]
    holes.missed_at[target], holes.shown_by[target] = (
        holes.missed_at[source],
        holes.shown_by[source],
    )
    holes.ts_val[target], holes.ip_id[target] = holes.ts_val[source], holes.ip_id[source]


@inner
def _remove(holes, k):
    """Take range k away; the last one takes its place."""
    holes.count -= 1
    _copy(holes, k, holes.count)


@inner
def remove_acked(holes, acked):
    """Take away what is acknowledged; returns how many bytes went."""
    k = acked_bytes = 0
    while k < holes.count:
        low, high = holes.low[k], holes.high[k]
        if low < acked:
            acked_bytes += min(high, acked) - low
            holes.low[k] = min(high, acked)
        if holes.low[k] == high:
            _remove(holes, k)
        else:
            k += 1
    return acked_bytes


@inner
def remove_sacked(holes, low, high):
    """Take away what the mobile reported by SACK to have. Of a range that it lies within, the lower
    part is kept."""
    k = 0
    while k < holes.count:
        if low < holes.high[k] and holes.low[k] < high:
            if holes.low[k] < low:
                holes.high[k] = low
            else:
                holes.low[k] = high
        if holes.low[k] >= holes.high[k]:
            _remove(holes, k)
        else:
            k += 1


@inner
def keep_likely_data(holes, before, in_flight):
    """Keep the holes that were seen `before` (µs) and may have been data: one number may be a
    FIN's, and more than half of what is in flight (B) tells of numbers that make no sense."""
    k = size = 0
    while k < holes.count:
        length = holes.high[k] - holes.low[k]
        size += length
        if holes.missed_at[k] <= before and length > 1:
            k += 1
        else:
            _remove(holes, k)
    if size > in_flight // 2:
        holes.count = 0


@inner
def remove_range(holes, k, low, high):
    """Take [low, high), which lies within range k, away from it, and put what is above it behind
    the others; whether some of range k is left in its place."""
    if high < holes.high[k] and holes.count < MAX_HOLES:
        _copy(holes, holes.count, k)
        holes.low[holes.count] = high
        holes.count += 1
    if low > holes.low[k]:
        holes.high[k] = low
        return True
    _remove(holes, k)
    return False
