"""Histograms of rates: each rate is drawn where it was measured."""

import numpy as np
import pytest

from spark_jobs.figures.curves import bin_width, histogram
from spark_jobs.figures.names import SHOWN_BINS
from tests.helpers.distributions import distribution

LINK = 43_900
"""bit/s, in the middle of a bin of 2 %."""


def rates(samples: int) -> tuple[np.ndarray, list[dict]]:
    """Return rates of 40 users, most just below the link's rate, 2 % above it; and rows of them."""
    random = np.random.default_rng(3)
    values = LINK * (1 - random.beta(1, 15, 40 * samples))
    values[: len(values) // 50] = LINK * random.uniform(1.001, 1.2, len(values) // 50)
    rows = distribution(random.permutation(values), np.repeat(np.arange(40), samples))
    return values, rows.to_dict("records")


def test_a_hundred_bins_hold_99_percent():
    values, rows = rates(20)
    width = bin_width(rows)
    assert (values < SHOWN_BINS * width).mean() >= 0.99
    assert width in (500, 1000)


def test_few_rates_of_a_user_are_in_their_bins():
    values, rows = rates(1)
    edges, shares = histogram(rows, 500)
    expected, _ = np.histogram(values, np.array([*edges, np.inf]))
    assert shares == pytest.approx(100 * expected / len(values))


@pytest.mark.parametrize("samples", [1, 20, 200])
def test_the_share_above_the_links_rate_is_right_to_a_bin(samples):
    """It is 2 %; rates spread evenly over their 2 % would make it several times that."""
    values, rows = rates(samples)
    edges, shares = histogram(rows, 200)
    assert sum(shares) == pytest.approx(100)
    above = sum(share for edge, share in zip(edges, shares, strict=True) if edge >= LINK)
    assert above == pytest.approx(100 * (values >= LINK).mean(), abs=1.5)
    drawn = [edge for edge, share in zip(edges, shares, strict=True) if share > 0]
    assert drawn[-1] <= values.max() < drawn[-1] + 200.001
