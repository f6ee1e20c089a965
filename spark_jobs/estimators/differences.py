"""How two selections of connections differ in a metric, and how sure that is.

A metric is a ratio of sums: of lost packets by packets, of seconds by connections. What one user
has is alike, and users are in both selections: so sums are kept by group of users, and intervals
are robust to groups being alike (Liang and Zeger 1986; Cameron and Miller 2015, whose correction
for few groups is statsmodels'). Groups that weigh little tell little: degrees of freedom are those
of as many equal groups as tell the same (Kish 1965, 8.2; Carter, Schnepel and Steigerwald 2017).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.multitest import multipletests

from spark_jobs.estimators.by_user import CONFIDENCE, effective, enough

FEWEST_TELLING = 10
"""Groups of users on either side below which no interval is given."""


@dataclass(frozen=True)
class Sums:
    """A metric of one selection, by G groups of users."""

    group: np.ndarray
    """int64[G], each once"""
    top: np.ndarray
    """float64[G]"""
    bottom: np.ndarray
    """float64[G], positive"""
    measured: int
    """Connections, or whatever else was measured."""

    @property
    def value(self) -> float | None:
        """The metric; null if it rests on too few."""
        if not enough(self.measured, len(self.group)):
            return None
        return float(self.top.sum() / self.bottom.sum())


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
    if min(len(first.group), len(second.group)) < FEWEST_TELLING:
        return Difference(first.value, second.value)
    top, bottom = (
        np.concatenate([getattr(s, n) for s in (first, second)]) for n in ("top", "bottom")
    )
    is_first = np.repeat([1.0, 0.0], [len(first.group), len(second.group)])
    fit = sm.WLS(top / bottom, sm.add_constant(is_first), weights=bottom).fit(
        cov_type="cluster",
        cov_kwds={"groups": np.concatenate([first.group, second.group])},
    )
    error = float(fit.bse[1])
    if not error > 0:
        return Difference(first.value, second.value)
    freedom = max(min(effective(first.bottom), effective(second.bottom)) - 1, 1.0)
    estimate = first.value - second.value
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * error
    p = float(2 * stats.t.sf(abs(estimate) / error, freedom))
    return Difference(first.value, second.value, Interval(estimate - reach, estimate + reach, p))


def supported(differences: Sequence[Difference]) -> list[bool]:
    """Which of the differences on one page are more than chance makes of so many: with all of them
    none, one in twenty pages has one that is called so (Holm 1979)."""
    p = [d.interval.p for d in differences if d.interval]
    rejected = iter(multipletests(p, 1 - CONFIDENCE, "holm")[0] if p else ())
    return [d.interval is not None and bool(next(rejected)) for d in differences]
