"""Peaks of channel rates, and the time slots that they stand for."""

import numpy as np
import pytest

from spark_jobs.figures.fig07_channel_rate.slot_peaks import rate_peaks, slot_peaks

ONE_SLOT = 12_000


def rates_of(*groups: tuple[float, int]) -> np.ndarray:
    """So many rates at each, spread by 2 %."""
    draw = np.random.default_rng(7)
    return np.concatenate([rate * draw.lognormal(0, 0.02, count) for rate, count in groups])


def test_each_group_of_rates_is_a_peak_with_its_share_and_valleys_between():
    rate, share, valleys = rate_peaks(rates_of((10_000, 600), (20_000, 300), (40_000, 100)))
    assert rate == pytest.approx([10_000, 20_000, 40_000], rel=0.01)
    assert share == pytest.approx([0.6, 0.3, 0.1])
    assert (rate[:-1] < valleys).all()
    assert (valleys < rate[1:]).all()


def test_rates_are_weighted_by_their_duration():
    rates = rates_of((10_000, 50), (20_000, 50))
    _, share, _ = rate_peaks(rates, np.repeat([3.0, 1.0], 50))
    assert share == pytest.approx([0.75, 0.25])


def test_no_rates_give_no_peaks():
    rate, share, valleys = rate_peaks([np.nan, 0.0])
    assert len(rate) == len(share) == len(valleys) == 0


def test_multiples_of_one_rate_are_slots():
    found = slot_peaks(rates_of(*((ONE_SLOT * n, 200) for n in (1, 2, 3))))
    assert found.slots.tolist() == [1, 2, 3]
    assert found.slot_bps == pytest.approx(ONE_SLOT, rel=0.02)


def test_slot_rate_of_a_single_peak_is_known_only_from_the_networks_setting():
    rates = rates_of((2 * ONE_SLOT, 200))
    assert np.isnan(slot_peaks(rates).slot_bps)
    assert slot_peaks(rates, slot_bps=ONE_SLOT).slots.tolist() == [2]
