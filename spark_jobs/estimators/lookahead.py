"""What the rest of a connection costs at least, whatever was decided so far.

A hypothesis of `receiver` that has lost nothing yet looks cheap until the ACKs run out: what comes
out of order or again is answered at once, so of 30 such copies with 20 duplicate ACKs some ten were
lost, but none in particular. To compare hypotheses that have lost different numbers, each bears the
least that is still to come: the cheapest alignment of the copies and ACKs that remain, for a
receiver that remembers nothing but the highest ACK. It is found backwards, as in the edit distance
between two texts.
"""

import numpy as np
from numba import njit

from spark_jobs.estimators import link, receiver
from spark_jobs.estimators.order import LOST, UNPROVEN, arrived_before
from spark_jobs.estimators.sequence import NONE

ROWS, BEYOND = 128, 256
"""Copies for which costs are kept at a time, and how much farther is looked."""
WIDTH = 512
"""ACKs that may answer a copy."""


@njit(cache=True, nogil=True)
def begin(copies, acks, soonest, latest):
    """(int64[n + 1]: the first ACK that may answer each copy or a later one, no sooner than
    `soonest` (µs); int64[n + 1]: how many may, up to `latest` and one more; float64[m + 1]: what
    it costs to explain the ACKs before each by no copy; int64[m + 1]: the highest number before
    each; int64[n]: the highest number that has certainly arrived before each copy)."""
    n, m = len(copies), len(acks)
    answer = np.full(n + 1, m)
    width = np.ones(n + 1, np.int64)
    j = end = 0
    for k in range(n):
        while j < m and acks[j].ts < copies[k].ts + soonest:
            j += 1
        while end < m and acks[end].ts <= copies[k].ts + latest:
            end += 1
        answer[k], width[k] = j, min(max(end - j, 0) + 1, WIDTH)
    skip = np.zeros(m + 1)
    before = np.full(m + 1, NONE)
    for j in range(m):
        stray = acks[j].stray if acks[j].value == before[j] else 0.0
        skip[j + 1] = skip[j] + stray
        before[j + 1] = max(before[j], acks[j].value)
    return answer, width, skip, before, arrived_before(copies)


@njit(cache=True, nogil=True)
def to_come(rest, k, row, h):
    """The least that is to come to a hypothesis from copy k on; row: its costs of `at_least`."""
    answer, width, skip, _, _ = rest
    j = max(h.next_ack, answer[k])
    return skip[j] - skip[h.next_ack] + row[min(j - answer[k], width[k] - 1), int(h.lost)]


@njit(cache=True, nogil=True)
def at_least(copies, acks, rest, start, sack, watched, path, out):
    """Fill out float32[ROWS, WIDTH, 2], a row for each copy from `start` on: the least cost from
    there on, for each ACK that may be the next to explain (from the first that may answer the copy
    on), if the copy before has arrived or not.

    rest: what `begin` returned; watched bool[n]: the observation goes on long enough for each
    copy's ACK to be seen.
    """
    answer, width, skip, before, above = rest
    n, m = len(copies), len(acks)
    loss, next_loss = receiver.LOSS, receiver.NEXT_LOSS
    if path.limit > 0:
        loss = next_loss = -np.log(1 - link.ELSEWHERE)
    elif path.longest > 0:
        loss = next_loss = receiver.OVERFLOW
    end = min(start + ROWS + BEYOND, n)
    last = width[end] - 1
    after = np.zeros((WIDTH, 2), np.float32)
    now = np.zeros((WIDTH, 2), np.float32)
    if end - start <= ROWS:
        out[end - start, : last + 1] = 0.0
    for k in range(end - 1, start - 1, -1):
        c = copies[k]
        first, then = answer[k], answer[k + 1]
        for x in range(width[k] - 1, -1, -1):
            j = first + x
            to = max(j, then)
            passed = skip[to] - skip[j]
            place = min(to - then, last)
            arrived = lost = next_lost = np.inf
            if c.fate != LOST:
                arrived = passed + after[place, 0]
                arrived += _unanswered(c, acks, j, before[j], above[k], sack, watched[k])
                if j < m:
                    to = max(j + 1, then)
                    passed_on = skip[to] - skip[j + 1]
                    answered = passed_on + after[min(to - then, last), 0]
                    answered += _answered(c, acks[j], before[j], path)
                    arrived = min(arrived, answered)
            if c.fate == LOST or (c.ambiguous and c.fate == UNPROVEN):
                lost = passed + after[place, 1] + loss
                next_lost = passed + after[place, 1] + next_loss
            now[x, 0], now[x, 1] = min(lost, arrived), min(next_lost, arrived)
            if x + 1 < width[k]:
                for was_lost in range(2):
                    over = skip[j + 1] - skip[j] + now[x + 1, was_lost]
                    now[x, was_lost] = min(now[x, was_lost], over)
        last = width[k] - 1
        if k < start + ROWS:
            out[k - start, : last + 1] = now[: last + 1]
        after, now = now, after


@njit(cache=True, nogil=True)
def _unanswered(c, acks, j, before, above, sack, watched):
    """What an arrival costs that causes no ACK, when ACK j is the next to explain."""
    if c.low == c.high:
        return 0.0
    if j < len(acks) and c.low <= acks[j].value < c.high:
        return receiver.IMPOSSIBLE
    if not watched:
        return 0.0
    if j < len(acks) and c.low > acks[j].value:
        return receiver.COMPRESSED_ACK if sack else receiver.LOST_ACK
    return receiver.LOST_ACK if c.high <= max(before, above) else 0.0


@njit(cache=True, nogil=True)
def _answered(c, ack, before, path):
    """What an arrival costs that causes an ACK; infinity if it cannot."""
    if c.low == c.high:
        return 0.0 if c.low < ack.value == before else np.inf
    if c.low <= ack.value < c.high:
        return np.inf
    if c.low > ack.value or c.high <= before:
        return receiver.beyond(ack.ts - c.ts, path)
    return 0.0
