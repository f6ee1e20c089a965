"""Intervals of means, shares and quantiles of what users meet, on made-up users."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from spark_jobs.figures.statistics import enough, mean, quantile, share

EDGES = np.exp(np.arange(-300, 400) / 50)


def test_five_samples_of_three_users_are_enough():
    assert enough(5, 3)
    assert not enough(4, 3)
    assert not enough(500, 2)


def test_mean_is_that_of_the_samples_and_its_error_that_of_the_jackknife():
    """Users of 2, 4 and 6 samples, and of sums 4, 12, 30: 46 / 12. Without each of them in turn it
    is 42 / 10, 34 / 8 and 16 / 6; groups are 144 / 56 = 2.57 effective."""
    total, weight = np.array([4.0, 12, 30]), np.array([2.0, 4, 6])
    found = mean(total, weight, weight)
    assert found.value == pytest.approx(46 / 12)
    left_out = np.array([42 / 10, 34 / 8, 16 / 6]) - 46 / 12
    half = stats.t.ppf(0.975, 144 / 56 - 1) * np.sqrt((left_out**2).sum())
    factor = np.exp(half / found.value)
    assert (found.low, found.high) == pytest.approx((found.value / factor, found.value * factor))


def test_mean_of_mostly_one_user_is_null():
    """4 users, of whom one has 20 of 23 samples: 23² / (400 + 3) = 1.3 effective ones."""
    weight, samples = np.array([20.0, 1, 1, 1]), np.full(4, 9.0)
    assert mean(np.array([20.0, 2, 2, 2]), weight, samples).value is None
    assert mean(np.array([3.0, 2, 2, 2]), np.array([3.0, 1, 1, 1]), samples).value is not None


def test_mean_of_users_with_equal_sample_counts_equals_statsmodels():
    """Of equal users the mean of their means; a large sample's interval is the textbook's."""
    random = np.random.default_rng(1)
    users = random.normal(20, 2, 400)
    found = mean(10 * users, *2 * [np.full(400, 10.0)])
    low, high = sm.stats.DescrStatsW(users).tconfint_mean()
    assert (found.low, found.high) == pytest.approx((low, high), rel=2e-3)


def test_share_of_0_or_1_for_all_users_counts_each_user_as_one_sample():
    """Nobody of 40 users: up to 1 - 0.025 ** (1 / 40)."""
    found = share(np.zeros(40), *2 * [np.full(40, 100.0)])
    assert found.value == found.low == 0
    assert found.high == pytest.approx(1 - 0.025 ** (1 / 40))
    everyone = share(*3 * [np.full(40, 100.0)])
    assert (everyone.low, everyone.high) == pytest.approx((0.025 ** (1 / 40), 1))


def test_interval_of_a_share_that_is_0_or_1_per_user_counts_users_not_samples():
    """10 of 40 users have it always: as sure as 10 of 40, though there are 4000 samples."""
    found = share(np.repeat([100.0, 0.0], [10, 30]), *2 * [np.full(40, 100.0)])
    assert found.value == 0.25
    exact = stats.binomtest(10, 40).proportion_ci(method="exact")
    assert (found.low, found.high) == pytest.approx(exact, abs=0.02)


def test_quantile_is_that_of_the_samples_to_within_a_bin():
    random = np.random.default_rng(5)
    values = np.exp(random.normal(0, 0.5, (60, 50)))
    counts = np.array([np.histogram(mine, EDGES)[0] for mine in values], float)
    for at in (0.1, 0.5, 0.9):
        found = quantile(counts, EDGES, counts.sum(axis=1), at)
        assert found.value == pytest.approx(np.quantile(values, at), rel=0.02)
        assert found.low < found.value < found.high


def test_estimate_from_too_few_users_is_null():
    counts = np.zeros((4, len(EDGES) - 1))
    counts[:, 200:300] = 1
    assert quantile(counts, EDGES, counts.sum(axis=1), 0.5).low is not None
    assert quantile(counts, EDGES, counts.sum(axis=1), 0.9).value is None
    assert mean(*3 * [np.full(2, 9.0)]).value is None
    assert share(*3 * [np.full(2, 9.0)]).value is None
    assert quantile(np.zeros((4, 699)), EDGES, np.zeros(4), 0.5).value is None


@pytest.mark.parametrize("users", [5, 15, 60])
def test_intervals_contain_the_true_value_about_as_often_as_they_promise(users):
    """Users with 10 samples on average, geometrically distributed, about a level of their own; 500
    times. 95 % is by chance within 93 and 97 %; a skewed mean of few users is held a little less
    often, shares and medians of few a little more."""
    random = np.random.default_rng(users)
    held: dict[str, list[bool]] = {"mean": [], "median": [], "share": []}
    chance = 0.1556  # the mean of 1 / (1 + exp(2 - z)), z normal
    for _ in range(500):
        counts = random.geometric(0.1, users)
        user = np.repeat(np.arange(users), counts)
        values = np.exp(random.normal(0, 0.5, users)[user] + random.normal(0, 0.3, len(user)))
        bins = np.zeros((users, len(EDGES) - 1))
        np.add.at(bins, (user, np.searchsorted(EDGES, values) - 1), 1)
        own = 1 / (1 + np.exp(2 - random.normal(0, 1, users)))
        found = {
            "mean": (mean(np.bincount(user, values), counts, counts), np.exp(0.17)),
            "median": (quantile(bins, EDGES, counts, 0.5), 1.0),
            "share": (share(random.binomial(counts, own), counts, counts), chance),
        }
        for name, (estimate, truth) in found.items():
            if estimate.low is not None:
                held[name].append(estimate.low <= truth <= estimate.high)
    for name, of in held.items():
        assert len(of) > 450
        assert 0.91 <= np.mean(of) <= (0.98 if users > 20 else 1), name


def test_errors_of_means_and_shares_equal_those_of_statsmodels():
    """Users of any weight, some of whom have it always, and one network where nobody has."""
    random = np.random.default_rng(1)
    for usual in (0.0, 0.02, 0.5, 1.0):
        whole = random.integers(1, 50, 40).astype(float)
        part = random.binomial(whole.astype(int), usual).astype(float)
        fit = sm.WLS(part / whole, np.ones(40), weights=whole).fit(cov_type="HC3")
        value, error = fit.params[0], fit.bse[0]
        freedom = whole.sum() ** 2 / (whole**2).sum() - 1
        student = stats.t.ppf(0.975, freedom)
        samples = 40
        if 0 < value < 1:
            samples = value * (1 - value) / error**2 * (stats.norm.ppf(0.975) / student) ** 2
            estimated = mean(part, whole, whole)
            assert estimated.high == pytest.approx(
                value * np.exp(student * error / value), rel=1e-9
            )
        expected = proportion_confint(value * samples, samples, 0.05, method="beta")
        found = share(part, whole, whole)
        assert (found.low, found.high) == pytest.approx(
            np.nan_to_num(expected, nan=value), rel=1e-9
        )
