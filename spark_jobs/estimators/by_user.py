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
FEWEST_SAMPLES, FEWEST_USERS = 5, 3
"""Of which something is said. One user's median is himself, and two tell nothing of a third; the
number of samples is the one below which the paper's clusters were not drawn here."""


FEWEST_EFFECTIVE = 2.0
"""Effective groups of users below which a mean is one user's, whoever else is there."""
NOTHING = 1e-12
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
    return samples >= FEWEST_SAMPLES and users >= FEWEST_USERS


def mean(total: np.ndarray, weight: np.ndarray) -> Estimate:
    """Of the sums float64[G] and weights (or counts) float64[G] of groups of users."""
    value, error, groups = _ratio(total, weight)
    if groups < FEWEST_USERS or effective(weight) < FEWEST_EFFECTIVE:
        return UNKNOWN
    half = _students_t(weight) * error
    if value <= 0:
        return Estimate(value, value - half, value + half)
    factor = float(np.exp(half / value))
    return Estimate(value, value / factor, value * factor)


def share(part: np.ndarray, whole: np.ndarray) -> Estimate:
    """Of what the groups of users have of it, float64[G], in their wholes, float64[G]."""
    value, error, groups = _ratio(part, whole)
    if groups < FEWEST_USERS:
        return UNKNOWN
    value = min(max(value, 0.0), 1.0)
    spread = value * (1 - value)
    samples = float(groups)
    if spread <= NOTHING:
        value = round(value)
    elif error > 0:
        samples = spread / error**2 * (_normal() / _students_t(whole)) ** 2
    part_of_samples, tail = value * samples, (1 - CONFIDENCE) / 2
    low = scipy.special.betaincinv(part_of_samples, samples - part_of_samples + 1, tail)
    high = scipy.special.betaincinv(part_of_samples + 1, samples - part_of_samples, 1 - tail)
    return Estimate(value, float(np.nan_to_num(low)), float(np.nan_to_num(high, nan=1.0)))


def quantile(weights: np.ndarray, edges: np.ndarray, at: float) -> Estimate:
    """Of the groups' histograms float64[G, B] over the bins between edges float64[B + 1], spread
    evenly within a bin; at: the share below."""
    reached = np.concatenate([[0.0], np.cumsum(weights.sum(axis=0))])
    if reached[-1] <= 0:
        return UNKNOWN
    reached /= reached[-1]
    value = float(_where(at, reached, edges))
    below = np.clip((value - edges[:-1]) / np.diff(edges), 0, 1)
    found = share(weights @ below, weights.sum(axis=1))
    groups = np.count_nonzero(weights.sum(axis=1))
    if found.low is None or found.high is None or groups * min(at, 1 - at) < 1:
        return UNKNOWN
    low, high = (float(_where(end, reached, edges)) for end in (found.low, found.high))
    return Estimate(value, low, high)


def _where(at: float, reached: np.ndarray, edges: np.ndarray) -> float:
    """Where a cumulative distribution reaches `at`."""
    k = int(np.clip(np.searchsorted(reached, at, "left"), 1, len(reached) - 1))
    step = reached[k] - reached[k - 1]
    within = (at - reached[k - 1]) / step if step > 0 else 1.0
    return edges[k - 1] + min(max(within, 0.0), 1.0) * (edges[k] - edges[k - 1])


def _ratio(part: np.ndarray, whole: np.ndarray) -> tuple[float, float, int]:
    """The ratio of sums, its standard error, and of how many groups."""
    there = whole > 0
    part, whole = part[there], whole[there]
    groups = len(whole)
    if groups < 2:
        return np.nan, np.nan, groups
    value = part.sum() / whole.sum()
    turned = (part - value * whole) / (1 - whole / whole.sum())
    return float(value), float(np.sqrt((turned**2).sum()) / whole.sum()), groups


def effective(weight: np.ndarray) -> float:
    """How many groups of equal weight tell as much."""
    return float(weight.sum() ** 2 / (weight**2).sum())


def _students_t(weight: np.ndarray) -> float:
    return float(scipy.special.stdtrit(max(effective(weight) - 1, 1), (1 + CONFIDENCE) / 2))


def _normal() -> float:
    return float(scipy.special.ndtri((1 + CONFIDENCE) / 2))
