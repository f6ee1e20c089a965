"""Confidence intervals for means, shares and quantiles of samples that are alike within a user.

Users are a sample of those who might have been there. One user's samples share a radio channel, a
phone and habits. So an interval comes from the differences between users, not from the number of
samples. It is computed from sums by group of users (a group is one user if there are few users):

mean      ratio of sums. Its standard error is the users' jackknife (HC3 of the weighted mean of the
          groups: MacKinnon and White 1985). Its interval is Student's t with one degree of freedom
          less than there are effective groups: (sum of weights)² / sum of squares, because a heavy
          user counts more. Values above zero, such as rates and times, have their interval on the
          logarithm.
share     a mean of zeros and ones. The number of independent samples that would have the same
          error is computed first. The interval is the exact interval of that many samples (Korn
          and Graubard, Survey Methodology 1998). If all users are at 0 or all at 1, each group is
          one sample.
quantile  the points at which the distribution reaches the ends of the interval of the share that
          lies below the quantile (Woodruff, JASA 1952). There is none if less than one group is
          expected beyond it.
"""

from dataclasses import dataclass

import numpy as np
import scipy

CONFIDENCE = 0.95
"""Confidence level of all intervals."""
GROUPS = 64
"""Groups of users by hash: the marts hold sums of them, in a network."""
MIN_SAMPLES, MIN_USERS = 5, 3
"""Minimum number of samples and of users (or groups of users) to report an estimate.

One user's median describes only that user, and two users say nothing about a third. The number of
samples is the number below which the paper's clusters were not drawn.
"""


MIN_EFFECTIVE_GROUPS = 2.0
"""Effective groups of users below which a mean describes one user, however many users there are."""
ROUNDING = 1e-12
"""Upper bound on the spread that rounding errors give a share without any spread."""


@dataclass(frozen=True)
class Estimate:
    """A value and its interval; null if there are too few samples or users."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


UNKNOWN = Estimate()
"""The estimate if there are too few samples or users."""


def enough(samples: float, users: int) -> bool:
    """Return whether there are enough samples and enough users (or groups of users) to report."""
    return samples >= MIN_SAMPLES and users >= MIN_USERS


def mean(total: np.ndarray, weight: np.ndarray) -> Estimate:
    """Return the mean from the sums and the weights (or counts) of groups of users, float64[G]."""
    value, error, groups = _ratio_and_error(total, weight)
    if groups < MIN_USERS or effective_groups(weight) < MIN_EFFECTIVE_GROUPS:
        return UNKNOWN
    half_width = _t_quantile(weight) * error
    if value <= 0:
        return Estimate(value, value - half_width, value + half_width)
    factor = float(np.exp(half_width / value))
    return Estimate(value, value / factor, value * factor)


def share(part: np.ndarray, whole: np.ndarray) -> Estimate:
    """Return the share from the groups' parts float64[G] and wholes float64[G]."""
    value, error, groups = _ratio_and_error(part, whole)
    if groups < MIN_USERS:
        return UNKNOWN
    value = min(max(value, 0.0), 1.0)
    variance = value * (1 - value)
    samples = float(groups)
    if variance <= ROUNDING:
        value = round(value)
    elif error > 0:
        samples = variance / error**2 * (_normal_quantile() / _t_quantile(whole)) ** 2
    successes, tail = value * samples, (1 - CONFIDENCE) / 2
    low = scipy.special.betaincinv(successes, samples - successes + 1, tail)
    high = scipy.special.betaincinv(successes + 1, samples - successes, 1 - tail)
    return Estimate(value, float(np.nan_to_num(low)), float(np.nan_to_num(high, nan=1.0)))


def quantile(weights: np.ndarray, edges: np.ndarray, level: float) -> Estimate:
    """Return the quantile below which the share `level` of the groups' histograms lies.

    weights: float64[G, B] over the bins between edges, float64[B + 1]. Weight is spread evenly
    within a bin.
    """
    cumulative = np.concatenate([[0.0], np.cumsum(weights.sum(axis=0))])
    if cumulative[-1] <= 0:
        return UNKNOWN
    cumulative /= cumulative[-1]
    value = float(_position_of(level, cumulative, edges))
    share_below = np.clip((value - edges[:-1]) / np.diff(edges), 0, 1)
    interval = share(weights @ share_below, weights.sum(axis=1))
    groups = np.count_nonzero(weights.sum(axis=1))
    if interval.low is None or interval.high is None or groups * min(level, 1 - level) < 1:
        return UNKNOWN
    low, high = (
        float(_position_of(end, cumulative, edges)) for end in (interval.low, interval.high)
    )
    return Estimate(value, low, high)


def _position_of(level: float, cumulative: np.ndarray, edges: np.ndarray) -> float:
    """Return the position at which a cumulative distribution reaches `level`."""
    k = int(np.clip(np.searchsorted(cumulative, level, "left"), 1, len(cumulative) - 1))
    step = cumulative[k] - cumulative[k - 1]
    fraction = (level - cumulative[k - 1]) / step if step > 0 else 1.0
    return edges[k - 1] + min(max(fraction, 0.0), 1.0) * (edges[k] - edges[k - 1])


def _ratio_and_error(part: np.ndarray, whole: np.ndarray) -> tuple[float, float, int]:
    """Return (ratio of sums, its standard error, number of groups with a positive whole)."""
    positive = whole > 0
    part, whole = part[positive], whole[positive]
    groups = len(whole)
    if groups < 2:
        return np.nan, np.nan, groups
    value = part.sum() / whole.sum()
    residuals = (part - value * whole) / (1 - whole / whole.sum())
    return float(value), float(np.sqrt((residuals**2).sum()) / whole.sum()), groups


def effective_groups(weight: np.ndarray) -> float:
    """Return the number of groups of equal weight that carry as much information."""
    return float(weight.sum() ** 2 / (weight**2).sum())


def _t_quantile(weight: np.ndarray) -> float:
    return float(scipy.special.stdtrit(max(effective_groups(weight) - 1, 1), (1 + CONFIDENCE) / 2))


def _normal_quantile() -> float:
    return float(scipy.special.ndtri((1 + CONFIDENCE) / 2))
