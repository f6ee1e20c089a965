"""The likeliest history of a connection's receiver: a beam search over transmissions' fates."""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import inner, making
from spark_jobs.estimators.loss import costs, link, lookahead, receiver
from spark_jobs.estimators.loss.observation import ARRIVED, LOST, UNPROVEN
from spark_jobs.estimators.loss.receiver import HYPOTHESIS
from spark_jobs.estimators.sequence import NONE

BEAM, WIDE_BEAM = 16, 64
"""Number of hypotheses kept.

BEAM: in the first search.
WIDE_BEAM: in the second search, if the first one leaves too much unexplained.
"""
MAX_UNEXPLAINED_COST = costs.ACK_OF_MISSING_DATA
"""Unexplained cost from which on the beam is taken to have lost the likeliest history."""
MAX_WINDOW_UPDATES = 2
"""Maximum number of window updates without a cause between a transmission and its ACK."""
MAX_BRANCHES = MAX_WINDOW_UPDATES + 3
"""Maximum number of hypotheses that derive from one in a step.

The next transmission was lost; or it arrived after none to MAX_WINDOW_UPDATES window updates; or it
arrived and was answered by an ACK that had waited.
"""
PRUNE_MARGIN = 20.0
"""A hypothesis is dropped if it costs so much more than the best one."""
MAX_WITHOUT_LOOKAHEAD = 12
"""Maximum number of hypotheses that are compared without a bound of the cost to come.

All of these fit the beam, so none needs the bound to stay in it.
"""
MAX_STEPS = 2048
"""Number of transmissions after which the best hypothesis decides, if several are left."""

MAX_WORK = 1000
"""Maximum number of comparisons for each transmission, with 4 MAX_STEPS transmissions to spare.

Beyond it the first search keeps the best hypothesis only, and the second has no result.
"""


class Workspace(NamedTuple):
    """Memory of the search, reused for every connection."""

    beam: np.ndarray
    """HYPOTHESIS[WIDE_BEAM]: the hypotheses kept."""
    children: np.ndarray
    """HYPOTHESIS[MAX_BRANCHES * WIDE_BEAM]: the hypotheses that derive from these in a step."""
    parents: np.ndarray
    """int8[MAX_STEPS, WIDE_BEAM]: the hypothesis from which each one derives, for each step."""
    losses: np.ndarray
    """bool[MAX_STEPS, WIDE_BEAM]: whether the step of each hypothesis was a loss."""
    bounds: np.ndarray
    """float32[lookahead.ROWS + lookahead.SCRATCH_ROWS, lookahead.MAX_ANSWERS, 2]: lower bounds.

    See `lookahead.fill_bounds`.
    """
    order: np.ndarray
    """int64[MAX_BRANCHES * WIDE_BEAM]: indices into `children`, the cheapest first."""


class Plan(NamedTuple):
    """A connection's data that are computed before the search."""

    min_ack_delay: int
    """Minimum time from a transmission to its ACK (µs)."""
    remainder: lookahead.Remainder
    restart: np.ndarray
    """int64[n]: see `_restart_points`."""
    acks_before: np.ndarray
    """int64[n]: see `_restart_points`."""


@making
def workspace():
    """Return the Workspace for `likeliest_losses`."""
    return Workspace(
        np.zeros(WIDE_BEAM, HYPOTHESIS),
        np.zeros(MAX_BRANCHES * WIDE_BEAM, HYPOTHESIS),
        np.empty((MAX_STEPS, WIDE_BEAM), np.int8),
        np.empty((MAX_STEPS, WIDE_BEAM), np.bool_),
        np.zeros((lookahead.ROWS + lookahead.SCRATCH_ROWS, lookahead.MAX_ANSWERS, 2), np.float32),
        np.empty(MAX_BRANCHES * WIDE_BEAM, np.int64),
    )


@making
def likeliest_losses(observation, paths, max_rtt, workspace):
    """Return which transmissions the likeliest history of a connection's receiver lost, bool[n].

    observation: the connection's Observation; paths: its user's PATH[1]; max_rtt: the longest RTT
    that is certain (µs).
    """
    sent, path = observation.transmissions, paths[0]
    plan = _plan(observation, path, max_rtt)
    lost = np.zeros(len(sent), np.bool_)
    cost, unexplained_cost = _search(observation, path, plan, workspace, np.int64(BEAM), lost)
    if unexplained_cost >= MAX_UNEXPLAINED_COST:
        wide_lost, wide_beam = np.zeros(len(sent), np.bool_), np.int64(WIDE_BEAM)
        if _search(observation, path, plan, workspace, wide_beam, wide_lost)[0] < cost:
            lost = wide_lost
    return lost


@making
def _plan(observation, path, max_rtt):
    """Return the Plan of an Observation; path, max_rtt: see `likeliest_losses`."""
    min_ack_delay = receiver.min_ack_delay(path)
    max_ack_delay = np.int64(1.5 * path.max_rtt) if path.max_rtt > 0 else 2 * max_rtt
    restart, acks_before = _restart_points(observation)
    return Plan(
        min_ack_delay,
        lookahead.prepare(observation, min_ack_delay, max_ack_delay),
        restart,
        acks_before,
    )


@inner
def _search(observation, path, plan, workspace, beam_width, lost):
    """Write the losses of the likeliest history of a connection's receiver to lost bool[n].

    beam_width: the number of hypotheses kept. Returns the history's cost and the unexplained part
    of it; infinity if the search is given up (see MAX_WORK).
    """
    cost = unexplained_cost = 0.0
    work, max_work = np.int64(0), MAX_WORK * (len(observation.transmissions) + 4 * MAX_STEPS)
    sent, feedback = observation.transmissions, observation.feedback
    beam, children = workspace.beam, workspace.children
    min_ack_delay, remainder, restart, acks_before = plan
    receiver.start(beam[0], _initial_rcv_nxt(observation), link.start_clock(sent[0]))
    max_steps = min(MAX_STEPS, len(sent))
    beam_size, steps, decided = 1, np.int64(0), np.int64(0)
    bounds_end = 0  # the bounds in the workspace are for the ROWS transmissions before this one
    for k in range(len(sent)):
        if decided > k:
            continue
        if beam_size == 1 and restart[k] > k:
            for skipped in range(k, restart[k]):
                lost[skipped] = sent[skipped].fate == LOST
            decided = restart[k]
            receiver.explain_acks_before(beam[0], sent[k].ts + min_ack_delay, feedback.acks)
            cost, unexplained_cost = (
                cost + beam[0].cost,
                unexplained_cost + beam[0].unexplained_cost,
            )
            if decided == len(sent):
                return cost, unexplained_cost
            receiver.start(beam[0], sent[decided].low, link.start_clock(sent[decided]))
            beam[0].next_ack = acks_before[decided]
            continue
        if beam_size == 1 and _play_certain_arrival(
            beam[0], sent[k], feedback, min_ack_delay, path
        ):
            decided += 1
            continue
        child_count = np.int64(0)
        for x in range(beam_size):
            receiver.explain_acks_before(beam[x], sent[k].ts + min_ack_delay, feedback.acks)
            child_count = _branch(x, sent[k], feedback, path, workspace, child_count)
        for x in range(child_count):
            work += beam_width + children[x].held_count
            work += children[x].next_ack - beam[children[x].parent].next_ack
        if work > max_work:
            if beam_width == WIDE_BEAM:
                return np.inf, np.inf
            beam_width = np.int64(1)
        if child_count > MAX_WITHOUT_LOOKAHEAD:
            if k + 1 >= bounds_end:
                bounds_end = k + 1 + lookahead.ROWS
                lookahead.fill_bounds(observation, remainder, k + 1, path, workspace.bounds)
            row = workspace.bounds[k + 1 - bounds_end + lookahead.ROWS]
            for x in range(child_count):
                children[x].bound = lookahead.lower_bound(remainder, k + 1, row, children[x])
        beam_size = _keep_best(workspace, child_count, steps, beam_width)
        steps += 1
        if beam_size == 1 or steps == max_steps:
            _trace_back(workspace, steps, np.int64(0), lost[decided : decided + steps])
            decided += steps
            beam_size, steps = 1, np.int64(0)
    best = _cheapest_at_end(beam[:beam_size], feedback.acks)
    _trace_back(workspace, steps, best, lost[decided : decided + steps])
    return cost + beam[best].cost, unexplained_cost + beam[best].unexplained_cost


@inner
def _initial_rcv_nxt(observation):
    """Return RCV.NXT of the receiver before the first transmission."""
    first_tx, first_ack = observation.transmissions[0], observation.feedback.acks[0]
    return first_tx.low if first_ack.ts >= first_tx.ts else first_ack.number


@making
def _restart_points(observation):
    """Return the points at which a history may start afresh, and the number of ACKs before each.

    The history may start afresh at new data if all data sent before is acknowledged.

    Returns two int64[n]. The first has, for each transmission, the last such point up to the next
    transmission whose fate is open (-1: there is none; n: no later fate is open). The second has
    the number of ACKs seen before each transmission.
    """
    sent, highest_sent, acks = (
        observation.transmissions,
        observation.highest_sent,
        observation.feedback.acks,
    )
    n = len(sent)
    acks_before = np.empty(n, np.int64)
    may_restart = np.zeros(n, np.bool_)
    j, highest_ack = 0, NONE
    for k in range(n):
        while j < len(acks) and acks[j].ts < sent[k].ts:
            highest_ack = max(highest_ack, acks[j].number)
            j += 1
        acks_before[k] = j
        is_new = k > 0 and sent[k].low == highest_sent[k - 1] and sent[k].high > sent[k].low
        may_restart[k] = is_new and highest_ack >= highest_sent[k - 1]
    restart = np.empty(n, np.int64)
    point = n
    for k in range(n - 1, -1, -1):
        tx = sent[k]
        if tx.ambiguous and tx.fate == UNPROVEN:
            point = -1
        if point < 0 and may_restart[k]:
            point = k
        restart[k] = point
    return restart, acks_before


@inner
def _play_certain_arrival(h, tx, feedback, min_ack_delay, path):
    """Play the only hypothesis forward if a transmission arrived for certain.

    Returns whether it did.
    """
    if tx.fate == LOST or (tx.fate != ARRIVED and tx.ambiguous):
        return False
    receiver.explain_acks_before(h, tx.ts + min_ack_delay, feedback.acks)
    if _may_be_window_update(h, h.next_ack, feedback.acks):
        return False
    receiver.arrive(h, tx, feedback, path)
    h.lost, h.arrived_since_loss = False, h.arrived_since_loss + 1
    return True


@inner
def _branch(parent, tx, feedback, path, workspace, child_count):
    """Derive the hypotheses that the next transmission makes possible from hypothesis `parent`.

    The transmission was lost, or it arrived, perhaps after window updates without a cause. Returns
    the number of hypotheses in `children`.
    """
    h, children = workspace.beam[parent], workspace.children
    loss_cost, arrival_cost = _loss_and_arrival_costs(h, tx, path)
    if tx.fate == LOST or (tx.ambiguous and tx.fate == UNPROVEN):
        child = children[child_count]
        _derive(child, h, parent, True)
        child.cost += loss_cost
        if tx.last_candidate and not receiver.has_received(h, tx.low, tx.high):
            child.cost += costs.ACK_OF_MISSING_DATA
        receiver.lose(child, tx, path)
        child_count += 1
    if tx.fate == LOST:
        return child_count
    child = children[child_count]
    _derive(child, h, parent, False)
    child.cost += arrival_cost
    child_count += 1
    if receiver.arrive(child, tx, feedback, path):
        child = children[child_count]
        _derive(child, h, parent, False)
        child.cost += arrival_cost
        child_count += receiver.arrive_with_delayed_ack(child, tx, feedback, path)
    cost = arrival_cost
    for update in range(MAX_WINDOW_UPDATES):
        j = h.next_ack + update
        if not _may_be_window_update(h, j, feedback.acks):
            break
        cost += feedback.acks[j].unexplained_cost
        child = children[child_count]
        _derive(child, h, parent, False)
        child.cost += cost
        child.next_ack = h.next_ack
        while child.next_ack <= j:
            receiver.consume_ack(child, feedback.acks)
        receiver.arrive(child, tx, feedback, path)
        child_count += 1
    return child_count


@inner
def _derive(child, h, parent, lost):
    """Set a hypothesis to its parent's state before a loss or an arrival."""
    receiver.copy(child, h)
    child.bound, child.parent, child.lost = 0.0, parent, lost
    child.arrived_since_loss = 0 if lost else h.arrived_since_loss + 1


@inner
def _loss_and_arrival_costs(h, tx, path):
    """Return the cost of losing a transmission, and the cost of its arrival."""
    loss_cost = path.loss_cost[min(h.arrived_since_loss, link.LOSS_MEMORY - 1)]
    if path.limit > 0:
        p = link.loss_probability(receiver.backlog(h, tx, path), path)
        return min(loss_cost, -np.log(p)), -np.log(1 - p)
    rtt = receiver.ack_due_after(h.ack_due, tx, path) - tx.ts
    return min(loss_cost, costs.overflow_loss_cost(rtt, path, tx.size * path.pace)), 0.0


@inner
def _may_be_window_update(h, j, acks):
    """Return whether ACK j may be a window update without a cause."""
    if j >= len(acks) or acks[j].unexplained_cost >= costs.UNEXPLAINED_DUP_ACK:
        return False
    return acks[j].number == h.rcv_nxt == h.last_ack_explained


@inner
def _keep_best(workspace, child_count, step, beam_width):
    """Move the best of the derived hypotheses into the beam, and return their number.

    Of hypotheses with the same receiver, the cheapest is kept. The beam holds `beam_width` at most.
    """
    children, beam, order = workspace.children, workspace.beam, workspace.order
    beam_size = 0
    for rank in range(_rank(children, child_count, order)):
        pick = order[rank]
        if beam_size == beam_width:
            break
        is_new = True
        for x in range(beam_size):
            if receiver.is_same_state(children[pick], beam[x]):
                is_new = False
                break
        if is_new:
            receiver.copy(beam[beam_size], children[pick])
            workspace.parents[step, beam_size] = children[pick].parent
            workspace.losses[step, beam_size] = children[pick].lost
            beam_size += 1
    return beam_size


@inner
def _rank(children, child_count, order):
    """Write the hypotheses worth keeping to `order`, the cheapest first.

    Returns their number.
    """
    min_cost = np.inf
    for x in range(child_count):
        min_cost = min(min_cost, children[x].cost + children[x].bound)
    n = 0
    for x in range(child_count):
        cost = children[x].cost + children[x].bound
        if cost > min_cost + PRUNE_MARGIN:
            continue
        position = n
        while (
            position > 0
            and children[order[position - 1]].cost + children[order[position - 1]].bound > cost
        ):
            order[position] = order[position - 1]
            position -= 1
        order[position] = x
        n += 1
    return n


@inner
def _cheapest_at_end(beam, acks):
    """Return the cheapest hypothesis when all ACKs are explained."""
    best = 0
    for x in range(len(beam)):
        receiver.explain_acks_before(beam[x], np.int64(2**62), acks)
        if beam[x].cost < beam[best].cost:
            best = x
    return best


@inner
def _trace_back(workspace, steps, x, lost):
    """Set which transmissions were lost in the last steps of hypothesis x's history."""
    for step in range(steps - 1, -1, -1):
        lost[step] = workspace.losses[step, x]
        x = workspace.parents[step, x]
