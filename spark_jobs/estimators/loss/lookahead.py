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
from spark_jobs.estimators.loss.observation import LOST, UNPROVEN
from spark_jobs.estimators.loss.order import highest_arrived_before
from spark_jobs.estimators.sequence import NONE

ROWS, HORIZON, SCRATCH_ROWS = 128, 256, 3
"""Copies for which costs are kept at a time, how much farther is looked, and rows to work in."""
MAX_ANSWERS = 512
"""ACKs that may answer a copy."""
MAX_UNSEEN = 255
"""If more were sent at once that Gi never saw, they are not told from any number."""


class Remainder(NamedTuple):
    """What is to come of a connection with n copies and m ACKs. An ACK that Gi never saw, though
    IP IDs tell that it was sent, stands before the next one that was seen: together they are M."""

    first_position: np.ndarray
    """int64[m + 1]: of the M, the first that stands for each ACK;"""
    ack_index: np.ndarray
    """int64[M]: the ACK seen that each stands for, or before which it was sent;"""
    is_unseen: np.ndarray
    """bool[M]: Gi never saw it."""
    first_answer: np.ndarray
    """int64[n + 1]: the first of the M that may answer each copy or a later one;"""
    answer_count: np.ndarray
    """int64[n + 1]: how many may, and one more."""
    skip_cost: np.ndarray
    """float64[M + 1]: what it costs to explain those before each by no copy;"""
    highest_before: np.ndarray
    """int64[M + 1]: the highest number before each."""
    highest_arrived: np.ndarray
    """int64[n]: the highest number that has certainly arrived before each copy."""


@making
def prepare(observation, min_ack_delay, max_ack_delay):
    """Rest of an Exchange; no ACK comes sooner than `soonest` after a copy (µs), nor, it is
    supposed, later than `latest`."""
    sent, acks = observation.transmissions, observation.feedback.acks
    first_position, ack_index, is_unseen = _insert_unseen(acks)
    n, m = len(sent), len(ack_index)
    first_answer = np.full(n + 1, m)
    answer_count = np.ones(n + 1, np.int64)
    j = end = 0
    for k in range(n):
        while j < m and acks[ack_index[j]].ts < sent[k].ts + min_ack_delay:
            j += 1
        while end < m and acks[ack_index[end]].ts <= sent[k].ts + max_ack_delay:
            end += 1
        first_answer[k], answer_count[k] = j, min(max(end - j, 0) + 1, MAX_ANSWERS)
    skip_cost = np.zeros(m + 1)
    highest_before = np.full(m + 1, NONE)
    for j in range(m):
        ack = acks[ack_index[j]]
        highest_before[j + 1] = highest_before[j]
        if is_unseen[j]:
            skip_cost[j + 1] = skip_cost[j] + (0.0 if ack.unseen_shared else costs.UNPROMPTED_ACK)
            continue
        skip_cost[j + 1] = skip_cost[j] + (
            ack.unexplained_cost if ack.number == highest_before[j] else 0.0
        )
        highest_before[j + 1] = max(highest_before[j], ack.number)
    return Remainder(
        first_position,
        ack_index,
        is_unseen,
        first_answer,
        answer_count,
        skip_cost,
        highest_before,
        highest_arrived_before(sent),
    )


@making
def _insert_unseen(acks):
    """`first`, `ack` and `unseen` of a Rest."""
    first_position = np.zeros(len(acks) + 1, np.int64)
    for j in range(len(acks)):
        first_position[j + 1] = first_position[j] + 1 + _unseen_count(acks[j])
    ack_index = np.empty(first_position[-1], np.int64)
    is_unseen = np.ones(first_position[-1], np.bool_)
    for j in range(len(acks)):
        ack_index[first_position[j] : first_position[j + 1]] = j
        is_unseen[first_position[j + 1] - 1] = False
    return first_position, ack_index, is_unseen


@inner
def _unseen_count(ack):
    """How many stand for what was sent before an ACK and not seen: if too many, none."""
    return max(ack.unseen_before, 0) if ack.unseen_before <= MAX_UNSEEN else 0


@inner
def lower_bound(remainder, k, row, h):
    """The least that is to come to a hypothesis from copy k on; row: its costs of `at_least`."""
    first_answer, skip_cost = remainder.first_answer, remainder.skip_cost
    position = remainder.first_position[h.next_ack]
    coalesced = 0
    if h.next_ack + 1 < len(remainder.first_position):
        unseen_count = remainder.first_position[h.next_ack + 1] - 1 - position
        position += min(h.acks_unseen, unseen_count)
        coalesced = min(h.acks_coalesced, unseen_count)
    j = max(position, first_answer[k])
    bound = (
        skip_cost[j]
        - skip_cost[position]
        + row[min(j - first_answer[k], remainder.answer_count[k] - 1), int(h.lost)]
    )
    return max(bound - coalesced * costs.UNPROMPTED_ACK, 0.0)


@inner
def fill_bounds(observation, remainder, start, path, out):
    """Fill out float32[ROWS, WIDTH, 2], a row for each copy from `start` on: the least cost from
    there on, for each ACK that may be the next to explain (from the first that may answer the copy
    on), if the copy before has arrived or not. Of an Exchange, its Rest and its user's PATH; out
    has SCRATCH more rows to work in."""
    first_answer, answer_count, skip_cost, highest_before = (
        remainder.first_answer,
        remainder.answer_count,
        remainder.skip_cost,
        remainder.highest_before,
    )
    sent, sack_permitted = observation.transmissions, observation.feedback.sack_permitted
    acks, ack_index, is_unseen = observation.feedback.acks, remainder.ack_index, remainder.is_unseen
    min_loss, min_next_loss = _min_loss_costs(path)
    end = min(start + ROWS + HORIZON, len(sent))
    last_column = answer_count[end] - 1
    next_row = out[_row_of(end - start)]
    next_row[: last_column + 1] = 0.0
    for k in range(end - 1, start - 1, -1):
        row = out[_row_of(k - start)]
        tx, next_first, highest_arrived = sent[k], first_answer[k + 1], remainder.highest_arrived[k]
        may_arrive, may_be_lost = (
            tx.fate != LOST,
            tx.fate == LOST or (tx.ambiguous and tx.fate == UNPROVEN),
        )
        bound = bound_after_loss = np.float32(np.inf)
        for x in range(answer_count[k] - 1, -1, -1):
            j = first_answer[k] + x
            next_position = max(j, next_first)
            passed_cost = skip_cost[next_position] - skip_cost[j]
            column = min(next_position - next_first, last_column)
            arrival_cost = loss_cost = next_loss_cost = np.inf
            if may_arrive:
                arrival_cost = passed_cost + next_row[column, 0]
                number, missing_cost = NONE, costs.LOST_ACK
                if j < len(ack_index):
                    number, missing_cost = (
                        acks[ack_index[j]].number,
                        _missed_ack_cost(acks[ack_index[j]], is_unseen[j]),
                    )
                arrival_cost += _no_answer_cost(
                    tx,
                    number,
                    missing_cost,
                    max(highest_before[j], highest_arrived),
                    sack_permitted,
                )
                if j < len(ack_index):
                    next_position = max(j + 1, next_first)
                    answer_cost = (
                        skip_cost[next_position]
                        - skip_cost[j + 1]
                        + next_row[min(next_position - next_first, last_column), 0]
                    )
                    if is_unseen[j]:
                        answer_cost += _unseen_answer_cost(tx, acks[ack_index[j]])
                    else:
                        answer_cost += _answer_cost(tx, acks[ack_index[j]], highest_before[j], path)
                    arrival_cost = min(arrival_cost, answer_cost)
            if may_be_lost:
                loss_cost = passed_cost + next_row[column, 1] + min_loss
                next_loss_cost = passed_cost + next_row[column, 1] + min_next_loss
            skip_one = skip_cost[min(j + 1, len(ack_index))] - skip_cost[j]
            bound = np.float32(min(loss_cost, arrival_cost, skip_one + bound))
            bound_after_loss = np.float32(
                min(next_loss_cost, arrival_cost, skip_one + bound_after_loss)
            )
            row[x, 0], row[x, 1] = bound, bound_after_loss
        last_column = answer_count[k] - 1
        next_row = row


@inner
def _missed_ack_cost(ack, is_unseen):
    """What it costs that an arrival was not acknowledged, but for those that stand for what was not
    seen, with this ACK next or, if it is itself not seen, with others before it."""
    if is_unseen or (ack.unseen_before > 0 and not _unseen_count(ack)):
        return 0.0
    return costs.missing_ack_cost(min(ack.unseen_before, 0), False)


@inner
def _unseen_answer_cost(tx, ack):
    """What an arrival costs that causes an ACK which Gi never saw, before this one; infinity if it
    calls for none."""
    return np.inf if tx.low == tx.high else costs.missing_ack_cost(1, ack.unseen_shared)


@inner
def _row_of(offset):
    """Where the costs from a copy on are: those beyond ROWS are soon forgotten."""
    return offset if offset <= ROWS else ROWS + 1 + offset % (SCRATCH_ROWS - 1)


@inner
def _min_loss_costs(path):
    """What a loss costs at least, and one right after another."""
    if path.limit > 0:
        min_cost = -np.log(1 - link.RANDOM_LOSS)
        return min_cost, min_cost
    if path.max_rtt > 0:
        return costs.OVERFLOW_LOSS, costs.OVERFLOW_LOSS
    min_cost = path.loss_cost[1]
    for n in range(2, link.LOSS_MEMORY):
        min_cost = min(min_cost, path.loss_cost[n])
    return min_cost, path.loss_cost[0]


@inner
def _no_answer_cost(tx, number, missing_cost, highest_before, sack_permitted):
    """What an arrival costs that causes no ACK, when the next to explain is of `value` (NONE: there
    is none); missed: what one that was due costs; before: what comes below is answered at once."""
    if tx.low == tx.high:
        return 0.0
    if number != NONE and tx.low <= number < tx.high and not tx.overtaken:
        return costs.ACK_OF_MISSING_DATA
    if not tx.ack_observable:
        return 0.0
    if number != NONE and tx.low > number:
        return min(missing_cost, costs.COMPRESSED_ACK) if sack_permitted else missing_cost
    return missing_cost if tx.high <= highest_before else 0.0


@inner
def _answer_cost(tx, ack, highest_before, path):
    """What an arrival costs that causes an ACK; infinity if it cannot."""
    if tx.low == tx.high:
        return 0.0 if tx.low < ack.number == highest_before else np.inf
    if tx.low <= ack.number < tx.high:
        return 0.0 if tx.overtaken else np.inf
    return 0.0
