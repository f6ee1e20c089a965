"""Ranges of a stream that should have come and did not, in the order in which they were missed."""

import numpy as np

from spark_jobs.compiled import inner

MAX_HOLES = 64
"""Maximum number of ranges kept for a connection; beyond it the oldest is dropped."""

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
"""Missing ranges of a connection.

count: number of ranges
low, high: bounds of each
first_low: lower bound when it was first missed
missed_at: when it was missed (µs)
shown_by: index of the segment that showed it
ts_val, ip_id: timestamp and IP ID of this segment; or NONE
"""


@inner
def add(holes, low, high, transmission):
    """Add a range that a Transmission shows."""
    if holes.count == MAX_HOLES:
        for k in range(1, MAX_HOLES):
            _copy(holes, k - 1, k)
        holes.count -= 1
    k = holes.count
    holes.low[k], holes.high[k], holes.first_low[k] = low, high, low
    holes.missed_at[k] = transmission.time
    holes.shown_by[k] = transmission.segment_index
    holes.ts_val[k], holes.ip_id[k] = transmission.ts_val, transmission.ip_id
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
    """Remove range k; the last range takes its place."""
    holes.count -= 1
    _copy(holes, k, holes.count)


@inner
def remove_acked(holes, acked):
    """Remove all below the highest ACK and return the number of bytes removed."""
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
    """Remove a range that the mobile reported by SACK.

    Of a hole with this range in its middle, the lower part is kept.
    """
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
    """Keep only the holes that were missed by `before` (µs) and may have been data.

    A hole of one number may have been a FIN. If the holes make up more than half of the data in
    flight (B), the sequence numbers make no sense, and all holes are removed.
    """
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
    """Remove [low, high) from range k, and return whether a part of range k remains in its place.

    The range must lie within range k. A part above it becomes a new range at the end.
    """
    if high < holes.high[k] and holes.count < MAX_HOLES:
        _copy(holes, holes.count, k)
        holes.low[holes.count] = high
        holes.count += 1
    if low > holes.low[k]:
        holes.high[k] = low
        return True
    _remove(holes, k)
    return False
