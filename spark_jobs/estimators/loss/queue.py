"""What the queue of a user's access link holds at most.

A buffer that drops what it has no room for tells its size: what was lost had found more waiting
than what arrived, but for the few that the radio lost. How much waited is told by the link's clock
(`link`).
"""

import numpy as np

from spark_jobs.compiled import compiled, compiling
from spark_jobs.compiled.arrays import true_indices
from spark_jobs.estimators.loss import link
from spark_jobs.estimators.loss.link import ELSEWHERE, PATH

BINS, HIGHEST = 128, 1.5
"""The bytes waiting are told apart in so many steps, up to this multiple of their median at a
loss."""
WIDTHS = 0.5 * 3.0 ** np.arange(5)
"""Spreads tried (steps);"""
NEAR = 8
"""with limits up to so many steps from the one that best divides the losses from the arrivals."""
TURNS = 5
"""How often the limit found sets the clock that tells the limit,"""
BETTER = 1.0
"""as long as it explains the losses so much better each time (log likelihood)."""
CONVINCING = 6.0
"""A limit must explain the losses so much better than chance (log likelihood)."""
USUAL_WEIGHT = 10
"""Copies that ELSEWHERE is worth in the share found,"""
CLEARLY = 2
"""which is of those so many spreads below the limit."""

_FULL = ELSEWHERE + (1 - 2 * ELSEWHERE) / (
    1 + np.exp(-(np.arange(2 * BINS) - BINS) / WIDTHS[:, np.newaxis])
)
LOG_LOST, LOG_ARRIVED = np.log(_FULL), np.log(1 - _FULL)
"""The logarithms of the probabilities of a loss and of an arrival, for each of WIDTHS, from BINS
steps below the limit to as many above."""


@compiled
def share(lost, seen):
    """The share that is lost, told from so many copies seen and lost."""
    return (lost + ELSEWHERE * USUAL_WEIGHT) / (seen + USUAL_WEIGHT)


@compiled
def fit(path, traffic, known):
    """Sets the pace, slack, limit, spread and share lost with room of a user's PATH[1], from what
    was lost of the user's `link.Traffic` whose fate is known, bool[n]; nothing if no limit explains
    the losses.

    The pace is the one that the ACKs tell or the one that the losses tell. The clock that a limit
    is told from runs freely at first, and then with the limit found; if that tells none, it is put
    right by certain ACKs that come late by more than an idle round trip.
    """
    trial, found = np.empty(1, PATH), path.copy()
    sent = true_indices(traffic.size > 0)
    told = true_indices(known[sent])
    traffic = link.some(traffic, sent)
    lost = traffic.lost[told]
    best = 0.0
    between = pace_between_losses(traffic, path[0])
    for slack in (np.inf, path[0].base):
        if best > 0:
            break
        for pace in (path[0].pace, between):
            if pace == 0:
                continue
            trial[0] = path[0]
            trial[0].pace, trial[0].slack = pace, slack
            before = 0.0
            for _ in range(TURNS):
                link.replay(traffic, trial[0])
                gain = set_limit(trial[0], traffic.waiting[told], lost)
                if gain > best:
                    best = gain
                    found[0] = trial[0]
                if gain < before + BETTER:
                    break
                before = gain
    path[0] = found[0]


@compiled
def pace_between_losses(traffic, path):
    """The link's time a byte (µs; 0: unknown): when two packets are lost, its queue is full, so in
    between it sends as much as arrives. Losses between which half a full queue could have drained
    are not compared."""
    drains = (path.longest - path.base) / 2
    pace = np.empty(len(traffic.ts))
    n = 0
    last = -1
    time = sent = since = 0
    for p in range(len(traffic.ts)):
        if not traffic.lost[p]:
            since += traffic.size[p]
            continue
        gap = traffic.ts[p] - traffic.ts[last]
        if last >= 0 and gap < drains:
            time += gap
            sent += since
            if time > drains and sent > 0:
                pace[n] = time / sent
                n += 1
                time = sent = 0
        else:
            time = sent = 0
        last, since = p, 0
    return np.median(pace[:n]) if n else 0.0


@compiled
def _sharp_limit(gone, came):
    """The step above which the share of what was lost exceeds that of what arrived most."""
    losses, arrivals = gone.sum(), max(came.sum(), 1.0)
    most, above, at = 0.0, 0.0, 0
    for k in range(len(gone) - 1, -1, -1):
        above += gone[k] / losses - came[k] / arrivals
        if above > most:
            most, at = above, k
    return at


@compiling(fastmath=True, no_cpython_wrapper=True)
def _likelihood(gone, came, log_lost, log_arrived):
    """Of so many losses and arrivals in each step; in any order of summation, which is faster."""
    out = 0.0
    for k in range(BINS):
        out += gone[k] * log_lost[k] + came[k] * log_arrived[k]
    return out


@compiled
def set_limit(path, backlog, lost):
    """Sets a PATH's limit, spread and share lost with room, from the backlog float64[n] that each
    copy found and whether it was lost, bool[n]. Returns by how much a limit explains the losses
    better than chance (log likelihood; 0: none does)."""
    step = HIGHEST * np.median(backlog[lost]) / BINS
    gone, came = np.zeros(BINS), np.zeros(BINS)
    for k in range(len(backlog)):
        at = min(int(backlog[k] / step), BINS - 1)
        if lost[k]:
            gone[at] += 1
        else:
            came[at] += 1
    lost_share = gone.sum() / len(backlog)
    if lost_share == 1:
        return 0.0
    by_chance = gone.sum() * np.log(lost_share) + came.sum() * np.log(1 - lost_share) + CONVINCING
    best, limit, spread = by_chance, 0, 0.0
    sharp = _sharp_limit(gone, came)
    for s in range(len(WIDTHS)):
        for at in range(max(sharp - NEAR, 1), min(sharp + NEAR + 1, BINS)):
            likelihood = _likelihood(
                gone, came, LOG_LOST[s, BINS - at :], LOG_ARRIVED[s, BINS - at :]
            )
            if likelihood > best:
                best, limit, spread = likelihood, at, WIDTHS[s]
    if limit:
        low = max(limit - int(np.ceil(CLEARLY * spread)), 0)
        below = gone[:low].sum()
        path.limit, path.spread = (limit + 0.5) * step, spread * step
        path.with_room = share(below, below + came[:low].sum())
    return best - by_chance
