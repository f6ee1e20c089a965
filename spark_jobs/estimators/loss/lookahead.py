"""Lower bounds of the cost that the rest of a connection adds, whatever was decided so far.

A hypothesis of `receiver` that has lost nothing yet looks cheap until the ACKs run out. For
example, the receiver answers at once each arrival that is out of order or known already. If there
are 30 such transmissions and 20 duplicate ACKs, about ten transmissions were lost, but none in
particular. To compare hypotheses that have lost different numbers, each gets a lower bound of the
cost still to come. This is the cost of the cheapest alignment of the remaining transmissions and
ACKs, for a receiver that remembers only the highest acknowledgment number. It is computed
backwards, as in the edit distance between two texts.
"""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import inner, making
from spark_jobs.estimators.loss import costs, link
from spark_jobs.estimators.loss.observation import LOST, UNPROVEN
from spark_jobs.estimators.loss.order import highest_arrived_before
from spark_jobs.estimators.sequence import NONE

ROWS, HORIZON, SCRATCH_ROWS = 128, 256, 3
"""Numbers of rows; a row has the bounds from one transmission on.

ROWS: rows kept at a time.
HORIZON: transmissions after these that the bounds take into account.
SCRATCH_ROWS: rows to work in.
"""
MAX_ANSWERS = 512
"""Maximum number of ACKs that may answer a transmission."""
MAX_UNSEEN = 255
"""Maximum number of unseen ACKs before a seen one; if there are more, any number is allowed."""


class Remainder(NamedTuple):
    """The rest of a connection with n transmissions and m ACKs.

    An unseen ACK is one that the mobile sent, by its IP IDs, and that Gi did not see. Unseen ACKs
    stand before the next ACK that Gi saw. Together with the m ACKs they are M positions.
    """

    first_position: np.ndarray
    """int64[m + 1]: the first position of each ACK, with the unseen ACKs before it."""
    ack_index: np.ndarray
    """int64[M]: index of the ACK at each position; for an unseen one, of the next ACK seen."""
    is_unseen: np.ndarray
    """bool[M]: whether the ACK at each position is unseen."""
    first_answer: np.ndarray
    """int64[n + 1]: the first position that may answer each transmission or a later one."""
    answer_count: np.ndarray
    """int64[n + 1]: the number of positions that may answer each transmission, plus one."""
    skip_cost: np.ndarray
    """float64[M + 1]: the cost if no arrival explains the ACKs before each position."""
    highest_before: np.ndarray
    """int64[M + 1]: the highest acknowledgment number before each position."""
    highest_arrived: np.ndarray
    """int64[n]: see `order.highest_arrived_before`."""


@making
def prepare(observation, min_ack_delay, max_ack_delay):
    """Return the Remainder of an Observation.

    min_ack_delay: minimum time from a transmission to its ACK (µs); max_ack_delay: assumed maximum
    (µs).
    """
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
    """Return `first_position`, `ack_index` and `is_unseen` of a Remainder."""
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
    """Return the number of positions for unseen ACKs before an ACK; if there are too many, 0."""
    return max(ack.unseen_before, 0) if ack.unseen_before <= MAX_UNSEEN else 0


@inner
def lower_bound(remainder, k, row, h):
    """Return a lower bound of the cost that transmissions from k on add to hypothesis h.

    row: the row of `fill_bounds` for transmission k.
    """
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
    """Fill a row with lower bounds for each transmission from `start` on.

    out: float32[ROWS + SCRATCH_ROWS, MAX_ANSWERS, 2]; the last SCRATCH_ROWS are to work in. A row's
    columns are for the ACK that is the next to explain, from the first that may answer the
    transmission. The last index is 0 if the transmission before arrived, 1 if it was lost.

    Needs an Observation, its Remainder and its user's PATH.
    """
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
                        answer_cost += _answer_cost(tx, acks[ack_index[j]], highest_before[j])
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
    """Return the minimum cost of an arrival without an ACK, if this ACK is the next to explain.

    The unseen ACKs that have a position of their own are not counted.
    """
    if is_unseen or (ack.unseen_before > 0 and not _unseen_count(ack)):
        return 0.0
    return costs.missing_ack_cost(min(ack.unseen_before, 0), False)


@inner
def _unseen_answer_cost(tx, ack):
    """Return the cost of an arrival that causes an unseen ACK before this ACK.

    The cost is infinite if the arrival calls for no ACK.
    """
    return np.inf if tx.low == tx.high else costs.missing_ack_cost(1, ack.unseen_shared)


@inner
def _row_of(offset):
    """Return the row for the transmission at this offset; rows beyond ROWS are soon overwritten."""
    return offset if offset <= ROWS else ROWS + 1 + offset % (SCRATCH_ROWS - 1)


@inner
def _min_loss_costs(path):
    """Return the minimum cost of a loss, and that of a loss right after another."""
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
    """Return the minimum cost of an arrival that causes no ACK.

    number: the number of the next ACK to explain (NONE: there is no further ACK). missing_cost:
    cost of an ACK that was due and not seen. highest_before: data below it is acknowledged at once.
    """
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
def _answer_cost(tx, ack, highest_before):
    """Return the minimum cost of an arrival that causes this ACK; infinity if it cannot."""
    if tx.low == tx.high:
        return 0.0 if tx.low < ack.number == highest_before else np.inf
    if tx.low <= ack.number < tx.high:
        return 0.0 if tx.overtaken else np.inf
    return 0.0
