"""Confidence intervals and tests of values that are alike within a user.

Users are a sample of those who might have been there. One user's samples share a radio channel, a
phone and habits. So an interval comes from the differences between users, not from the number of
samples. All estimates are computed from sums by group of users (a group is one user if a day has
few users). The report, `giscope sql` and the dashboards call the same functions (see
`sql_functions`): each computes many estimates at once, as arrays in which NaN means unknown.

mean        ratio of sums. Its standard error is the users' jackknife (HC3 of the weighted mean of
            the groups: MacKinnon and White 1985). Its interval is Student's t with one degree of
            freedom less than there are effective groups: (sum of weights)² / sum of squares,
            because a heavy user counts more (Kish 1965, 8.2). Values above zero, such as rates and
            times, have their interval on the logarithm.
share       a mean of zeros and ones. The number of independent samples that would have the same
            error is computed first. The interval is the exact interval of that many samples (Korn
            and Graubard, Survey Methodology 1998). If all users are at 0 or all at 1, each group is
            one sample.
quantile    of the samples. Its interval: the points at which the distribution reaches the ends of
            the interval of the share that lies below the quantile (Woodruff, JASA 1952). There is
            none if less than one group is expected beyond it.
difference  of a ratio of sums between two selections, which may have the same users. Its standard
            error is robust to similarity within a group (Liang and Zeger 1986; Cameron and Miller
            2015, with their correction for few groups, V-A). Its degrees of freedom are those of
            the number of equal groups with the same information (Carter, Schnepel and Steigerwald
            2017), of the selection that has fewer.

Superset's environment imports this module: it needs only NumPy and SciPy.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy

CONFIDENCE = 0.95
"""Confidence level of all intervals."""
MIN_SAMPLES, MIN_USERS = 5, 3
"""Minimum number of samples and of users (or groups of users) to report an estimate.

One user's median describes only that user, and two users say nothing about a third. The number of
samples is the number below which the paper's clusters were not drawn.
"""
MIN_EFFECTIVE_GROUPS = 3.0
"""Minimum number of effective groups of users to report a mean.

With fewer, it describes one or two users, however many there are.
"""
MIN_GROUPS_FOR_DIFFERENCE = 10
"""Minimum number of groups of users in each of two selections for the interval of a difference."""
ROUNDING = 1e-12
"""Upper bound on what rounding errors add to a spread, or take from a number of groups."""

_TAIL = (1 - CONFIDENCE) / 2


def _quiet() -> np.errstate:
    """Return a decorator of a function that also computes unknown values, as NaN."""
    return np.errstate(divide="ignore", invalid="ignore", over="ignore")


@dataclass(frozen=True)
class Estimate:
    """A value and its interval; null if there are too few samples or users."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


UNKNOWN = Estimate()
"""The estimate if there are too few samples or users."""


@dataclass(frozen=True)
class Sums:
    """Sums of G groups of users, which belong to one or several ratios of sums."""

    numerator: np.ndarray
    """float64[G]."""
    denominator: np.ndarray
    """float64[G]; a group without a positive one does not count."""
    samples: np.ndarray
    """float64[G]: number of connections, or of whatever else was measured."""
    group: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """[G]: labels of the groups, distinct within a ratio; only differences need them.

    The same label in two selections means the same users.
    """
    ratio: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64), kw_only=True)
    """int64[G]: number of the group's ratio, from 0; empty if there is one ratio."""
    ratios: int = field(default=1, kw_only=True)
    """Number of ratios."""

    def select(self, mask: np.ndarray) -> "Sums":
        """Return the sums of some groups."""
        *columns, ratio = (
            column[mask] if len(column) else column
            for column in (self.numerator, self.denominator, self.samples, self.group, self.ratio)
        )
        return Sums(*columns, ratio=ratio, ratios=self.ratios)

    def total(self, values: np.ndarray) -> np.ndarray:
        """Return float64[ratios]: the sum of the groups' values."""
        return np.bincount(self.ratio_numbers, values, self.ratios)

    @property
    def ratio_numbers(self) -> np.ndarray:
        """Return int64[G]: the number of each group's ratio."""
        return self.ratio if len(self.ratio) else np.zeros(len(self.numerator), np.int64)


class _Totals(NamedTuple):
    """The ratios' sums, float64[ratios], over the groups with a positive denominator."""

    sums: Sums
    groups: np.ndarray
    whole: np.ndarray
    value: np.ndarray
    effective_groups: np.ndarray
    is_enough: np.ndarray

    @classmethod
    @_quiet()
    def of(cls, sums: Sums) -> "_Totals":
        sums = sums.select(sums.denominator > 0)
        groups, whole = sums.total(np.ones(len(sums.numerator))), sums.total(sums.denominator)
        return cls(
            sums,
            groups,
            whole,
            sums.total(sums.numerator) / whole,
            whole**2 / sums.total(sums.denominator**2),
            enough(sums.total(sums.samples), groups),
        )

    @property
    def reported_value(self) -> np.ndarray:
        return np.where(self.is_enough, self.value, np.nan)

    def residual(self) -> np.ndarray:
        """Return float64[G]: what a group has more than it would have at its ratio's value."""
        ratio = self.sums.ratio_numbers
        return self.sums.numerator - self.value[ratio] * self.sums.denominator

    def error(self) -> np.ndarray:
        """Return the ratios' standard errors (HC3)."""
        weight = self.sums.denominator / self.whole[self.sums.ratio_numbers]
        return np.sqrt(self.sums.total((self.residual() / (1 - weight)) ** 2)) / self.whole


class Intervals(NamedTuple):
    """Values and their intervals, float64[ratios]."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


class DifferenceIntervals(NamedTuple):
    """Ratios of two selections and the intervals of their differences, float64[ratios]."""

    first: np.ndarray
    second: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray
    """Probability that chance alone makes a difference at least as large."""


def enough(samples: Any, users: Any) -> Any:
    """Return whether there are enough samples and enough users (or groups of users) to report.

    The arguments are numbers or arrays, and so is the answer.
    """
    return (samples >= MIN_SAMPLES) & (users >= MIN_USERS)


def enough_sql(samples: str, users: str) -> str:
    """Return `enough` as a condition of SQL; samples, users: SQL of their numbers."""
    return f"{samples} >= {MIN_SAMPLES} and {users} >= {MIN_USERS}"


def t_quantile(degrees_of_freedom: np.ndarray | float) -> np.ndarray:
    """Return the quantile of Student's t for half an interval, of at least one degree of freedom.

    The interval is the estimate plus and minus so many standard errors.
    """
    return scipy.special.stdtrit(np.maximum(degrees_of_freedom, 1), 1 - _TAIL)


@_quiet()
def mean_intervals(sums: Sums) -> Intervals:
    """Return the means, each with its interval."""
    totals = _Totals.of(sums)
    value = totals.value
    half_width = t_quantile(totals.effective_groups - 1) * totals.error()
    factor = np.exp(half_width / value)
    return _where(
        totals.is_enough & (totals.effective_groups > MIN_EFFECTIVE_GROUPS - ROUNDING),
        value,
        np.where(value > 0, value / factor, value - half_width),
        np.where(value > 0, value * factor, value + half_width),
    )


@_quiet()
def share_intervals(sums: Sums) -> Intervals:
    """Return the shares, each with its interval."""
    totals = _Totals.of(sums)
    value, error = np.clip(totals.value, 0, 1), totals.error()
    variance = value * (1 - value)
    is_spread = variance > ROUNDING
    deviates = scipy.special.ndtri(1 - _TAIL) / t_quantile(totals.effective_groups - 1)
    differ = is_spread & (error > ROUNDING)
    samples = np.where(differ, variance * (deviates / error) ** 2, totals.groups)
    value = np.where(is_spread, value, np.round(value))
    successes, failures = value * samples, samples - value * samples
    low = scipy.special.betaincinv(successes, failures + 1, _TAIL)
    high = scipy.special.betaincinv(successes + 1, failures, 1 - _TAIL)
    return _where(
        totals.is_enough,
        value,
        np.where(successes > 0, low, 0),
        np.where(failures > 0, high, 1),
    )


def _where(known: np.ndarray, *values: np.ndarray) -> Intervals:
    return Intervals(*(np.where(known, value, np.nan) for value in values))


def mean(numerator: np.ndarray, denominator: np.ndarray, samples: np.ndarray) -> Estimate:
    """Return the mean from the groups' sums, weights (or counts) and samples, float64[G]."""
    return _estimate(mean_intervals(Sums(numerator, denominator, samples)))


def share(part: np.ndarray, whole: np.ndarray, samples: np.ndarray) -> Estimate:
    """Return the share from the groups' parts, wholes and samples, float64[G]."""
    return _estimate(share_intervals(Sums(part, whole, samples)))


class Points(NamedTuple):
    """Samples of users as points with a weight, float64[N]; a point may stand for several samples.

    value: the sample, or the mean of the samples.
    lowest, highest: the smallest and the largest of the samples.
    group: int64[N], number of the user group, from 0.
    """

    value: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray
    weight: np.ndarray
    group: np.ndarray

    def where(self, mask: np.ndarray) -> "Points":
        """Return some of the points."""
        return Points(*(column[mask] for column in self))


def quantile(points: Points, samples: np.ndarray, level: float) -> Estimate:
    """Return the quantile below which the share `level` of the points' positive weight lies.

    The interval is as wide as it must be to hold that of the samples, which are between the lowest
    and the highest of their point.

    samples: float64[G], number of samples of each user group.
    """
    order = np.argsort(points.value, kind="stable")
    weight, group = points.weight[order], points.group[order]
    end = np.cumsum(weight)
    if not len(end):
        return UNKNOWN
    below = np.clip(level * end[-1] - (end - weight), 0, weight)
    whole = np.bincount(group, weight, len(samples))
    interval = share(np.bincount(group, below, len(samples)), whole, samples)
    groups = np.count_nonzero(whole)
    if (
        interval.low is None
        or interval.high is None
        or groups * min(level, 1 - level) < 1 - ROUNDING
    ):
        return UNKNOWN
    return Estimate(
        _position_of(level, points.value, points.weight),
        _position_of(interval.low, points.lowest, points.weight),
        _position_of(interval.high, points.highest, points.weight),
    )


def binned_quantile(bins: np.ndarray, group: np.ndarray, level: float) -> Estimate:
    """Return the quantile of samples in bins: `quantile` of the samples' values.

    It is exact if no bin has more than three samples. Else samples between the smallest and the
    largest of a bin count as their mean, so the error is less than a bin.

    bins: float64[B, 5], the number of samples, their weight, the sum of weight times value, the
    smallest and the largest value. group: int64[B], number of the user group, from 0.
    """
    count, weight, weighted_sum, lowest, highest = bins.T
    others = np.maximum(count - 2, 0)
    other = (weighted_sum / weight * count - lowest - highest) / np.maximum(others, 1)
    parts = [
        Points(lowest, lowest, lowest, weight / count, group),
        Points(highest, highest, highest, weight / count * (count > 1), group),
        Points(np.clip(other, lowest, highest), lowest, highest, weight / count * others, group),
    ]
    points = Points(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    return quantile(points.where(points.weight > 0), np.bincount(group, count), level)


LOG_BINS = 10
"""Bins per unit of the natural logarithm in marts of times: bin = floor(LOG_BINS * ln(time))."""


def log_quantile(bins: np.ndarray, level: float) -> float | None:
    """Return a quantile of samples in bins of LOG_BINS, right to a few per cent; None without any.

    Samples are taken to be spread evenly within a bin. bins: float64[n, 2], bin and weight.
    """
    order = np.argsort(bins[:, 0], kind="stable")
    numbers, weights = bins[order].T
    numbers, first = np.unique(numbers, return_index=True)
    weights = np.add.reduceat(weights, first) if len(first) else weights
    end = np.cumsum(weights)
    if not len(end) or not end[-1]:
        return None
    place = np.argmax((weights > 0) & (end >= level * end[-1]))
    inside = (level * end[-1] - end[place] + weights[place]) / weights[place]
    return float(np.exp((numbers[place] + inside) / LOG_BINS))


def _position_of(level: float, values: np.ndarray, weights: np.ndarray) -> float:
    """Return the weighted quantile, between the smallest and the largest value.

    With equal weights it is that of Hyndman and Fan (The American Statistician 1996), definition 7:
    the k-th of n sorted values is that of the level (k - 1) / (n - 1).
    """
    order = np.argsort(values, kind="stable")
    values, weights = values[order], weights[order]
    middle = np.cumsum(weights) - weights / 2
    span = middle[-1] - middle[0]
    return float(np.interp(level * span, middle - middle[0], values))


def _estimate(intervals: Intervals) -> Estimate:
    return Estimate(*(_or_none(values[0]) for values in intervals))


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


@_quiet()
def difference_intervals(first: Sums, second: Sums) -> DifferenceIntervals:
    """Return the differences: each ratio's value in the first selection minus in the second."""
    sides = _Totals.of(first), _Totals.of(second)
    values = [side.reported_value for side in sides]
    estimate, error = values[0] - values[1], _error_of_difference(*sides)
    freedom = np.fmin(sides[0].effective_groups, sides[1].effective_groups) - 1
    min_groups = np.minimum(sides[0].groups, sides[1].groups)
    error = np.where((min_groups >= MIN_GROUPS_FOR_DIFFERENCE) & (error > 0), error, np.nan)
    half_width = t_quantile(freedom) * error
    p = 2 * scipy.special.stdtr(np.maximum(freedom, 1), -np.abs(estimate) / error)
    return DifferenceIntervals(
        values[0], values[1], estimate - half_width, estimate + half_width, p
    )


def _error_of_difference(*sides: _Totals) -> np.ndarray:
    """Return the differences' standard errors, from each group's influence on them (CR1)."""
    ratio = np.concatenate([side.sums.ratio_numbers for side in sides])
    group = np.concatenate([side.sums.group for side in sides])
    influence = np.concatenate(
        [
            sign * side.residual() / side.whole[side.sums.ratio_numbers]
            for sign, side in zip((1, -1), sides, strict=True)
        ]
    )
    labels, codes = np.unique(group, return_inverse=True)
    clusters, codes = np.unique(ratio * len(labels) + codes, return_inverse=True)
    combined = np.bincount(codes, influence)
    ratios = sides[0].sums.ratios
    cluster_ratio = clusters // max(len(labels), 1)
    squares = np.bincount(cluster_ratio, combined**2, ratios)
    count, influences = (
        np.bincount(cluster_ratio, minlength=ratios),
        np.bincount(ratio, minlength=ratios),
    )
    return np.sqrt(squares * count / (count - 1) * (influences - 1) / (influences - 2))


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


def limits_of_chance(p: np.ndarray, page: np.ndarray, pages: int) -> np.ndarray:
    """Return for each page the p below which its differences are significant (Holm 1979).

    If no difference on a page is real, a page has a false one with a probability of one in twenty.

    p, page: float64[N], int64[N]: differences, and the number of each one's page. An unknown
    p, NaN, does not count.
    """
    known = ~np.isnan(p)
    p, page = p[known], page[known]
    order = np.lexsort((p, page))
    p, page = p[order], page[order]
    rank = np.arange(len(p)) - np.searchsorted(page, page)
    allowed = (1 - CONFIDENCE) / (np.bincount(page, minlength=pages)[page] - rank)
    limits = np.full(pages, np.inf)
    np.minimum.at(limits, page[p > allowed], p[p > allowed])
    return limits
