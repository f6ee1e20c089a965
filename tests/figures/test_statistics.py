"""Intervals of means, shares and quantiles of what users meet, on made-up users."""

from itertools import product

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from spark_jobs.figures.samples import quantile
from spark_jobs.figures.statistics import Estimate, enough, mean, share
from tests.helpers.distributions import distribution


def test_five_samples_of_three_users_are_enough():
    assert enough(5, 3)
    assert not enough(4, 3)
    assert not enough(500, 2)


def test_mean_is_that_of_the_samples_and_its_error_that_of_the_jackknife():
    """Users of 2, 4, 4 and 6 samples, and of sums 4, 12, 12, 30: 58 / 16. Without each of them in
    turn it is 54 / 14, 46 / 12 twice, and 28 / 10; groups are 256 / 72 = 3.56 effective."""
    total, weight = np.array([4.0, 12, 12, 30]), np.array([2.0, 4, 4, 6])
    found = mean(total, weight, weight)
    assert found.value == pytest.approx(58 / 16)
    left_out = np.array([54 / 14, 46 / 12, 46 / 12, 28 / 10]) - 58 / 16
    half = stats.t.ppf(0.975, 256 / 72 - 1) * np.sqrt((left_out**2).sum())
    factor = np.exp(half / found.value)
    assert (found.low, found.high) == pytest.approx((found.value / factor, found.value * factor))


def test_mean_of_fewer_than_three_effective_users_is_null():
    """4 users, of whom one has 4 of 7 samples: 49 / (16 + 3) = 2.6 effective ones; with 3 of 6 it
    is 36 / 12 = 3. Three equal users are 3."""
    samples = np.full(4, 9.0)
    assert mean(np.array([4.0, 2, 2, 2]), np.array([4.0, 1, 1, 1]), samples).value is None
    assert mean(np.array([3.0, 2, 2, 2]), np.array([3.0, 1, 1, 1]), samples).value is not None
    assert mean(np.array([3.0, 2, 2]), np.full(3, 0.1), samples[:3]).value is not None


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


def quantile_of(values: np.ndarray, users: np.ndarray, level: float) -> Estimate:
    return quantile(distribution(values, users).to_dict("records"), level)


LEVELS = (0.1, 0.5, 0.9)


@pytest.mark.parametrize("level", LEVELS)
def test_quantile_of_few_samples_is_exact(level):
    """Up to three samples of a user in a bin of 2 %."""
    random = np.random.default_rng(5)
    values, users = np.exp(random.normal(0, 0.5, 60 * 20)), np.repeat(np.arange(60), 20)
    assert distribution(values, users)["samples"].max() == 3
    found = quantile_of(values, users, level)
    assert found.value == pytest.approx(np.quantile(values, level), rel=1e-12)
    assert found.low < found.value < found.high


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("level", LEVELS)
def test_quantile_of_many_samples_of_a_link_is_right_to_a_bin_and_its_interval_holds_it(
    seed, level
):
    """Users' rates are just below the 43.9 kbit/s of one link; none is above it."""
    random = np.random.default_rng(seed)
    users = np.repeat(np.arange(8), 30)
    values = 43_900 * (1 - random.beta(1, 20, len(users)) * random.choice([0.1, 1]))
    found, exact = quantile_of(values, users, level), np.quantile(values, level)
    if found.value is None:
        assert level != 0.5
        return
    assert found.value == pytest.approx(exact, rel=0.02)
    assert values.min() <= found.low <= exact <= found.high <= values.max()
    assert found.low <= found.value <= found.high


def test_estimate_from_too_few_users_is_null():
    values, users = np.arange(1.0, 401), np.tile(np.arange(4), 100)
    assert quantile_of(values, users, 0.5).low is not None
    assert quantile_of(values, users, 0.9).value is None
    assert mean(*3 * [np.full(2, 9.0)]).value is None
    assert share(*3 * [np.full(2, 9.0)]).value is None
    assert quantile([], 0.5).value is None


@pytest.mark.integration
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
        own = 1 / (1 + np.exp(2 - random.normal(0, 1, users)))
        found = {
            "mean": (mean(np.bincount(user, values), counts, counts), np.exp(0.17)),
            "median": (quantile_of(values, user, 0.5), 1.0),
            "share": (share(random.binomial(counts, own), counts, counts), chance),
        }
        for name, (estimate, truth) in found.items():
            if estimate.low is not None:
                held[name].append(estimate.low <= truth <= estimate.high)
    for name, of in held.items():
        # Five users are often fewer than three effective ones.
        assert len(of) > (300 if (name, users) == ("mean", 5) else 450)
        assert 0.91 <= np.mean(of) <= (0.98 if users > 20 else 1), name


def test_errors_of_means_and_shares_equal_those_of_statsmodels():
    """Users of any weight, some of whom have it always, and one network where nobody has."""
    random = np.random.default_rng(1)
    for usual, users in product((0.0, 0.02, 0.5, 1.0), (3, 8, 40)):
        whole = random.integers(1, 50, users).astype(float)
        part = random.binomial(whole.astype(int), usual).astype(float)
        fit = sm.WLS(part / whole, np.ones(users), weights=whole).fit(cov_type="HC3")
        value, error = round(fit.params[0], 12), fit.bse[0]
        effective = whole.sum() ** 2 / (whole**2).sum()
        student = stats.t.ppf(0.975, max(effective - 1, 1))
        samples = users
        if 0 < value < 1:
            samples = value * (1 - value) / error**2 * (stats.norm.ppf(0.975) / student) ** 2
            estimated = mean(part, whole, whole)
            factor = np.exp(student * error / value)
            if effective >= 3:
                ends = estimated.value, estimated.low, estimated.high
                assert ends == pytest.approx((value, value / factor, value * factor), rel=1e-9)
        expected = proportion_confint(value * samples, samples, 0.05, method="beta")
        found = share(part, whole, whole)
        assert (found.low, found.high) == pytest.approx(
            np.nan_to_num(expected, nan=value), rel=1e-9
        )
