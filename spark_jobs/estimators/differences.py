"""Differences of a metric between two selections of connections, with confidence intervals.

A metric is a ratio of sums, such as lost packets per packet, or seconds per connection. One user's
connections are alike, and the same users are in both selections. So sums are kept by group of
users, and intervals are robust to similarity within a group (Liang and Zeger 1986; Cameron and
Miller 2015, with their correction for few groups, V-A). Groups of little weight carry little
information. So the degrees of freedom are those of the number of equal groups with the same
information (Kish 1965, 8.2; Carter, Schnepel and Steigerwald 2017).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from spark_jobs.estimators.by_user import CONFIDENCE, effective_groups, enough

MIN_GROUPS_FOR_INTERVAL = 10
"""Minimum number of groups of users on each side for an interval."""


@dataclass(frozen=True)
class Sums:
    """A metric of one selection, by G groups of users."""

    group: np.ndarray
    """[G]: distinct labels of the groups. The same label in two selections means the same users."""
    numerator: np.ndarray
    """float64[G]."""
    denominator: np.ndarray
    """float64[G], positive."""
    measured: int
    """Number of connections, or of whatever else was measured."""

    @property
    def value(self) -> float | None:
        """Return the metric, or null if it rests on too few samples or groups."""
        if not enough(self.measured, len(self.group)):
            return None
        return float(self.numerator.sum() / self.denominator.sum())


@dataclass(frozen=True)
class Interval:
    """The confidence interval of a difference.

    low, high: its ends at CONFIDENCE
    p: probability that chance alone makes a difference at least as large
    """

    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Difference:
    """A metric of two selections, and the interval of their difference.

    A metric is null if it rests on too few samples. The interval is null if there are too few
    groups.
    """

    first: float | None
    second: float | None
    interval: Interval | None = None

    @property
    def estimate(self) -> float | None:
        """Return by how much the first metric exceeds the second."""
        if self.first is None or self.second is None:
            return None
        return self.first - self.second


def difference(first: Sums, second: Sums) -> Difference:
    """Return the difference: the first selection's metric minus the second's."""
    if first.value is None or second.value is None:
        return Difference(first.value, second.value)
    if min(len(first.group), len(second.group)) < MIN_GROUPS_FOR_INTERVAL:
        return Difference(first.value, second.value)
    error = _standard_error(first, second)
    if not error > 0:
        return Difference(first.value, second.value)
    degrees_of_freedom = max(
        min(effective_groups(first.denominator), effective_groups(second.denominator)) - 1, 1.0
    )
    estimate = first.value - second.value
    half_width = float(scipy.special.stdtrit(degrees_of_freedom, (1 + CONFIDENCE) / 2)) * error
    p = float(2 * scipy.special.stdtr(degrees_of_freedom, -abs(estimate) / error))
    return Difference(
        first.value, second.value, Interval(estimate - half_width, estimate + half_width, p)
    )


def _standard_error(first: Sums, second: Sums) -> float:
    """Return the standard error of the difference, from each group's influence on it."""
    sides = (first, second)
    labels = np.concatenate([side.group for side in sides])
    influences = [
        (side.numerator - side.numerator.sum() / side.denominator.sum() * side.denominator)
        for side in sides
    ]
    influences = [
        influence / side.denominator.sum()
        for influence, side in zip(influences, sides, strict=True)
    ]
    distinct, codes = np.unique(labels, return_inverse=True)
    combined = np.bincount(codes, np.concatenate([influences[0], -influences[1]]))
    correction = len(distinct) / (len(distinct) - 1) * (len(labels) - 1) / (len(labels) - 2)
    return float(np.sqrt(correction * (combined**2).sum()))


def significant(differences: Sequence[Difference]) -> list[bool]:
    """Return, for each difference on a page, whether it is significant (Holm 1979).

    If no difference on a page is real, a page has a false one with a probability of one in twenty.
    """
    p_values = sorted(d.interval.p for d in differences if d.interval)
    allowed = (1 - CONFIDENCE) / np.arange(len(p_values), 0, -1)
    failed = np.flatnonzero(p_values > allowed)
    min_failed = p_values[failed[0]] if len(failed) else np.inf
    return [d.interval is not None and d.interval.p < min_failed for d in differences]
