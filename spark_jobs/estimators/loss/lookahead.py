"""What the rest of a connection costs at least, whatever was decided so far.

A hypothesis of `receiver` that has lost nothing yet looks cheap until the ACKs run out: what comes
out of order or again is answered at once, so of 30 such copies with 20 duplicate ACKs some ten were
lost, but none in particular. To compare hypotheses that have lost different numbers, each bears the
least that is still to come: the cheapest alignment of the copies and ACKs that remain, for a
receiver that remembers nothing but the highest ACK. It is found backwards, as in the edit distance
between two texts.
"""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import inner, making
from spark_jobs.estimators.loss import costs, link
from spark_jobs.estimators.loss.exchange import LOST, UNPROVEN
from spark_jobs.estimators.loss.order import arrived_before
from spark_jobs.estimators.sequence import NONE

ROWS, BEYOND, SCRATCH = 128, 256, 3
"""Copies for which costs are kept at a time, how much farther is looked, and rows to work in."""
WIDTH = 512
"""ACKs that may answer a copy."""
MOST_UNSEEN = 255
"""If more were sent at once that Gi never saw, they are not told from any number."""


class Rest(NamedTuple):
    """What is to come of a connection with n copies and m ACKs. An ACK that Gi never saw, though
    IP IDs tell that it was sent, stands before the next one that was seen: together they are M."""

    first: np.ndarray
    """int64[m + 1]: of the M, the first that stands for each ACK;"""
    ack: np.ndarray
    """int64[M]: the ACK seen that each stands for, or before which it was sent;"""
    unseen: np.ndarray
    """bool[M]: Gi never saw it."""
    answer: np.ndarray
    """int64[n + 1]: the first of the M that may answer each copy or a later one;"""
    width: np.ndarray
    """int64[n + 1]: how many may, and one more."""
    skip: np.ndarray
    """float64[M + 1]: what it costs to explain those before each by no copy;"""
    before: np.ndarray
    """int64[M + 1]: the highest number before each."""
    above: np.ndarray
    """int64[n]: the highest number that has certainly arrived before each copy."""


@making
def begin(exchange, soonest, latest):
    """Rest of an Exchange; no ACK comes sooner than `soonest` after a copy (µs), nor, it is
    supposed, later than `latest`."""
    copies, acks = exchange.copies, exchange.heard.acks
    first, ack, unseen = _with_unseen(acks)
    n, m = len(copies), len(ack)
    answer = np.full(n + 1, m)
    width = np.ones(n + 1, np.int64)
    j = end = 0
    for k in range(n):
        while j < m and acks[ack[j]].ts < copies[k].ts + soonest:
            j += 1
        while end < m and acks[ack[end]].ts <= copies[k].ts + latest:
            end += 1
        answer[k], width[k] = j, min(max(end - j, 0) + 1, WIDTH)
    skip = np.zeros(m + 1)
    before = np.full(m + 1, NONE)
    for j in range(m):
        one = acks[ack[j]]
        before[j + 1] = before[j]
        if unseen[j]:
            skip[j + 1] = skip[j] + (0.0 if one.shared else costs.UNCALLED_ACK)
            continue
        skip[j + 1] = skip[j] + (one.stray if one.value == before[j] else 0.0)
        before[j + 1] = max(before[j], one.value)
    return Rest(first, ack, unseen, answer, width, skip, before, arrived_before(copies))


@making
def _with_unseen(acks):
    """`first`, `ack` and `unseen` of a Rest."""
    first = np.zeros(len(acks) + 1, np.int64)
    for j in range(len(acks)):
        first[j + 1] = first[j] + 1 + _stand_ins(acks[j])
    ack = np.empty(first[-1], np.int64)
    unseen = np.ones(first[-1], np.bool_)
    for j in range(len(acks)):
        ack[first[j] : first[j + 1]] = j
        unseen[first[j + 1] - 1] = False
    return first, ack, unseen


@inner
def _stand_ins(ack):
    """How many stand for what was sent before an ACK and not seen: if too many, none."""
    return max(ack.unseen, 0) if ack.unseen <= MOST_UNSEEN else 0


@inner
def to_come(rest, k, row, h):
    """The least that is to come to a hypothesis from copy k on; row: its costs of `at_least`."""
    answer, skip = rest.answer, rest.skip
    now = rest.first[h.next_ack]
    spare = 0
    if h.next_ack + 1 < len(rest.first):
        stand_ins = rest.first[h.next_ack + 1] - 1 - now
        now += min(h.passed, stand_ins)
        spare = min(h.folded, stand_ins)
    j = max(now, answer[k])
    least = skip[j] - skip[now] + row[min(j - answer[k], rest.width[k] - 1), int(h.lost)]
    return max(least - spare * costs.UNCALLED_ACK, 0.0)


@inner
def at_least(exchange, rest, start, path, out):
    """Fill out float32[ROWS, WIDTH, 2], a row for each copy from `start` on: the least cost from
    there on, for each ACK that may be the next to explain (from the first that may answer the copy
    on), if the copy before has arrived or not. Of an Exchange, its Rest and its user's PATH; out
    has SCRATCH more rows to work in."""
    answer, width, skip, before = rest.answer, rest.width, rest.skip, rest.before
    copies, sack = exchange.copies, exchange.heard.sack
    acks, ack, unseen = exchange.heard.acks, rest.ack, rest.unseen
    loss, next_loss = _least_loss(path)
    end = min(start + ROWS + BEYOND, len(copies))
    last = width[end] - 1
    after = out[_row(end - start)]
    after[: last + 1] = 0.0
    for k in range(end - 1, start - 1, -1):
        now = out[_row(k - start)]
        c, then, above = copies[k], answer[k + 1], rest.above[k]
        may_arrive, may_go = c.fate != LOST, c.fate == LOST or (c.ambiguous and c.fate == UNPROVEN)
        later = next_later = np.float32(np.inf)
        for x in range(width[k] - 1, -1, -1):
            j = answer[k] + x
            to = max(j, then)
            passed = skip[to] - skip[j]
            place = min(to - then, last)
            arrived = lost = next_lost = np.inf
            if may_arrive:
                arrived = passed + after[place, 0]
                value, missed = NONE, costs.LOST_ACK
                if j < len(ack):
                    value, missed = acks[ack[j]].value, _missed(acks[ack[j]], unseen[j])
                arrived += _unanswered(c, value, missed, max(before[j], above), sack)
                if j < len(ack):
                    to = max(j + 1, then)
                    answered = skip[to] - skip[j + 1] + after[min(to - then, last), 0]
                    if unseen[j]:
                        answered += _answered_unseen(c, acks[ack[j]])
                    else:
                        answered += _answered(c, acks[ack[j]], before[j], path)
                    arrived = min(arrived, answered)
            if may_go:
                lost = passed + after[place, 1] + loss
                next_lost = passed + after[place, 1] + next_loss
            over = skip[min(j + 1, len(ack))] - skip[j]
            later = np.float32(min(lost, arrived, over + later))
            next_later = np.float32(min(next_lost, arrived, over + next_later))
            now[x, 0], now[x, 1] = later, next_later
        last = width[k] - 1
        after = now


@inner
def _missed(ack, unseen):
    """What it costs that an arrival was not acknowledged, but for those that stand for what was not
    seen, with this ACK next or, if it is itself not seen, with others before it."""
    if unseen or (ack.unseen > 0 and not _stand_ins(ack)):
        return 0.0
    return costs.no_ack(min(ack.unseen, 0), False)


@inner
def _answered_unseen(c, ack):
    """What an arrival costs that causes an ACK which Gi never saw, before this one; infinity if it
    calls for none."""
    return np.inf if c.low == c.high else costs.no_ack(1, ack.shared)


@inner
def _row(number):
    """Where the costs from a copy on are: those beyond ROWS are soon forgotten."""
    return number if number <= ROWS else ROWS + 1 + number % (SCRATCH - 1)


@inner
def _least_loss(path):
    """What a loss costs at least, and one right after another."""
    if path.limit > 0:
        least = -np.log(1 - link.ELSEWHERE)
        return least, least
    if path.longest > 0:
        return costs.OVERFLOW, costs.OVERFLOW
    least = path.again[1]
    for n in range(2, link.SINCE):
        least = min(least, path.again[n])
    return least, path.again[0]


@inner
def _unanswered(c, value, missed, before, sack):
    """What an arrival costs that causes no ACK, when the next to explain is of `value` (NONE: there
    is none); missed: what one that was due costs; before: what comes below is answered at once."""
    if c.low == c.high:
        return 0.0
    if value != NONE and c.low <= value < c.high and not c.old:
        return costs.IMPOSSIBLE
    if not c.watched:
        return 0.0
    if value != NONE and c.low > value:
        return min(missed, costs.COMPRESSED_ACK) if sack else missed
    return missed if c.high <= before else 0.0


@inner
def _answered(c, ack, before, path):
    """What an arrival costs that causes an ACK; infinity if it cannot."""
    if c.low == c.high:
        return 0.0 if c.low < ack.value == before else np.inf
    if c.low <= ack.value < c.high:
        return 0.0 if c.old else np.inf
    return 0.0
