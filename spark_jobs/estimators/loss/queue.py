"""The number of bytes that the queue of a user's access link holds.

A queue that drops packets for which it has no room shows its size: lost packets had found a larger
backlog than packets that arrived, except for the few that were lost on the radio. The link's clock
gives the backlog (`link`).
"""

import numpy as np

from spark_jobs.compiled import compiled, compiling
from spark_jobs.compiled.arrays import true_indices
from spark_jobs.estimators.loss import link
from spark_jobs.estimators.loss.link import PATH, RANDOM_LOSS

BINS, MAX_BACKLOG_RATIO = 128, 1.5
"""The steps into which the backlogs are divided.

BINS: number of steps.
MAX_BACKLOG_RATIO: the end of the last step (multiple of the median backlog at a loss).
"""
SPREADS = 0.5 * 3.0 ** np.arange(5)
"""The spreads tried (steps)."""
SEARCH_RADIUS = 8
"""The limits tried: up to so many steps from the one that best separates losses from arrivals."""
MAX_ITERATIONS = 5
"""Maximum number of fits, each with the clock that the previous limit sets."""
MIN_GAIN = 1.0
"""Gain in log likelihood that a fit needs for another one to follow."""
MIN_EVIDENCE = 6.0
"""Gain in log likelihood over losses by chance that a limit needs, or over a simpler clock."""
PRIOR_WEIGHT = 10
"""Number of packets that RANDOM_LOSS is worth as a prior of the share lost."""
SLACK_JITTERS = 2
"""Delay of an ACK beyond which it corrects the third clock (multiple of the jitter)."""
CLEAR_SPREADS = 2
"""Number of spreads below the limit from which on a packet clearly had room."""

_LOSS_PROBABILITY = RANDOM_LOSS + (1 - 2 * RANDOM_LOSS) / (
    1 + np.exp(-(np.arange(2 * BINS) - BINS) / SPREADS[:, np.newaxis])
)
LOG_LOST, LOG_ARRIVED = np.log(_LOSS_PROBABILITY), np.log(1 - _LOSS_PROBABILITY)
"""Logarithms of the probabilities of a loss and of an arrival, float64[spreads, 2 * BINS].

A row is for one of SPREADS. Its columns go from BINS steps below the limit to BINS steps above it.
"""


@compiled
def loss_share(lost, total):
    """Return the share of packets that are lost, with RANDOM_LOSS as a prior."""
    return (lost + RANDOM_LOSS * PRIOR_WEIGHT) / (total + PRIOR_WEIGHT)


@compiled
def fit(path, traffic, known):
    """Fit a user's PATH[1] to the losses in the user's `link.Traffic`.

    Sets the pace, slack, limit, spread and random_loss of the path. If no limit explains the
    losses, the path stays as it is. known bool[n]: whether the fate of each packet is known.

    Both the pace that the ACKs give and the pace that the losses give are tried. The clock that
    gives the backlogs runs freely at first, and then with the limit that was fitted. Other clocks
    are corrected by certain ACKs that come late by more than a base RTT, or twice the jitter. They
    need MIN_EVIDENCE more than the clocks before them.
    """
    trial, best_path = np.empty(1, PATH), path.copy()
    downlink = true_indices(traffic.size > 0)
    decided = true_indices(known[downlink])
    traffic = link.select_packets(traffic, downlink)
    lost = traffic.lost[decided]
    best_gain = 0.0
    pace_by_losses = pace_between_losses(traffic, path[0])
    for slack in (np.inf, path[0].base_rtt, SLACK_JITTERS * path[0].jitter):
        needed = best_gain + (MIN_EVIDENCE if best_gain > 0 else 0.0)
        for pace in (path[0].pace, pace_by_losses):
            if pace == 0:
                continue
            trial[0] = path[0]
            trial[0].pace, trial[0].slack = pace, slack
            previous_gain = 0.0
            for _ in range(MAX_ITERATIONS):
                link.replay(traffic, trial[0])
                gain = set_limit(trial[0], traffic.backlog[decided], lost)
                if gain > needed:
                    best_gain = needed = gain
                    best_path[0] = trial[0]
                if gain < previous_gain + MIN_GAIN:
                    break
                previous_gain = gain
    path[0] = best_path[0]


@compiled
def pace_between_losses(traffic, path):
    """Return the link's time for a byte, from what it sends between losses (µs; 0: unknown).

    The queue is full when a packet is lost. So between two losses the link sends as much as
    arrives. Two losses are not compared if half a full queue could have drained between them.
    """
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
    """Return the limit that best separates losses from arrivals, as a step.

    Above this step the share of the losses most exceeds the share of the arrivals.
    """
    lost_total, arrived_total = lost_bins.sum(), max(arrived_bins.sum(), 1.0)
    max_excess, excess, limit = 0.0, 0.0, 0
    for k in range(len(lost_bins) - 1, -1, -1):
        excess += lost_bins[k] / lost_total - arrived_bins[k] / arrived_total
        if excess > max_excess:
            max_excess, limit = excess, k
    return limit


@compiling(fastmath=True, no_cpython_wrapper=True)
def _likelihood(lost_bins, arrived_bins, log_lost, log_arrived):
    """Return the log likelihood of so many losses and arrivals in each step.

    The order of summation is free, because this is faster.
    """
    out = 0.0
    for k in range(BINS):
        out += lost_bins[k] * log_lost[k] + arrived_bins[k] * log_arrived[k]
    return out


@compiled
def set_limit(path, backlog, lost):
    """Set the limit, spread and random_loss of a PATH, and return the evidence for the limit.

    backlog float64[n]: the backlog with each packet; lost bool[n]: whether the packet was lost. The
    return value is the gain in log likelihood over losses by chance and MIN_EVIDENCE (0: no limit
    is good enough).
    """
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
