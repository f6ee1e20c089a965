"""How two selections of connections differ in a metric, and how sure that is.

A metric is a ratio of sums: of lost packets by packets, of seconds by connections. What one user
has is alike, and users are in both selections: so sums are kept by group of users, and intervals
are robust to groups being alike (Liang and Zeger 1986; Cameron and Miller 2015, whose correction
for few groups, V-A, is made). Groups that weigh little tell little: degrees of freedom are those
of as many equal groups as tell the same (Kish 1965, 8.2; Carter, Schnepel and Steigerwald 2017).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from spark_jobs.estimators.by_user import CONFIDENCE, effective_groups, enough

MIN_GROUPS_FOR_INTERVAL = 10
"""Groups of users on either side below which no interval is given."""


@dataclass(frozen=True)
class Sums:
    """A metric of one selection, by G groups of users."""

    group: np.ndarray
    """[G]: labels of the groups, each once. The same label in two selections is the same users."""
    numerator: np.ndarray
    """float64[G]"""
    denominator: np.ndarray
    """float64[G], positive"""
    measured: int
    """Connections, or whatever else was measured."""

    @property
    def value(self) -> float | None:
        """The metric; null if it rests on too few."""
        if not enough(self.measured, len(self.group)):
            return None
        return float(self.numerator.sum() / self.denominator.sum())


@dataclass(frozen=True)
class Interval:
    """How sure a difference is: its ends at CONFIDENCE, and how likely chance alone would make one
    as large."""

    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Difference:
    """A metric of two selections; null where it rests on too few, or on too few to say how sure
    their difference is."""

    first: float | None
    second: float | None
    interval: Interval | None = None

    @property
    def estimate(self) -> float | None:
        """By how much the first exceeds the second."""
        if self.first is None or self.second is None:
            return None
        return self.first - self.second


def difference(first: Sums, second: Sums) -> Difference:
    """The first's metric less the second's."""
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
    """The standard error of the difference: how far each group of users turns it."""
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
    """Which of the differences on one page are more than chance makes of so many: with all of them
    none, one in twenty pages has one that is called so (Holm 1979)."""
    p_values = sorted(d.interval.p for d in differences if d.interval)
    allowed = (1 - CONFIDENCE) / np.arange(len(p_values), 0, -1)
    failed = np.flatnonzero(p_values > allowed)
    min_failed = p_values[failed[0]] if len(failed) else np.inf
    return [d.interval is not None and d.interval.p < min_failed for d in differences]
