"""Differences between selections: made-up users whose true difference is known."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.multitest import multipletests

from spark_jobs.figures.statistics import (
    DifferenceIntervals,
    Sums,
    difference_intervals,
    limits_of_chance,
)

USERS = 40
PAGES = 400


def difference(first: Sums, second: Sums) -> DifferenceIntervals:
    """Return the numbers of one difference."""
    return DifferenceIntervals(*(values[0] for values in difference_intervals(first, second)))


def significant(differences: list[DifferenceIntervals]) -> np.ndarray:
    """Return of each difference on a page whether it is beyond chance."""
    p = np.array([found.p for found in differences])
    return p < limits_of_chance(p, np.zeros(len(p), int), 1)


def selection(random: np.random.Generator, users: np.ndarray, share: float) -> Sums:
    """Packets and losses of those of the users who are there; some send very much more than
    others, and each has a loss of their own."""
    there = np.flatnonzero(random.random(len(users)) < 0.8)
    packets = 50 * np.ceil(random.lognormal(2, 1.2, len(there)))
    lost = random.binomial(packets.astype(int), np.minimum(share * users[there], 0.9))
    return Sums(lost.astype(float), packets, packets, there)


def pages(true: float) -> list:
    """Differences of two selections of the same users, of which the first loses so much more."""
    out = []
    for seed in range(PAGES):
        random = np.random.default_rng(seed)
        users = random.lognormal(0, 0.8, USERS) / np.exp(0.8**2 / 2)
        out.append(
            difference(selection(random, users, 0.02 + true), selection(random, users, 0.02))
        )
    return out


@pytest.mark.parametrize("true", [0.0, 0.02])
def test_interval_contains_the_true_difference_as_often_as_it_promises(true):
    held = np.mean([d.low <= true <= d.high for d in pages(true)])
    assert 0.92 <= held <= 0.98


def test_false_alarms_are_fewer_than_one_page_in_twenty():
    """Twenty metrics on a page, none of which differs."""
    found = pages(0.0)
    alarms = [any(significant(found[start : start + 20])) for start in range(0, PAGES, 20)]
    assert np.mean(alarms) <= 0.1  # of 20 pages


def equal(values: list[float], group: int = 0) -> Sums:
    """A group a value, all of the same weight."""
    n = len(values)
    return Sums(np.array(values), np.ones(n), np.full(n, 10), np.arange(group, group + n))


@pytest.mark.parametrize(
    ("groups", "measured", "estimated"),
    [(2, 20, False), (3, 4, False), (3, 5, True), (10, 20, True)],
)
def test_too_few_groups_or_samples_give_no_difference(groups, measured, estimated):
    samples = np.full(groups, measured / groups)
    few = Sums(np.arange(groups) * 1.0, np.ones(groups), samples, np.arange(groups))
    found = difference(few, equal([float(n) for n in range(12)]))
    assert np.isfinite(found.first) == estimated
    assert np.isfinite(found.p) == (estimated and groups >= 10)


def test_values_that_never_vary_have_no_interval():
    found = difference(equal([0.0] * 12), equal([0.0] * 12))
    assert found.first == found.second
    assert np.isnan(found.p)


def test_errors_and_significance_equal_those_of_statsmodels():
    """Groups of users on both sides, of any weight."""
    random = np.random.default_rng(1)
    differences = []
    for _ in range(50):
        first, second = (
            Sums(random.normal(1, 1, n), random.random(n), np.ones(n), random.choice(64, n, False))
            for n in random.integers(10, 60, 2)
        )
        found = difference(first, second)
        denominator = np.concatenate([first.denominator, second.denominator])
        ratio = np.concatenate([first.numerator, second.numerator]) / denominator
        is_first = np.repeat([1.0, 0.0], [len(first.group), len(second.group)])
        fit = sm.WLS(ratio, sm.add_constant(is_first), weights=denominator).fit(
            cov_type="cluster", cov_kwds={"groups": np.concatenate([first.group, second.group])}
        )
        freedom = (
            min(x.sum() ** 2 / (x**2).sum() for x in (first.denominator, second.denominator)) - 1
        )
        reach = stats.t.ppf(0.975, freedom) * fit.bse[1]
        assert (found.high - found.low) / 2 == pytest.approx(reach, rel=1e-9)
        assert found.first - found.second == pytest.approx(fit.params[1])
        differences.append(found._replace(p=found.p**4))
    expected = multipletests([found.p for found in differences], 0.05, "holm")[0]
    assert significant(differences).tolist() == expected.tolist()
    assert 0 < expected.sum() < len(expected)
