"""RTT samples through a transfer, on either side of Gi.

access    The time from a data packet to the ACK that answers it. An ACK that covers several packets
          answers the last (RFC 5681, 4.2). An ACK with SACK blocks answers what its first block
          newly reports (RFC 2018, 4), as in Linux. Data sent twice gives no sample (Karn), unless a
          timestamp shows which transmission the ACK answers (RFC 7323).
internet  The time from an ACK to the first data that it let the server send. Either the mobile's
          window opened for this data, or the server waited for the ACK and answers at once.

An ACK of one segment only may have waited for a second (RFC 9293, 3.8.6.3). All samples count for a
connection's quantiles. The samples that are recorded suffice for a plot: one per RTT, and each that
differs much from the one before.
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
"""RTT sample that is recorded.

connection: index of the connection
ts: when the sample ended (µs, Gi's clock)
rtt: RTT (µs)
flight: bytes in flight when the sample began, with its own packet
side: into SIDES
delayed: the ACK may be a delayed ACK
"""

MIN_SPACING_US = (100_000, 1_000_000)
"""Minimum time between recorded samples, by side (µs)."""
MAX_CHANGE = 2
"""Factor by which samples differ much.

Samples that differ less are recorded at least one RTT apart.
"""

QUANTILES = np.dtype(
    [
        ("count", "i8"),
        ("min", "f8"),
        ("median", "f8"),
        ("p95", "f8"),
        ("max", "f8"),
        ("mean", "f8"),
        ("sd", "f8"),
    ]
)
"""Distribution of the samples of one side.

count: number of samples
min, median, p95, max: smallest, median, 95th percentile and largest sample (s)
mean, sd: mean and standard deviation of the samples (s); sd is NaN of a single one
"""

MANTISSA_BITS = 4
"""Bits of precision: a bin is a sixteenth of an octave, a quantile is right to 3 %."""
BINS = 32 << MANTISSA_BITS
"""Number of bins of a histogram."""


@inner
def bin_of(rtt):
    """Return the bin of an RTT (µs): its exponent and the first bits of its mantissa."""
    bits = np.float64(max(rtt, 1)).view(np.int64) >> (52 - MANTISSA_BITS)
    return min(bits - (np.int64(1023) << MANTISSA_BITS), BINS - 1)


@inner
def bin_middle(bin_number):
    """Return the middle of a bin (µs)."""
    steps = 1 << MANTISSA_BITS
    return 2.0 ** (bin_number // steps) * (1 + (bin_number % steps + 0.5) / steps)


@inner
def initialize(sender, histograms):
    """Reset the samples of a SENDER and its histograms, int64[2, BINS]."""
    for side in range(2):
        histograms[side, sender.lowest_bin[side] : sender.highest_bin[side] + 1] = 0
        sender.lowest_bin[side], sender.highest_bin[side] = BINS, -1
        sender.recorded_at[side], sender.recorded_rtt[side] = NONE, 0
        sender.sample_min[side], sender.sample_max[side] = np.iinfo(np.int64).max, 0
        sender.sample_sum[side] = sender.sample_squares[side] = 0.0
    sender.sample_rtt = NONE


@inner
def set_sample(sender, side, rtt, flight, delayed):
    """Set the current sample (µs)."""
    sender.sample_rtt, sender.sample_side = max(rtt, np.int64(1)), side
    sender.sample_flight, sender.sample_delayed = flight, delayed


@inner
def count_sample(sender, histograms):
    """Add the current sample to the histogram of its side."""
    side, bin_number = sender.sample_side, bin_of(sender.sample_rtt)
    histograms[side, bin_number] += 1
    sender.lowest_bin[side] = min(sender.lowest_bin[side], bin_number)
    sender.highest_bin[side] = max(sender.highest_bin[side], bin_number)
    sender.sample_min[side] = min(sender.sample_min[side], sender.sample_rtt)
    sender.sample_max[side] = max(sender.sample_max[side], sender.sample_rtt)
    sender.sample_sum[side] += sender.sample_rtt
    sender.sample_squares[side] += np.float64(sender.sample_rtt) ** 2


@inner
def should_record(sender, ts):
    """Return whether the current sample, which ended at ts, is to be recorded.

    If so, it is remembered as the last one recorded.
    """
    side, rtt = sender.sample_side, sender.sample_rtt
    previous = sender.recorded_rtt[side]
    spacing = max(MIN_SPACING_US[side], rtt)
    if (
        previous
        and ts - sender.recorded_at[side] < spacing
        and previous <= MAX_CHANGE * rtt
        and rtt <= MAX_CHANGE * previous
    ):
        return False
    sender.recorded_at[side], sender.recorded_rtt[side] = ts, rtt
    return True


@inner
def write_quantiles(sender, histograms, side, out):
    """Write the QUANTILES of a side into `out`."""
    counts, lowest, highest = histograms[side], sender.lowest_bin[side], sender.highest_bin[side]
    out.count = 0
    out.min = out.median = out.p95 = out.max = out.mean = out.sd = np.nan
    if highest < lowest:
        return
    for number in range(lowest, highest + 1):
        out.count += counts[number]
    out.min, out.max = sender.sample_min[side] / 1e6, sender.sample_max[side] / 1e6
    out.mean = sender.sample_sum[side] / out.count / 1e6
    if out.count > 1:
        spread = sender.sample_squares[side] - out.count * (1e6 * out.mean) ** 2
        out.sd = np.sqrt(max(spread, 0.0) / (out.count - 1)) / 1e6
    total = np.int64(0)
    for number in range(lowest, highest + 1):
        before, total = total, total + counts[number]
        if 2 * before < out.count <= 2 * total:
            out.median = min(max(bin_middle(number) / 1e6, out.min), out.max)
        if 20 * before < 19 * out.count <= 20 * total:
            out.p95 = min(max(bin_middle(number) / 1e6, out.min), out.max)
