"""Round trips through a transfer, on either side of Gi.

access    a data packet passes Gi, and the ACK that answers it: of what the ACK covers the last one,
          for a receiver answers what comes (RFC 5681, 4.2), or of what its first SACK block newly
          reports (RFC 2018, 4), as Linux does. Never of data sent twice (Karn), if no timestamp
          tells which copy is answered (RFC 7323).
internet  an ACK passes Gi, and the first data that it let the server send: because the mobile's
          window opened for it, or because the server was waiting and answers at once

An ACK of one segment only may have waited for a second (RFC 9293, 3.8.6.3). All samples count for
a connection's quantiles. Of those written down there are enough for a plot: one in a round trip,
and what differs much from the one before.
"""

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.sequence import NONE

ACCESS, INTERNET = range(2)
SIDES = ("access", "internet")

SAMPLE = np.dtype(
    [
        ("connection", "i8"),
        ("ts", "i8"),
        ("rtt", "i8"),
        ("flight", "i8"),
        ("side", "i1"),
        ("delayed", "?"),
    ]
)
"""A round trip: when it ended (µs, Gi's clock), how long it took (µs), the bytes in flight when it
began, its own included; on which side (into SIDES); delayed: the ACK may have waited."""

APART_US = (100_000, 1_000_000)
"""Samples of a side written down lie so far apart at least (µs),"""
CHANGE = 2
"""and a round trip, if they do not differ by this factor."""

QUANTILES = np.dtype(
    [
        ("count", "i8"),
        ("least", "f8"),
        ("median", "f8"),
        ("p95", "f8"),
        ("longest", "f8"),
    ]
)
"""How many samples; their least, median, 95th percentile and longest (s)."""

MANTISSA_BITS = 4
"""A bin is a sixteenth of an octave: a quantile is right to 3 %."""
BINS = 32 << MANTISSA_BITS


@inner
def bin_of(rtt):
    """The bin of a round trip (µs): its exponent and the first bits of its mantissa."""
    bits = np.float64(max(rtt, 1)).view(np.int64) >> (52 - MANTISSA_BITS)
    return min(bits - (np.int64(1023) << MANTISSA_BITS), BINS - 1)


@inner
def middle_of(number):
    """The middle of a bin (µs)."""
    steps = 1 << MANTISSA_BITS
    return 2.0 ** (number // steps) * (1 + (number % steps + 0.5) / steps)


@inner
def begin(s, histograms):
    """No sample yet of SENDER s, nor in its histograms, int64[2, BINS]."""
    for side in range(2):
        histograms[side, s.lowest_bin[side] : s.highest_bin[side] + 1] = 0
        s.lowest_bin[side], s.highest_bin[side] = BINS, -1
        s.kept_at[side], s.kept[side] = NONE, 0
        s.least[side], s.longest[side] = np.iinfo(np.int64).max, 0
    s.sample = NONE


@inner
def take(s, side, rtt, flight, delayed):
    """A round trip was seen (µs)."""
    s.sample, s.sample_side = max(rtt, np.int64(1)), side
    s.sample_flight, s.sample_delayed = flight, delayed


@inner
def count(s, histograms):
    """The last sample counts."""
    side, number = s.sample_side, bin_of(s.sample)
    histograms[side, number] += 1
    s.lowest_bin[side] = min(s.lowest_bin[side], number)
    s.highest_bin[side] = max(s.highest_bin[side], number)
    s.least[side] = min(s.least[side], s.sample)
    s.longest[side] = max(s.longest[side], s.sample)


@inner
def is_kept(s, ts):
    """Whether the last sample is written down, which ended at ts."""
    side, rtt = s.sample_side, s.sample
    kept = s.kept[side]
    apart = max(APART_US[side], rtt)
    if kept and ts - s.kept_at[side] < apart and kept <= CHANGE * rtt and rtt <= CHANGE * kept:
        return False
    s.kept_at[side], s.kept[side] = ts, rtt
    return True


@inner
def quantiles(s, histograms, side, out):
    """A side's QUANTILES."""
    counts, lowest, highest = histograms[side], s.lowest_bin[side], s.highest_bin[side]
    out.count = 0
    out.least = out.median = out.p95 = out.longest = np.nan
    if highest < lowest:
        return
    for number in range(lowest, highest + 1):
        out.count += counts[number]
    out.least, out.longest = s.least[side] / 1e6, s.longest[side] / 1e6
    seen = np.int64(0)
    for number in range(lowest, highest + 1):
        before, seen = seen, seen + counts[number]
        if 2 * before < out.count <= 2 * seen:
            out.median = min(max(middle_of(number) / 1e6, out.least), out.longest)
        if 20 * before < 19 * out.count <= 20 * seen:
            out.p95 = min(max(middle_of(number) / 1e6, out.least), out.longest)
