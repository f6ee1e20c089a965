"""The likeliest history of a connection's receiver: a beam search over what became of each copy."""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import inner, making
from spark_jobs.estimators.loss import costs, link, lookahead, receiver
from spark_jobs.estimators.loss.exchange import ARRIVED, LOST, UNPROVEN
from spark_jobs.estimators.loss.receiver import HYPOTHESIS
from spark_jobs.estimators.sequence import NONE

BEAM, WIDE_BEAM = 16, 64
"""Hypotheses kept; and if the likeliest history then has too much that is odd, so many."""
ODD = costs.IMPOSSIBLE
"""What strays and the impossible cost together if they are too much: the beam has lost the way."""
UPDATES = 2
"""Window updates between a copy and its ACK that no copy caused."""
BRANCHES = UPDATES + 3
"""So many follow from one at most: lost, arrived after none to UPDATES of them, or arrived and
answered by an ACK that had waited."""
WORST = 20.0
"""A hypothesis so much costlier than the best is given up."""
UNSURE = 12
"""With fewer hypotheses, none is given up that what is to come would have to save."""
STEPS = 2048
"""Copies after which the best hypothesis is taken, if it has not been agreed on before."""


class Space(NamedTuple):
    """Memory of the search, used again for every connection."""

    beam: np.ndarray
    """HYPOTHESIS[WIDE_BEAM]: those that are kept."""
    spare: np.ndarray
    """HYPOTHESIS[BRANCHES * WIDE_BEAM]: those that follow from them."""
    parents: np.ndarray
    """int8[STEPS, WIDE_BEAM]: from which each followed, step by step, and"""
    losses: np.ndarray
    """bool[STEPS, WIDE_BEAM]: whether by a loss."""
    ahead: np.ndarray
    """float32[lookahead.ROWS + lookahead.SCRATCH, lookahead.WIDTH, 2]: see `lookahead.at_least`."""
    order: np.ndarray
    """int64[BRANCHES * WIDE_BEAM]: of `spare`, the cheapest first."""


class Plan(NamedTuple):
    """What is known of a connection before the search."""

    soonest: int
    """How long after a copy its ACK comes at the earliest (µs)."""
    rest: lookahead.Rest
    resume: np.ndarray
    """int64[n],"""
    answered: np.ndarray
    """int64[n]: see `_resumptions`."""


@making
def space():
    """Memory for `decide`."""
    return Space(
        np.zeros(WIDE_BEAM, HYPOTHESIS),
        np.zeros(BRANCHES * WIDE_BEAM, HYPOTHESIS),
        np.empty((STEPS, WIDE_BEAM), np.int8),
        np.empty((STEPS, WIDE_BEAM), np.bool_),
        np.zeros((lookahead.ROWS + lookahead.SCRATCH, lookahead.WIDTH, 2), np.float32),
        np.empty(BRANCHES * WIDE_BEAM, np.int64),
    )


@making
def decide(exchange, paths, longest, space):
    """Which copies the likeliest history of an Exchange's receiver lost, bool[n]. paths: its user's
    PATH[1]; longest: the longest round trip that is certain (µs)."""
    copies, path = exchange.copies, paths[0]
    plan = _plan(exchange, path, longest)
    lost = np.zeros(len(copies), np.bool_)
    cost, odd = _search(exchange, path, plan, space, BEAM, lost)
    if odd >= ODD:
        other = np.zeros(len(copies), np.bool_)
        if _search(exchange, path, plan, space, WIDE_BEAM, other)[0] < cost:
            lost = other
    return lost


@making
def _plan(exchange, path, longest):
    """The Plan of an Exchange; path, longest: see `decide`."""
    soonest = receiver.soonest(path)
    latest = np.int64(1.5 * path.longest) if path.longest > 0 else 2 * longest
    resume, answered = _resumptions(exchange)
    return Plan(soonest, lookahead.begin(exchange, soonest, latest), resume, answered)


@inner
def _search(exchange, path, plan, space, width, lost):
    """Writes the likeliest history of an Exchange's receiver, of so many at a time, to lost
    bool[n]. Returns what it costs, and how much of that is odd."""
    cost = odd = 0.0
    copies, heard = exchange.copies, exchange.heard
    beam, spare = space.beam, space.spare
    soonest, rest, resume, answered = plan
    receiver.begin(beam[0], _first_number(exchange), link.clock_before(copies[0]))
    most_steps = min(STEPS, len(copies))
    alive, steps, settled = 1, np.int64(0), np.int64(0)
    known = 0  # costs are known for the copies up to it, ROWS in number
    for k in range(len(copies)):
        if settled > k:
            continue
        if alive == 1 and resume[k] > k:
            for passed in range(k, resume[k]):
                lost[passed] = copies[passed].fate == LOST
            settled = resume[k]
            receiver.settle(beam[0], copies[k].ts + soonest, heard.acks)
            cost, odd = cost + beam[0].cost, odd + beam[0].odd
            if settled == len(copies):
                return cost, odd
            receiver.begin(beam[0], copies[settled].low, link.clock_before(copies[settled]))
            beam[0].next_ack = answered[settled]
            continue
        if alive == 1 and _arrives_for_certain(beam[0], copies[k], heard, soonest, path):
            settled += 1
            continue
        made = np.int64(0)
        for x in range(alive):
            receiver.settle(beam[x], copies[k].ts + soonest, heard.acks)
            made = _branch(x, copies[k], heard, path, space, made)
        if made > UNSURE:
            if k + 1 >= known:
                known = k + 1 + lookahead.ROWS
                lookahead.at_least(exchange, rest, k + 1, path, space.ahead)
            row = space.ahead[k + 1 - known + lookahead.ROWS]
            for x in range(made):
                spare[x].ahead = lookahead.to_come(rest, k + 1, row, spare[x])
        alive = _keep_best(space, made, steps, width)
        steps += 1
        if alive == 1 or steps == most_steps:
            _trace_back(space, steps, np.int64(0), lost[settled : settled + steps])
            settled += steps
            alive, steps = 1, np.int64(0)
    best = _best(beam[:alive], heard.acks)
    _trace_back(space, steps, best, lost[settled : settled + steps])
    return cost + beam[best].cost, odd + beam[best].odd


@inner
def _first_number(exchange):
    """What the receiver misses before the first copy."""
    first_copy, first_ack = exchange.copies[0], exchange.heard.acks[0]
    return first_copy.low if first_ack.ts >= first_copy.ts else first_ack.value


@making
def _resumptions(exchange):
    """(int64[n]: for each copy, the one from which on the history may be told anew as if nothing
    had been before, the last such up to the next open question, n if there is none; int64[n]: the
    ACKs seen before each copy). It may where all that was sent before is acknowledged."""
    copies, top, acks = exchange.copies, exchange.top, exchange.heard.acks
    n = len(copies)
    answered = np.empty(n, np.int64)
    fresh = np.zeros(n, np.bool_)
    j, acked = 0, NONE
    for k in range(n):
        while j < len(acks) and acks[j].ts < copies[k].ts:
            acked = max(acked, acks[j].value)
            j += 1
        answered[k] = j
        new = k > 0 and copies[k].low == top[k - 1] and copies[k].high > copies[k].low
        fresh[k] = new and acked >= top[k - 1]
    resume = np.empty(n, np.int64)
    to = n
    for k in range(n - 1, -1, -1):
        c = copies[k]
        if c.ambiguous and c.fate == UNPROVEN:
            to = -1
        if to < 0 and fresh[k]:
            to = k
        resume[k] = to
    return resume, answered


@inner
def _arrives_for_certain(h, c, heard, soonest, path):
    """Play the only hypothesis forward if a copy leaves no question; whether it did."""
    if c.fate == LOST or (c.fate != ARRIVED and c.ambiguous):
        return False
    receiver.settle(h, c.ts + soonest, heard.acks)
    if _may_update(h, h.next_ack, heard.acks):
        return False
    receiver.arrive(h, c, heard, path)
    h.lost, h.since = False, h.since + 1
    return True


@inner
def _branch(x, c, heard, path, space, made):
    """What may become of hypothesis x with the next copy: lost, or arrived, perhaps after window
    updates that no copy caused. Returns how many hypotheses `spare` then holds."""
    h, spare = space.beam[x], space.spare
    goes, comes = _cost_of_loss(h, c, path)
    if c.fate == LOST or (c.ambiguous and c.fate == UNPROVEN):
        to = spare[made]
        _follow(to, h, x, True)
        to.cost += goes
        if c.last and not receiver.has(h, c.low, c.high):
            to.cost += costs.IMPOSSIBLE
        receiver.lose(to, c, path)
        made += 1
    if c.fate == LOST:
        return made
    to = spare[made]
    _follow(to, h, x, False)
    to.cost += comes
    made += 1
    if receiver.arrive(to, c, heard, path):
        to = spare[made]
        _follow(to, h, x, False)
        to.cost += comes
        made += receiver.arrive_late(to, c, heard, path)
    skipped = comes
    for updates in range(UPDATES):
        j = h.next_ack + updates
        if not _may_update(h, j, heard.acks):
            break
        skipped += heard.acks[j].stray
        to = spare[made]
        _follow(to, h, x, False)
        to.cost += skipped
        to.next_ack = h.next_ack
        while to.next_ack <= j:
            receiver.explained(to, heard.acks)
        receiver.arrive(to, c, heard, path)
        made += 1
    return made


@inner
def _follow(child, h, x, lost):
    """The same as hypothesis x, which it follows, by a loss or not."""
    receiver.copy(child, h)
    child.ahead, child.parent, child.lost = 0.0, x, lost
    child.since = 0 if lost else h.since + 1


@inner
def _cost_of_loss(h, c, path):
    """What the loss of a copy costs a hypothesis, and what its arrival."""
    goes = path.again[min(h.since, link.SINCE - 1)]
    if path.limit > 0:
        p = link.chance(receiver.backlog(h, c, path), path)
        return min(goes, -np.log(p)), -np.log(1 - p)
    round_trip = receiver.due(h.due, c, path) - c.ts
    return min(goes, costs.overflow(round_trip, path, c.size * path.pace)), 0.0


@inner
def _may_update(h, j, acks):
    """Whether an ACK may be a window update that no copy caused."""
    if j >= len(acks) or acks[j].stray >= costs.STRAY_ACK:
        return False
    return acks[j].value == h.rcv_nxt == h.acked


@inner
def _keep_best(space, made, step, width):
    """Move the best of the hypotheses made into the beam, of equal receivers the cheapest, up to
    `width` of them; returns how many."""
    spare, beam, order = space.spare, space.beam, space.order
    alive = 0
    for place in range(_by_cost(spare, made, order)):
        pick = order[place]
        if alive == width:
            break
        new = True
        for x in range(alive):
            if receiver.same(spare[pick], beam[x]):
                new = False
                break
        if new:
            receiver.copy(beam[alive], spare[pick])
            space.parents[step, alive] = spare[pick].parent
            space.losses[step, alive] = spare[pick].lost
            alive += 1
    return alive


@inner
def _by_cost(spare, made, order):
    """Writes the hypotheses that are worth keeping to `order`, the cheapest first; returns how
    many."""
    least = np.inf
    for x in range(made):
        least = min(least, spare[x].cost + spare[x].ahead)
    n = 0
    for x in range(made):
        cost = spare[x].cost + spare[x].ahead
        if cost > least + WORST:
            continue
        place = n
        while place > 0 and spare[order[place - 1]].cost + spare[order[place - 1]].ahead > cost:
            order[place] = order[place - 1]
            place -= 1
        order[place] = x
        n += 1
    return n


@inner
def _best(beam, acks):
    """The cheapest hypothesis when all ACKs are explained."""
    best = 0
    for x in range(len(beam)):
        receiver.settle(beam[x], np.int64(2**62), acks)
        if beam[x].cost < beam[best].cost:
            best = x
    return best


@inner
def _trace_back(space, steps, x, lost):
    """Sets which copies the history lost that led to hypothesis x in so many steps."""
    for step in range(steps - 1, -1, -1):
        lost[step] = space.losses[step, x]
        x = space.parents[step, x]
