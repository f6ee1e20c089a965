"""What a mobile's TCP must have received, told from the acknowledgements that it sent.

A receiver is a deterministic machine (RFC 9293, RFC 5681, as Linux builds it): it acknowledges at
once what comes out of order, what comes again and what fills a hole; in-order data it acknowledges
at every second segment or after a while. With SACK (RFC 2018) it names what it holds, the latest
first, and what it got twice (D-SACK, RFC 2883); with timestamps (RFC 7323) it echoes the segment
that was next in order when it last sent an ACK.

A hypothesis says of each copy of a segment whether it arrived. Copies arrive in the order in which
Gi saw them (the access link is a FIFO), so a hypothesis can be played forward: each arrival changes
what the receiver holds and uses up the ACK that it must have caused. `cost` is the negative log
likelihood of what does not fit (see `costs`). Hypotheses that lead to the same receiver are one
from then on; a beam of the best is kept, as in a Viterbi decoder (see `search`).

    Gi to mobile   1   2   3   1'  |  hypothesis "2 was lost"        cost: a loss
    mobile to Gi     a2      a2    |  a2: 1 arrived; a2 again: 3     hypothesis "3 was lost, too":
                                   |                                 a second loss and a stray ACK
"""

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.loss import costs, link
from spark_jobs.estimators.loss.exchange import ARRIVED, NOT_TOLD
from spark_jobs.estimators.loss.sack import is_d_sack
from spark_jobs.estimators.sequence import NONE, unwrap

MOST_HELD = 256
"""Ranges out of order that a hypothesis remembers; of more, the lowest is forgotten."""
SOONEST = 0.9
"""No ACK comes before this part of the least round trip of the user."""
FULL_SEGMENTS_OWED = 2
"""In-order segments after which an ACK is owed (RFC 5681, 4.2)."""

LONGEST_WAIT_US = 500_000
"""An ACK waits for a second segment no longer (RFC 9293, 3.8.6.3)."""

HYPOTHESIS = np.dtype(
    [
        ("cost", "f8"),
        ("odd", "f8"),
        ("ahead", "f8"),
        ("next_ack", "i8"),
        ("rcv_nxt", "i8"),
        ("acked", "i8"),
        ("last_sent", "i8"),
        ("untold", "i8"),
        ("due", "f8"),
        ("lent", "f8"),
        ("waited", "f8"),
        ("clock", "f8"),
        ("ts_recent", "u4"),
        ("ts_maybe", "u4"),
        ("held", "i4"),
        ("owed", "i4"),
        ("passed", "i4"),
        ("folded", "i4"),
        ("parent", "i4"),
        ("since", "i4"),
        ("lost", "?"),
        ("low", "i8", (MOST_HELD,)),
        ("high", "i8", (MOST_HELD,)),
    ]
)
"""A receiver: its cost, how much of that is for what it cannot explain, and what is to come at
least (see `lookahead`); the next ACK to explain; RCV.NXT; the highest ACK explained and the last
one sent; the end of a range held whose ACK was not seen (NONE: told); when the ACK of the last copy
is due; when that of the last copy but one was due, if it may have waited for the last (0: it may
not), and what that costs; the link's clock; TS.Recent, and what it may be after pure ACKs and old
data; how many ranges are held, segments owe an ACK, and ACKs were sent and not seen since the last
one explained; where it comes from; how many copies have arrived since the last loss, and whether
the last copy was lost; the ranges held."""

PLAIN, FILLS, AHEAD, AGAIN, REFUSED = range(5)
"""What an arrival is: next in order, the filling of a hole, out of order, known already, too old by
its timestamp (PAWS, RFC 7323, 5.3)."""


@inner
def soonest(path):
    """How long after a copy its ACK comes at the earliest (µs)."""
    return np.int64(SOONEST * path.base)


@inner
def begin(h, rcv_nxt, clock):
    """A receiver before the first copy."""
    h.cost = h.odd = 0.0
    h.next_ack = 0
    h.due = h.clock = clock
    h.lent = h.waited = 0.0
    h.held = h.owed = h.passed = h.folded = h.parent = 0
    h.ts_recent = h.ts_maybe = 0
    h.lost, h.since = False, link.SINCE
    h.untold = NONE
    h.rcv_nxt = h.acked = h.last_sent = rcv_nxt


@inner
def copy(to, h):
    """Copy a hypothesis, of the ranges those in use."""
    to.cost, to.ahead, to.next_ack, to.rcv_nxt, to.acked = (
        h.cost,
        h.ahead,
        h.next_ack,
        h.rcv_nxt,
        h.acked,
    )
    to.odd = h.odd
    to.last_sent, to.ts_recent, to.ts_maybe = h.last_sent, h.ts_recent, h.ts_maybe
    to.due, to.lent, to.waited = h.due, h.lent, h.waited
    to.clock, to.untold, to.passed, to.folded = h.clock, h.untold, h.passed, h.folded
    to.held, to.owed, to.parent, to.lost, to.since = h.held, h.owed, h.parent, h.lost, h.since
    for k in range(h.held):
        to.low[k], to.high[k] = h.low[k], h.high[k]


@inner
def same(a, b):
    """Whether two hypotheses have led to the same receiver."""
    if (
        a.next_ack != b.next_ack
        or a.rcv_nxt != b.rcv_nxt
        or a.held != b.held
        or a.ts_recent != b.ts_recent
        or a.last_sent != b.last_sent
        or a.acked != b.acked
        or a.untold != b.untold
        or a.passed != b.passed
        or (a.lent > 0) != (b.lent > 0)
    ):
        return False
    for k in range(a.held):
        if a.low[k] != b.low[k] or a.high[k] != b.high[k]:
            return False
    return True


@inner
def hold(h, low, high):
    """Add a range to those held out of order; whether it was held already."""
    known = False
    n = 0
    for k in range(h.held):
        if h.low[k] <= low and high <= h.high[k]:
            known = True
        if h.high[k] < low or high < h.low[k]:
            h.low[n], h.high[n] = h.low[k], h.high[k]
            n += 1
        else:
            low, high = min(low, h.low[k]), max(high, h.high[k])
    if n == MOST_HELD:
        for k in range(1, n):
            h.low[k - 1], h.high[k - 1] = h.low[k], h.high[k]
        n -= 1
    place = n
    while place > 0 and h.low[place - 1] > low:
        h.low[place], h.high[place] = h.low[place - 1], h.high[place - 1]
        place -= 1
    h.low[place], h.high[place] = low, high
    h.held = n + 1
    return known


@inner
def has(h, low, high):
    """Whether a range has arrived."""
    if high <= h.rcv_nxt:
        return True
    for k in range(h.held):
        if h.low[k] <= max(low, h.rcv_nxt) and high <= h.high[k]:
            return True
    return False


@inner
def advance(h, to):
    """All up to `to` arrived in order; what is held beyond it follows."""
    h.rcv_nxt = to
    n = 0
    for k in range(h.held):
        if h.low[k] <= h.rcv_nxt:
            h.rcv_nxt = max(h.rcv_nxt, h.high[k])
        else:
            h.low[n], h.high[n] = h.low[k], h.high[k]
            n += 1
    h.held = n


@inner
def settle(h, until, acks):
    """Explain the ACKs before `until`, which no later copy can have caused."""
    while h.next_ack < len(acks) and acks[h.next_ack].ts < until:
        value, stray = acks[h.next_ack].value, acks[h.next_ack].stray
        if value > h.rcv_nxt:
            _wonder(h, costs.IMPOSSIBLE)
            advance(h, value)
            h.acked = h.last_sent = value
        elif value == h.rcv_nxt and value > h.acked:
            h.acked = h.last_sent = value
            h.owed = 0
        else:
            _stray(h, value, stray)
        explained(h, acks)


@inner
def explained(h, acks):
    """The next ACK is that after this one; what the mobile sent before it that Gi never saw, some
    arrivals must have called for."""
    ack = acks[h.next_ack]
    uncalled = ack.unseen - h.passed - h.folded
    if uncalled > 0 and not ack.shared:
        h.cost += costs.UNCALLED_ACK * uncalled
    h.next_ack += 1
    h.passed = h.folded = 0


@inner
def _stray(h, value, stray):
    if value == h.acked:
        _wonder(h, stray)
    elif value > h.acked:
        h.acked = value
        _wonder(h, costs.MISMATCH if stray else 0.0)


@inner
def _wonder(h, cost):
    """What no arrival explains."""
    h.cost += cost
    h.odd += cost


@inner
def due(before, c, path):
    """When the ACK of a copy is due, if that of the one before it was: the link is a FIFO (µs)."""
    return max(link.meanwhile(before, c), c.ts + path.base) + c.size * path.pace


@inner
def backlog(h, c, path):
    """The bytes that wait for the link when a copy comes, itself included."""
    return link.backlog(link.meanwhile(h.clock, c), c.ts, c.size, path)


@inner
def lose(h, c, path):
    """A copy is lost: the link has no work with it."""
    h.due = link.meanwhile(h.due, c)
    h.clock = link.dropped(link.meanwhile(h.clock, c), c.ts, c.size, path)


@inner
def arrive(h, c, heard, path):
    """A copy arrives: what the receiver then holds, and the ACK that it causes. Of a HYPOTHESIS, a
    COPY, what the connection's mobile was Heard to tell, and its user's PATH. Returns whether the
    copy may have been answered by the ACK before, too (see `arrive_late`)."""
    acks = heard.acks
    if c.low < c.high:
        _overdue(h, c, heard, path)
    h.due, lent = due(h.due, c, path), h.lent
    h.clock = link.arrived(link.meanwhile(h.clock, c), c.ts, c.size, c.answered, path)
    if c.low == c.high:
        _empty(h, c, acks)
        return False
    h.lent = 0.0
    kind = _take_in(h, c, acks)
    h.owed += 1
    folds = heard.sack and (kind == AHEAD or kind == REFUSED)
    unseen = _no_ack(h, acks)
    if folds:
        unseen = min(unseen, costs.COMPRESSED_ACK)
    j = h.next_ack
    if j < len(acks) and acks[j].value == h.rcv_nxt and (kind != PLAIN or h.acked < h.rcv_nxt):
        cost = _misfit(h, c, acks[j], kind, heard, path)
        if kind == PLAIN and _waits_too_long(h, acks[j].ts, heard):
            cost += unseen
        if kind == PLAIN or cost <= unseen:
            if kind == PLAIN:
                h.lent = h.due
                h.waited = costs.DELAYED_ACK if h.owed >= FULL_SEGMENTS_OWED else heard.waited
            h.cost += cost
            _answer(h, acks)
            return kind != PLAIN and lent > 0
    if kind != PLAIN and lent > 0 and _had_waited(h, c, lent, kind, heard, path):
        return False
    if c.ambiguous:
        h.cost += costs.beyond(h.due - c.ts, path)
    if c.watched and h.owed > FULL_SEGMENTS_OWED:
        h.cost += costs.DELAYED_ACK
    if kind == PLAIN:
        h.folded += 1
    else:
        h.cost += unseen if c.watched else 0.0
        h.passed += 1
        h.last_sent = h.rcv_nxt
        h.owed = 0
        if kind == AHEAD:
            h.untold = c.high
    return False


@inner
def _overdue(h, c, heard, path):
    """If what came before a copy had owed an ACK for too long by then, it was sent and not seen."""
    if h.next_ack < len(heard.acks) and _waits_too_long(h, c.ts + soonest(path), heard):
        h.cost += _no_ack(h, heard.acks)
        h.passed += 1
        h.last_sent = h.rcv_nxt
        h.owed = 0


@inner
def _waits_too_long(h, ts, heard):
    """Whether an ACK that is owed would be later than the FIFO's turn by more than any round trip
    that is certain."""
    return h.owed > 0 and 0 < heard.longest < ts - h.due


@inner
def arrive_late(h, c, heard, path):
    """A copy arrives, and is answered by the last ACK explained, which had waited; whether that
    fits. The next ACK, which would answer it, too, is that of another."""
    h.due, lent = due(h.due, c, path), h.lent
    h.clock = link.arrived(link.meanwhile(h.clock, c), c.ts, c.size, c.answered, path)
    h.lent = 0.0
    kind = _take_in(h, c, heard.acks)
    h.owed += 1
    return _had_waited(h, c, lent, kind, heard, path)


@inner
def _no_ack(h, acks):
    """What it costs that an arrival was not acknowledged."""
    if h.next_ack >= len(acks) or acks[h.next_ack].unseen == NOT_TOLD:
        return costs.LOST_ACK
    ack = acks[h.next_ack]
    return costs.no_ack(max(ack.unseen - h.passed, 0), ack.shared)


@inner
def _had_waited(h, c, lent, kind, heard, path):
    """The last ACK, which was taken for that of segments in order, may have waited (RFC 9293,
    3.8.6.3; Linux's waits for more than two until the application has read) until this copy called
    for one at once; whether it fits. lent: when it was due."""
    ack = heard.acks[h.next_ack - 1]
    if ack.value != h.rcv_nxt or not c.ts + soonest(path) <= ack.ts <= lent + LONGEST_WAIT_US:
        return False
    now, h.due = h.due, due(lent, c, path)
    cost = h.waited + _misfit(h, c, ack, kind, heard, path)
    if path.base > 0:
        cost += costs.LATE * min(max((h.due - ack.ts) / path.base, 0.0), costs.LATEST)
    if cost > _no_ack(h, heard.acks):
        h.due = now
        return False
    h.cost += cost
    h.due = float(ack.ts)
    h.owed = 0
    return True


@inner
def _take_in(h, c, acks):
    """What an arrival is to the receiver, which has it then; ACKs of less were strays. Whether old
    data changes TS.Recent is up to the stack (RFC 7323, 4.3, does not say; Linux's does where it
    ends with what was acknowledged last)."""
    if c.old and c.ambiguous and c.fate != ARRIVED and np.int32(h.ts_recent - c.ts_val) > 0:
        return REFUSED
    if c.has_ts and c.low <= h.last_sent:
        if np.int32(c.ts_val - h.ts_recent) >= 0 or h.ts_recent == 0:
            h.ts_maybe = c.ts_val
            if c.high > h.last_sent or h.ts_recent == 0:
                h.ts_recent = c.ts_val
    if c.high <= h.rcv_nxt:
        return AGAIN
    if c.low > h.rcv_nxt:
        return AGAIN if hold(h, c.low, c.high) else AHEAD
    kind = FILLS if h.held else PLAIN
    advance(h, c.high)
    while h.next_ack < len(acks) and acks[h.next_ack].value < h.rcv_nxt:
        _stray(h, acks[h.next_ack].value, acks[h.next_ack].stray)
        explained(h, acks)
    return kind


@inner
def _answer(h, acks):
    """The next ACK answers what arrived last."""
    ack = acks[h.next_ack]
    if ack.has_ts and h.ts_recent != 0:
        if np.int32(ack.ecr - h.ts_recent) > 0:
            h.ts_recent = ack.ecr
    h.acked = h.last_sent = h.rcv_nxt
    explained(h, acks)
    h.due = float(ack.ts)
    h.untold = NONE
    h.owed = 0


@inner
def _empty(h, c, acks):
    """A pure ACK or a keep-alive: it may change TS.Recent; one of old data is answered."""
    if c.has_ts and c.low == h.last_sent and np.int32(c.ts_val - h.ts_recent) > 0:
        h.ts_maybe = c.ts_val
    j = h.next_ack
    if c.low < h.rcv_nxt and j < len(acks):
        if acks[j].value == h.rcv_nxt == h.acked and acks[j].sack_count == 0:
            explained(h, acks)


@inner
def _misfit(h, c, ack, kind, heard, path):
    """What an ACK costs as the answer to a copy."""
    cost = 0.0
    if ack.has_ts and h.ts_recent != 0 and ack.ecr != h.ts_recent:
        if np.int32(ack.ecr - h.ts_recent) <= 0 or np.int32(h.ts_maybe - ack.ecr) < 0:
            cost += costs.MISMATCH
    if heard.sack and not c.opens:
        cost += _misfit_of_blocks(h, c, ack, kind, heard)
    if kind >= AHEAD:
        cost += ack.moved
    cost += _surprise(ack.ts - c.ts, h.due - c.ts, path)
    if path.base > 0:
        cost += costs.LATE * min(max((ack.ts - h.due) / path.base, 0.0), costs.LATEST)
    return cost


@inner
def _surprise(round_trip, expected, path):
    """What a round trip longer than the longest costs, beyond what was expected of a FIFO: where
    one packet has waited so long, it is no wonder that those behind it do."""
    return max(costs.beyond(round_trip, path) - costs.beyond(expected, path), 0.0)


@inner
def _misfit_of_blocks(h, c, ack, kind, heard):
    edges = heard.edges
    cost = 0.0
    blocks = ack.sack_count // 2
    told = h.untold <= h.rcv_nxt
    twice = False
    listed = 0
    for b in range(blocks):
        low = unwrap(edges[ack.sack_at + 2 * b], h.rcv_nxt)
        high = unwrap(edges[ack.sack_at + 2 * b + 1], h.rcv_nxt)
        if b == 0:
            if is_d_sack(edges[ack.sack_at : ack.sack_at + ack.sack_count], h.rcv_nxt):
                twice = True
                if kind != AGAIN or not (low < c.high and c.low < high):
                    cost += costs.MISMATCH
                continue
        listed += 1
        told |= low < h.untold <= high
        held = False
        for k in range(h.held):
            held |= h.low[k] <= low and high <= h.high[k]
        if not held:
            cost += costs.MISMATCH
        if listed == 1 and kind == AHEAD and not (low <= c.low and c.high <= high):
            cost += costs.MISMATCH
    if kind == AGAIN and not twice and heard.d_sack:
        cost += costs.MISMATCH
    if not told:
        cost += costs.MISMATCH
    return cost
