"""The queue of a user's access link: how full each copy found it, and what it holds at most.

A buffer that drops what it has no room for tells its size: what was lost had found more waiting
than what arrived, but for the few that the radio lost. The bytes that wait are told by the ACKs:
the link is a FIFO, so what arrived before the last ACK's copy has left it, and what was sent since,
less what was lost, is still there.
"""

import numpy as np
from numba import njit

from spark_jobs.estimators import receiver

BINS, HIGHEST = 128, 1.5
"""The bytes waiting are told apart in so many steps, up to this multiple of their median at a
loss."""
SPREADS = 7
"""Widths tried, each twice the one before, from half a step on;"""
NEAR = 12
"""with limits up to so many steps from the one that best divides the losses from the arrivals."""
ELSEWHERE = 0.02
"""An arrival without room in the queue; a loss with room, as long as its share is not known."""
CONVINCING = 6.0
"""A limit must explain the losses so much better than chance (log likelihood)."""
USUAL_WEIGHT = 10
"""Copies that ELSEWHERE is worth in the share found,"""
CLEARLY = 2
"""which is of those so many spreads below the limit."""


@njit(cache=True, nogil=True)
def share(lost, seen):
    """The share that is lost, told from so many copies seen and lost."""
    return (lost + ELSEWHERE * USUAL_WEIGHT) / (seen + USUAL_WEIGHT)


@njit(cache=True, nogil=True)
def chance(backlog, path):
    """The probability that a copy is lost that finds so many bytes waiting, itself included."""
    full = _logistic((backlog - path.limit) / path.spread)
    return path.with_room + (1 - ELSEWHERE - path.with_room) * full


@njit(cache=True, nogil=True)
def longest_round_trip(path):
    """With a full queue (µs)."""
    return path.base + (path.limit + CLEARLY * path.spread) * path.pace


@njit(cache=True, nogil=True)
def _logistic(z):
    return 1 / (1 + np.exp(-z))


@njit(cache=True, nogil=True)
def backlogs(copies, lost, acks, edges, sack, path, h):
    """float64[n]: the bytes that waited when each copy came, itself included, if those of lost
    bool[n] did not arrive; h: a HYPOTHESIS to work with."""
    out = np.empty(len(copies))
    soonest = receiver.soonest(path)
    receiver.begin(h, receiver.first_number(copies, acks))
    for k in range(len(copies)):
        c = copies[k]
        size, own = receiver.sizes(copies, k, path)
        receiver.settle(h, c.ts + soonest, acks)
        out[k] = receiver.backlog(h, c, path, size, own)
        if lost[k]:
            receiver.lose(h, c, path, size, own)
        else:
            receiver.arrive(h, c, acks, edges, sack, True, path, size)
    return out


@njit(cache=True, nogil=True)
def _sharp_limit(gone, came):
    """The step above which the share of what was lost exceeds that of what arrived most."""
    losses, arrivals = gone.sum(), max(came.sum(), 1.0)
    most, above, at = 0.0, 0.0, 0
    for k in range(len(gone) - 1, -1, -1):
        above += gone[k] / losses - came[k] / arrivals
        if above > most:
            most, at = above, k
    return at


@njit(cache=True, nogil=True)
def set_limit(path, backlog, lost):
    """Sets a PATH's limit, spread and share lost with room, from the backlog float64[n] that each
    copy found and whether it was lost, bool[n]. Returns whether a limit explains the losses."""
    step = HIGHEST * np.median(backlog[lost]) / BINS
    gone, came = np.zeros(BINS), np.zeros(BINS)
    for k in range(len(backlog)):
        at = min(int(backlog[k] / step), BINS - 1)
        if lost[k]:
            gone[at] += 1
        else:
            came[at] += 1
    lost_share = gone.sum() / len(backlog)
    best = gone.sum() * np.log(lost_share) + came.sum() * np.log(1 - lost_share) + CONVINCING
    log_gone, log_came = np.empty(2 * BINS), np.empty(2 * BINS)
    sharp = _sharp_limit(gone, came)
    limit = far = 0
    for s in range(SPREADS):
        spread = 0.5 * 2.0**s
        for d in range(2 * BINS):
            p = ELSEWHERE + (1 - 2 * ELSEWHERE) * _logistic((d - BINS) / spread)
            log_gone[d], log_came[d] = np.log(p), np.log(1 - p)
        for at in range(max(sharp - NEAR, 1), min(sharp + NEAR + 1, BINS)):
            likelihood = 0.0
            for k in range(BINS):
                likelihood += gone[k] * log_gone[BINS + k - at] + came[k] * log_came[BINS + k - at]
            if likelihood > best:
                best, limit, far = likelihood, at, int(np.ceil(CLEARLY * spread))
                path.limit, path.spread = (at + 0.5) * step, spread * step
    if limit:
        low = max(limit - far, 0)
        below = gone[:low].sum()
        path.with_room = share(below, below + came[:low].sum())
    return limit > 0
