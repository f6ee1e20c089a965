"""What the queue of a user's access link holds at most.

A buffer that drops what it has no room for tells its size: what was lost had found more waiting
than what arrived, but for the few that the radio lost. How much waited is told by the link's clock
(`link`).
"""

import numpy as np

from spark_jobs.compiled import compiled, compiling
from spark_jobs.compiled.arrays import places_where
from spark_jobs.estimators.loss import link
from spark_jobs.estimators.loss.link import RANDOM_LOSS, PATH

BINS, MAX_BACKLOG_RATIO = 128, 1.5
"""The bytes waiting are told apart in so many steps, up to this multiple of their median at a
loss."""
SPREADS = 0.5 * 3.0 ** np.arange(5)
"""Spreads tried (steps);"""
SEARCH_RADIUS = 8
"""with limits up to so many steps from the one that best divides the losses from the arrivals."""
MAX_ITERATIONS = 5
"""How often the limit found sets the clock that tells the limit,"""
MIN_GAIN = 1.0
"""as long as it explains the losses so much better each time (log likelihood)."""
MIN_EVIDENCE = 6.0
"""A limit must explain the losses so much better than chance (log likelihood)."""
PRIOR_WEIGHT = 10
"""Copies that ELSEWHERE is worth in the share found,"""
CLEAR_SPREADS = 2
"""which is of those so many spreads below the limit."""

_LOSS_PROBABILITY = RANDOM_LOSS + (1 - 2 * RANDOM_LOSS) / (
    1 + np.exp(-(np.arange(2 * BINS) - BINS) / SPREADS[:, np.newaxis])
)
LOG_LOST, LOG_ARRIVED = np.log(_LOSS_PROBABILITY), np.log(1 - _LOSS_PROBABILITY)
"""The logarithms of the probabilities of a loss and of an arrival, for each of WIDTHS, from BINS
steps below the limit to as many above."""


@compiled
def loss_share(lost, total):
    """The share that is lost, told from so many copies seen and lost."""
    return (lost + RANDOM_LOSS * PRIOR_WEIGHT) / (total + PRIOR_WEIGHT)


@compiled
def fit(path, traffic, known):
    """Sets the pace, slack, limit, spread and share lost with room of a user's PATH[1], from what
    was lost of the user's `link.Traffic` whose fate is known, bool[n]; nothing if no limit explains
    the losses.

    The pace is the one that the ACKs tell or the one that the losses tell. The clock that a limit
    is told from runs freely at first, and then with the limit found; if that tells none, it is put
    right by certain ACKs that come late by more than an idle round trip.
    """
    trial, best_path = np.empty(1, PATH), path.copy()
    downlink = places_where(traffic.size > 0)
    decided = places_where(known[downlink])
    traffic = link.select_packets(traffic, downlink)
    lost = traffic.lost[decided]
    best_gain = 0.0
    pace_by_losses = pace_between_losses(traffic, path[0])
    for slack in (np.inf, path[0].base_rtt):
        if best_gain > 0:
            break
        for pace in (path[0].pace, pace_by_losses):
            if pace == 0:
                continue
            trial[0] = path[0]
            trial[0].pace, trial[0].slack = pace, slack
            previous_gain = 0.0
            for _ in range(MAX_ITERATIONS):
                link.replay(traffic, trial[0])
                gain = set_limit(trial[0], traffic.backlog[decided], lost)
                if gain > best_gain:
                    best_gain = gain
                    best_path[0] = trial[0]
                if gain < previous_gain + MIN_GAIN:
                    break
                previous_gain = gain
    path[0] = best_path[0]


@compiled
def pace_between_losses(traffic, path):
    """The link's time a byte (µs; 0: unknown): when two packets are lost, its queue is full, so in
    between it sends as much as arrives. Losses between which half a full queue could have drained
    are not compared."""
    drain_time = (path.max_rtt - path.base_rtt) / 2
    paces = np.empty(len(traffic.ts))
    n = 0
    last = -1
    time = bytes_sent = bytes_since = 0
    for p in range(len(traffic.ts)):
        if not traffic.lost[p]:
            bytes_since += traffic.size[p]
            continue
        gap = traffic.ts[p] - traffic.ts[last]
        if last >= 0 and gap < drain_time:
            time += gap
            bytes_sent += bytes_since
            if time > drain_time and bytes_sent > 0:
                paces[n] = time / bytes_sent
                n += 1
                time = bytes_sent = 0
        else:
            time = bytes_sent = 0
        last, bytes_since = p, 0
    return np.median(paces[:n]) if n else 0.0


@compiled
def _sharpest_limit(lost_bins, arrived_bins):
    """The step above which the share of what was lost exceeds that of what arrived most."""
    lost_total, arrived_total = lost_bins.sum(), max(arrived_bins.sum(), 1.0)
    max_excess, excess, limit = 0.0, 0.0, 0
    for k in range(len(lost_bins) - 1, -1, -1):
        excess += lost_bins[k] / lost_total - arrived_bins[k] / arrived_total
        if excess > max_excess:
            max_excess, limit = excess, k
    return limit


@compiling(fastmath=True, no_cpython_wrapper=True)
def _likelihood(lost_bins, arrived_bins, log_lost, log_arrived):
    """Of so many losses and arrivals in each step; in any order of summation, which is faster."""
    out = 0.0
    for k in range(BINS):
        out += lost_bins[k] * log_lost[k] + arrived_bins[k] * log_arrived[k]
    return out


@compiled
def set_limit(path, backlog, lost):
    """Sets a PATH's limit, spread and share lost with room, from the backlog float64[n] that each
    copy found and whether it was lost, bool[n]. Returns by how much a limit explains the losses
    better than chance (log likelihood; 0: none does)."""
    step = MAX_BACKLOG_RATIO * np.median(backlog[lost]) / BINS
    lost_bins, arrived_bins = np.zeros(BINS), np.zeros(BINS)
    for k in range(len(backlog)):
        bin_ = min(int(backlog[k] / step), BINS - 1)
        if lost[k]:
            lost_bins[bin_] += 1
        else:
            arrived_bins[bin_] += 1
    lost_share = lost_bins.sum() / len(backlog)
    if lost_share == 1:
        return 0.0
    by_chance = (
        lost_bins.sum() * np.log(lost_share)
        + arrived_bins.sum() * np.log(1 - lost_share)
        + MIN_EVIDENCE
    )
    best, limit, spread = by_chance, 0, 0.0
    sharp = _sharpest_limit(lost_bins, arrived_bins)
    for s in range(len(SPREADS)):
        for bin_ in range(max(sharp - SEARCH_RADIUS, 1), min(sharp + SEARCH_RADIUS + 1, BINS)):
            likelihood = _likelihood(
                lost_bins, arrived_bins, LOG_LOST[s, BINS - bin_ :], LOG_ARRIVED[s, BINS - bin_ :]
            )
            if likelihood > best:
                best, limit, spread = likelihood, bin_, SPREADS[s]
    if limit:
        low = max(limit - int(np.ceil(CLEAR_SPREADS * spread)), 0)
        below = lost_bins[:low].sum()
        path.limit, path.spread = (limit + 0.5) * step, spread * step
        path.random_loss = loss_share(below, below + arrived_bins[:low].sum())
    return best - by_chance
