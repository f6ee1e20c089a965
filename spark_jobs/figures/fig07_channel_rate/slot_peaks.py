"""Time-slot peaks of a network's channel-rate histogram (INFOCOM 2004, Section IV, Fig. 7).

A GPRS mobile is served on one, two, three ... time slots, so its channel rate is near a multiple of
one slot's rate. The histogram's peaks show these rates. One slot's rate is the greatest rate of
which all of them are multiples. The share of time on one or two slots shows whether slots are
scarce (the paper's dimensioning figure).
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np


class SlotPeaks(NamedTuple):
    """Peaks of a channel-rate histogram, and their numbers of time slots."""

    rate: np.ndarray
    """float64[P], bit/s, ascending."""
    share: np.ndarray
    """float64[P]: share of the measured time, from the valley before to the valley after."""
    slots: np.ndarray
    """int64[P]: number of slots; 0 if the rate is not near a multiple of slot_bps."""
    slot_bps: float
    """Rate of one slot (bit/s); NaN if the peaks do not show it."""
    valleys: np.ndarray
    """float64[P - 1], bit/s, between the peaks."""


def rate_peaks(rates, seconds=None, resolution=0.025, min_share=0.02):
    """Return (rate, share, valleys) of the peaks of the density of the rates' logarithm.

    See SlotPeaks for the values. A peak must exceed the valleys beside it by half its height.

    rates: float64[K] (bit/s). seconds: float64[K], time for which each was measured (default:
    equal). resolution: the kernel's relative width; the channel-rate estimator's own error is as
    large. min_share: minimum share of the time for a peak.
    """
    rates = np.asarray(rates, float)
    seconds = np.ones(len(rates)) if seconds is None else np.asarray(seconds, float)
    known = (rates > 0) & (seconds > 0)
    if not known.any():
        return np.empty(0), np.empty(0), np.empty(0)
    step = resolution / 10
    cell = np.round(np.log(rates[known]) / step).astype(np.int64)
    width, margin = 10, 60  # six kernel widths: there the density is zero
    origin = cell.min() - margin
    cells = np.ptp(cell) + 2 * margin + 1
    mass = np.bincount(cell - origin, seconds[known], cells) / seconds[known].sum()
    kernel = np.exp(-0.5 * (np.arange(-margin, margin + 1) / width) ** 2)
    density = np.convolve(mass, kernel / kernel.sum(), "same")
    inner = density[1:-1]
    top = np.flatnonzero((inner > density[:-2]) & (inner >= density[2:])) + 1
    top = np.array([t for t in top if _prominence(density, t) >= density[t] / 2], np.int64)
    share = np.add.reduceat(mass, [0, *_valleys(density, top)])
    top = top[share >= min_share]
    valleys = _valleys(density, top)
    share = np.add.reduceat(mass, [0, *valleys])
    return np.exp((top + origin) * step), share, np.exp((valleys + origin) * step)


def _prominence(density, top):
    """Return by how much a top exceeds the higher of the two lowest points beside it.

    Each of these points is the lowest one on the way to a higher value, or to the end, on one side.
    """
    higher = np.flatnonzero(density > density[top])
    before, after = higher[higher < top], higher[higher > top]
    left = density[before[-1] if len(before) else 0 : top + 1].min()
    right = density[top : after[0] + 1 if len(after) else len(density)].min()
    return density[top] - max(left, right)


def _valleys(density, top):
    """Return the index of the lowest point between each two adjacent tops."""
    return np.array([a + np.argmin(density[a:b]) for a, b in pairwise(top)], np.int64)


def slot_rate(rate, share, max_slots=8, tolerance=0.2, min_explained=0.95):
    """Return one slot's rate (bit/s): the greatest of which the peaks are multiples.

    Peaks are weighted by share. tolerance: maximum distance, in slots, of a peak from a whole
    number of slots; the paper's peaks at 21.5 and 34.5 kbit/s are at 1.9 and 3.05. NaN if no two
    peaks agree.
    """
    for candidate in np.sort(np.outer(rate, 1 / np.arange(1, max_slots + 1)), axis=None)[::-1]:
        slots = slots_of(rate, candidate, max_slots, tolerance)
        if np.count_nonzero(slots) >= 2 and share[slots > 0].sum() >= min_explained:
            return (share * slots * rate)[slots > 0].sum() / (share * slots**2).sum()
    return np.nan


def slots_of(rate, slot_bps, max_slots=8, tolerance=0.2):
    """Return int64[P]: number of slots of each peak; 0 if it is not near a whole number."""
    slots = np.round(rate / slot_bps).astype(np.int64)
    slots[(np.abs(rate / slot_bps - slots) > tolerance) | (slots > max_slots)] = 0
    return slots


def slot_peaks(rates, seconds=None, slot_bps=None, max_slots=8):
    """Return the time-slot peaks of a network's channel rates (arguments: see rate_peaks).

    slot_bps: one slot's nominal rate, if the networks file gives it.
    """
    rate, share, valleys = rate_peaks(rates, seconds)
    if slot_bps is None:
        slot_bps = slot_rate(rate, share, max_slots)
    if not slot_bps > 0:
        return SlotPeaks(rate, share, np.zeros(len(rate), np.int64), np.nan, valleys)
    return SlotPeaks(rate, share, slots_of(rate, slot_bps, max_slots), float(slot_bps), valleys)


def slot_shares(rates, seconds, slot_bps, max_slots=8):
    """Return float64[max_slots]: the share of measured time at one, two, three ... slots.

    Each rate is assigned to the nearest number of slots.
    """
    slots = np.clip(np.round(np.asarray(rates) / slot_bps), 1, max_slots).astype(np.int64)
    time = np.bincount(slots, weights=seconds, minlength=max_slots + 1)[1:]
    return time / time.sum()
