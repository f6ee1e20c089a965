"""How sure a mean, a share or a quantile is, where what one user meets is alike.

Users are a sample of those who might have been there; their own samples share a radio channel, a
phone and habits. So an interval comes from how much users differ, not from how many samples there
are. It is told from sums by group of users (a group is a user where they are few):

mean      ratio of sums; its error as the users' jackknife has it (HC3 of the weighted mean of the
          groups: MacKinnon and White 1985), Student's t with one degree of freedom less than there
          are effective groups: (sum of weights)² / sum of squares, for a heavy user counts more.
          What is above zero, as rates and times are, has its interval on the logarithm
share     of a mean of zeros and ones, the number of independent samples that would have the same
          error; exact interval of as many (Korn and Graubard, Survey Methodology 1998). Where all
          users are at 0 or at 1, each group is one sample
quantile  where the distribution reaches the ends of the interval of the share that lies below it
          (Woodruff, JASA 1952); none where less than one group is expected beyond it
"""

from dataclasses import dataclass

import numpy as np
import scipy

CONFIDENCE = 0.95
GROUPS = 64
"""Groups of users by hash: the marts hold sums of them, in a network."""
MIN_SAMPLES, MIN_USERS = 5, 3
"""Of which something is said. One user's median is himself, and two tell nothing of a third; the
number of samples is the one below which the paper's clusters were not drawn here."""


MIN_EFFECTIVE_GROUPS = 2.0
"""Effective groups of users below which a mean is one user's, whoever else is there."""
ROUNDING = 1e-12
"""What rounding makes of a share's spread of none."""


@dataclass(frozen=True)
class Estimate:
    """A value and its interval; null where there are too few samples, or users, to tell."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


UNKNOWN = Estimate()


def enough(samples: float, users: int) -> bool:
    """Whether so many samples of so many (groups of) users are enough to say something."""
    return samples >= MIN_SAMPLES and users >= MIN_USERS


def mean(total: np.ndarray, weight: np.ndarray) -> Estimate:
    """Of the sums float64[G] and weights (or counts) float64[G] of groups of users."""
    value, error, groups = _ratio_and_error(total, weight)
    if groups < MIN_USERS or effective_groups(weight) < MIN_EFFECTIVE_GROUPS:
        return UNKNOWN
    half_width = _t_quantile(weight) * error
    if value <= 0:
        return Estimate(value, value - half_width, value + half_width)
    factor = float(np.exp(half_width / value))
    return Estimate(value, value / factor, value * factor)


def share(part: np.ndarray, whole: np.ndarray) -> Estimate:
    """Of what the groups of users have of it, float64[G], in their wholes, float64[G]."""
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
    """Of the groups' histograms float64[G, B] over the bins between edges float64[B + 1], spread
    evenly within a bin; at: the share below."""
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
    """Where a cumulative distribution reaches `at`."""
    k = int(np.clip(np.searchsorted(cumulative, level, "left"), 1, len(cumulative) - 1))
    step = cumulative[k] - cumulative[k - 1]
    fraction = (level - cumulative[k - 1]) / step if step > 0 else 1.0
    return edges[k - 1] + min(max(fraction, 0.0), 1.0) * (edges[k] - edges[k - 1])


def _ratio_and_error(part: np.ndarray, whole: np.ndarray) -> tuple[float, float, int]:
    """The ratio of sums, its standard error, and of how many groups."""
    positive = whole > 0
    part, whole = part[positive], whole[positive]
    groups = len(whole)
    if groups < 2:
        return np.nan, np.nan, groups
    value = part.sum() / whole.sum()
    residuals = (part - value * whole) / (1 - whole / whole.sum())
    return float(value), float(np.sqrt((residuals**2).sum()) / whole.sum()), groups


def effective_groups(weight: np.ndarray) -> float:
    """How many groups of equal weight tell as much."""
    return float(weight.sum() ** 2 / (weight**2).sum())


def _t_quantile(weight: np.ndarray) -> float:
    return float(scipy.special.stdtrit(max(effective_groups(weight) - 1, 1), (1 + CONFIDENCE) / 2))


def _normal_quantile() -> float:
    return float(scipy.special.ndtri((1 + CONFIDENCE) / 2))
