"""A model of the mobile's TCP receiver: what it has received, and which ACKs it must have sent.

A receiver is a deterministic machine (RFC 9293, RFC 5681, as Linux implements them). It
acknowledges at once a segment that is out of order, one that it knows already, and one that fills a
hole. It acknowledges segments in order after every second one or after a delay. With SACK (RFC
2018) it reports the ranges that it holds, the latest first, and data that arrived twice (D-SACK,
RFC 2883). With timestamps (RFC 7323) it echoes the timestamp of the first segment that arrived in
order after its last ACK.

A hypothesis says of each transmission whether it arrived. Transmissions arrive in the order in
which they pass Gi, because the access link is a FIFO. So a hypothesis can be played forward: each
arrival changes what the receiver holds, and explains the ACK that it must have caused. `cost` is
the negative log likelihood of the losses and of the ACKs that do not fit (see `costs`). Hypotheses
that lead to the same receiver are merged. A beam of the best hypotheses is kept, as in a Viterbi
decoder (see `search`).

In the example, aN acknowledges all data below N:

    Gi to mobile   1   2   3
    mobile to Gi     a2      a2

- Hypothesis "2 was lost": the first a2 answers 1, the second answers 3. Cost: one loss.
- Hypothesis "2 and 3 were lost": the first a2 answers 1, the second has no cause. Cost: two losses
  and an unexplained ACK.

Parameters:

- h: a HYPOTHESIS
- tx: a TRANSMISSION
- feedback: the connection's ACKs, and how this mobile sends ACKs (`observation.Feedback`)
- path: the properties of the user's access link (`link.PATH`)
"""

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.loss import costs, link
from spark_jobs.estimators.loss.observation import ARRIVED, UNKNOWN, UNPROVEN
from spark_jobs.estimators.loss.sack import is_d_sack
from spark_jobs.estimators.sequence import NONE, unwrap

MAX_HELD_RANGES = 256
"""Maximum number of out-of-order ranges in a hypothesis; if there are more, it drops the lowest."""
MAX_PASSED_ACKS, MAX_PASSED_COST = 4096, 200.0
"""Maximum number of the lower ACKs after an arrival, and their cost; with more it is impossible."""
MIN_ACK_DELAY_RTTS = 0.9
"""Minimum time from a transmission to its ACK (multiple of the user's base RTT)."""
SEGMENTS_PER_ACK = 2
"""Number of segments in order after which an ACK is due (RFC 5681, 4.2)."""

MAX_DELAYED_ACK_US = 500_000
"""Maximum time for which an ACK waits for a second segment (RFC 9293, 3.8.6.3; µs)."""

HYPOTHESIS = np.dtype(
    [
        ("cost", "f8"),
        ("unexplained_cost", "f8"),
        ("bound", "f8"),
        ("next_ack", "i8"),
        ("rcv_nxt", "i8"),
        ("last_ack_explained", "i8"),
        ("last_ack_sent", "i8"),
        ("unacked_ooo_end", "i8"),
        ("ack_due", "f8"),
        ("prev_ack_due", "f8"),
        ("prev_ack_cost", "f8"),
        ("clock", "f8"),
        ("ts_recent", "u4"),
        ("max_ts_recent", "u4"),
        ("held_count", "i4"),
        ("segments_owing_ack", "i4"),
        ("acks_unseen", "i4"),
        ("acks_coalesced", "i4"),
        ("parent", "i4"),
        ("arrived_since_loss", "i4"),
        ("lost", "?"),
        ("held_low", "i8", (MAX_HELD_RANGES,)),
        ("held_high", "i8", (MAX_HELD_RANGES,)),
    ]
)
"""A hypothesis: the state of a receiver, and the costs so far.

cost: the cost so far.
unexplained_cost: the part of it for ACKs that no arrival explains.
bound: a lower bound of the cost still to come (see `lookahead`).
next_ack: index of the next ACK to explain.
rcv_nxt: RCV.NXT (RFC 9293).
last_ack_explained: the highest acknowledgment number explained.
last_ack_sent: the acknowledgment number of the last ACK that the receiver sent.
unacked_ooo_end: end of a held range whose ACK Gi did not see (NONE: all ranges were reported).
ack_due: time at which the ACK for the last transmission is due (µs).
prev_ack_due: the time at which the ACK explained last was due (µs), if that ACK could instead
    answer the next arrival (see `arrive_with_delayed_ack`); else 0.
prev_ack_cost: the cost to add in that case.
clock: the time at which the link will have sent its whole queue (µs; see `link`).
ts_recent: TS.Recent (RFC 7323).
max_ts_recent: upper bound of TS.Recent: its value if pure ACKs and old data update it, too.
held_count: number of ranges held out of order.
segments_owing_ack: number of segments that have arrived since the last ACK.
acks_unseen: number of ACKs sent but not seen since the last ACK explained.
acks_coalesced: number of arrivals in order without an ACK of their own, since the last ACK
    explained.
parent: index of the hypothesis in the previous beam from which this one derives.
arrived_since_loss: number of transmissions that have arrived since the last loss.
lost: whether the last transmission was lost.
held_low, held_high: the ranges [low, high) held out of order.
"""

IN_ORDER, FILLS_HOLE, OUT_OF_ORDER, KNOWN, PAWS_REJECTED = range(5)
"""The kinds of arrival.

IN_ORDER: next in order, without a hole.
FILLS_HOLE: next in order, and it fills a hole.
OUT_OF_ORDER: above a hole, and new.
KNOWN: the receiver has its data already.
PAWS_REJECTED: dropped for its old timestamp (PAWS, RFC 7323, 5.3).
"""


@inner
def min_ack_delay(path):
    """Return the minimum time from a transmission to its ACK (µs)."""
    return np.int64(MIN_ACK_DELAY_RTTS * path.base_rtt)


@inner
def start(h, rcv_nxt, clock):
    """Set a HYPOTHESIS to the state before the first transmission."""
    h.cost = h.unexplained_cost = 0.0
    h.next_ack = 0
    h.ack_due = h.clock = clock
    h.prev_ack_due = h.prev_ack_cost = 0.0
    h.held_count = h.segments_owing_ack = h.acks_unseen = h.acks_coalesced = h.parent = 0
    h.ts_recent = h.max_ts_recent = 0
    h.lost, h.arrived_since_loss = False, link.LOSS_MEMORY
    h.unacked_ooo_end = NONE
    h.rcv_nxt = h.last_ack_explained = h.last_ack_sent = rcv_nxt


@inner
def copy(target, h):
    """Copy a HYPOTHESIS; of the ranges, only those in use."""
    target.cost = h.cost
    target.unexplained_cost = h.unexplained_cost
    target.bound = h.bound
    target.next_ack = h.next_ack
    target.rcv_nxt = h.rcv_nxt
    target.last_ack_explained = h.last_ack_explained
    target.last_ack_sent = h.last_ack_sent
    target.unacked_ooo_end = h.unacked_ooo_end
    target.ack_due = h.ack_due
    target.prev_ack_due = h.prev_ack_due
    target.prev_ack_cost = h.prev_ack_cost
    target.clock = h.clock
    target.ts_recent = h.ts_recent
    target.max_ts_recent = h.max_ts_recent
    target.held_count = h.held_count
    target.segments_owing_ack = h.segments_owing_ack
    target.acks_unseen = h.acks_unseen
    target.acks_coalesced = h.acks_coalesced
    target.parent = h.parent
    target.arrived_since_loss = h.arrived_since_loss
    target.lost = h.lost
    for k in range(h.held_count):
        target.held_low[k], target.held_high[k] = h.held_low[k], h.held_high[k]


@inner
def is_same_state(a, b):
    """Return whether two hypotheses have led to the same receiver."""
    if (
        a.next_ack != b.next_ack
        or a.rcv_nxt != b.rcv_nxt
        or a.held_count != b.held_count
        or a.ts_recent != b.ts_recent
        or a.last_ack_sent != b.last_ack_sent
        or a.last_ack_explained != b.last_ack_explained
        or a.unacked_ooo_end != b.unacked_ooo_end
        or a.acks_unseen != b.acks_unseen
        or (a.prev_ack_due > 0) != (b.prev_ack_due > 0)
    ):
        return False
    for k in range(a.held_count):
        if a.held_low[k] != b.held_low[k] or a.held_high[k] != b.held_high[k]:
            return False
    return True


@inner
def hold_range(h, low, high):
    """Add a range to those held out of order, and return whether it was held already."""
    known = False
    n = 0
    for k in range(h.held_count):
        if h.held_low[k] <= low and high <= h.held_high[k]:
            known = True
        if h.held_high[k] < low or high < h.held_low[k]:
            h.held_low[n], h.held_high[n] = h.held_low[k], h.held_high[k]
            n += 1
        else:
            low, high = min(low, h.held_low[k]), max(high, h.held_high[k])
    if n == MAX_HELD_RANGES:
        for k in range(1, n):
            h.held_low[k - 1], h.held_high[k - 1] = h.held_low[k], h.held_high[k]
        n -= 1
    position = n
    while position > 0 and h.held_low[position - 1] > low:
        h.held_low[position], h.held_high[position] = (
            h.held_low[position - 1],
            h.held_high[position - 1],
        )
        position -= 1
    h.held_low[position], h.held_high[position] = low, high
    h.held_count = n + 1
    return known


@inner
def has_received(h, low, high):
    """Return whether a range has arrived."""
    if high <= h.rcv_nxt:
        return True
    for k in range(h.held_count):
        if h.held_low[k] <= max(low, h.rcv_nxt) and high <= h.held_high[k]:
            return True
    return False


@inner
def advance_rcv_nxt(h, rcv_nxt):
    """Set RCV.NXT after an arrival in order, and advance it over the ranges held above it."""
    h.rcv_nxt = rcv_nxt
    n = 0
    for k in range(h.held_count):
        if h.held_low[k] <= h.rcv_nxt:
            h.rcv_nxt = max(h.rcv_nxt, h.held_high[k])
        else:
            h.held_low[n], h.held_high[n] = h.held_low[k], h.held_high[k]
            n += 1
    h.held_count = n


@inner
def explain_acks_before(h, ts, acks):
    """Assign the ACKs before time `ts` (µs) to earlier arrivals, or take them as unexplained.

    No later transmission can have caused them.
    """
    while h.next_ack < len(acks) and acks[h.next_ack].ts < ts:
        number, unexplained_cost = acks[h.next_ack].number, acks[h.next_ack].unexplained_cost
        if number > h.rcv_nxt:
            _add_unexplained_cost(h, costs.ACK_OF_MISSING_DATA)
            advance_rcv_nxt(h, number)
            h.last_ack_explained = h.last_ack_sent = number
        elif number == h.rcv_nxt and number > h.last_ack_explained:
            h.last_ack_explained = h.last_ack_sent = number
            h.segments_owing_ack = 0
        else:
            _take_as_unexplained(h, number, unexplained_cost)
        consume_ack(h, acks)


@inner
def consume_ack(h, acks):
    """Consume the next ACK, so that the one after it is next.

    Before this ACK, the mobile may have sent packets that Gi did not see (see `observation.ACK`).
    Adds a cost for each of them that no arrival required.
    """
    ack = acks[h.next_ack]
    unprompted = ack.unseen_before - h.acks_unseen - h.acks_coalesced
    if unprompted > 0 and not ack.unseen_shared:
        h.cost += costs.UNPROMPTED_ACK * unprompted
    h.next_ack += 1
    h.acks_unseen = h.acks_coalesced = 0


@inner
def _take_as_unexplained(h, number, cost):
    if number == h.last_ack_explained:
        _add_unexplained_cost(h, cost)
    elif number > h.last_ack_explained:
        h.last_ack_explained = number
        _add_unexplained_cost(h, costs.ACK_MISMATCH if cost else 0.0)


@inner
def _add_unexplained_cost(h, cost):
    """Add the cost of an ACK that no arrival explains."""
    h.cost += cost
    h.unexplained_cost += cost


@inner
def ack_due_after(previous_due, tx, path):
    """Return when the ACK for a transmission is due (µs).

    previous_due: the due time of the ACK for the previous transmission. The result is later than
    previous_due, because the link is a FIFO.
    """
    return max(link.clock_on_entry(previous_due, tx), tx.ts + path.base_rtt) + tx.size * path.pace


@inner
def backlog(h, tx, path):
    """Return the bytes in the link's queue right after a transmission entered, including it."""
    return link.backlog(link.clock_on_entry(h.clock, tx), tx.ts, tx.size, path)


@inner
def lose(h, tx, path):
    """Change the HYPOTHESIS by the loss of a transmission.

    In the model, the link spends no time on it. This is exact for a packet that the full queue
    dropped, and a simplification for one that was lost on the radio.
    """
    h.ack_due = link.clock_on_entry(h.ack_due, tx)
    h.clock = link.clock_after_loss(link.clock_on_entry(h.clock, tx), tx.ts, tx.size, path)


@inner
def arrive(h, tx, feedback, path):
    """Change the HYPOTHESIS by the arrival of a transmission and the ACK that it causes.

    tx: TRANSMISSION; feedback: the Feedback of the connection's mobile; path: the user's PATH.
    Returns whether the previous ACK may be the answer instead (see `arrive_with_delayed_ack`).
    """
    acks = feedback.acks
    if tx.low < tx.high:
        _assume_overdue_ack_lost(h, tx, feedback, path)
    h.ack_due, prev_ack_due = ack_due_after(h.ack_due, tx, path), h.prev_ack_due
    h.clock = link.clock_after_arrival(
        link.clock_on_entry(h.clock, tx), tx.ts, tx.size, tx.ack_ts, path
    )
    if tx.low == tx.high:
        _receive_empty(h, tx, acks)
        return False
    h.prev_ack_due = 0.0
    kind = _receive(h, tx, acks)
    h.segments_owing_ack += 1
    may_be_coalesced = feedback.sack_permitted and (kind == OUT_OF_ORDER or kind == PAWS_REJECTED)
    missing_cost = _missing_ack_cost(h, acks)
    if may_be_coalesced:
        missing_cost = min(missing_cost, costs.COMPRESSED_ACK)
    j = h.next_ack
    if (
        j < len(acks)
        and acks[j].number == h.rcv_nxt
        and (kind != IN_ORDER or h.last_ack_explained < h.rcv_nxt)
    ):
        cost = _mismatch_cost(h, tx, acks[j], kind, feedback, path)
        if kind == IN_ORDER and _is_ack_overdue(h, acks[j].ts, feedback):
            cost += missing_cost
        if kind == IN_ORDER or cost <= missing_cost:
            if kind == IN_ORDER:
                h.prev_ack_due = h.ack_due
                h.prev_ack_cost = (
                    costs.STRETCH_ACK
                    if h.segments_owing_ack >= SEGMENTS_PER_ACK
                    else feedback.delayed_ack_cost
                )
            h.cost += cost
            _accept_answer(h, acks)
            return kind != IN_ORDER and prev_ack_due > 0
    if (
        kind != IN_ORDER
        and prev_ack_due > 0
        and _answer_with_delayed_ack(h, tx, prev_ack_due, kind, feedback, path)
    ):
        return False
    if tx.ambiguous:
        h.cost += costs.long_rtt_cost(h.ack_due - tx.ts, path)
    if tx.ack_observable and h.segments_owing_ack > SEGMENTS_PER_ACK:
        h.cost += costs.STRETCH_ACK
    if kind == IN_ORDER:
        h.acks_coalesced += 1
    else:
        h.cost += missing_cost if tx.ack_observable else 0.0
        h.acks_unseen += 1
        h.last_ack_sent = h.rcv_nxt
        h.segments_owing_ack = 0
        if kind == OUT_OF_ORDER:
            h.unacked_ooo_end = tx.high
    return False


@inner
def _assume_overdue_ack_lost(h, tx, feedback, path):
    """Assume that Gi did not see the ACK for earlier arrivals if it is overdue when tx arrives."""
    if h.next_ack < len(feedback.acks) and _is_ack_overdue(
        h, tx.ts + min_ack_delay(path), feedback
    ):
        h.cost += _missing_ack_cost(h, feedback.acks)
        h.acks_unseen += 1
        h.last_ack_sent = h.rcv_nxt
        h.segments_owing_ack = 0


@inner
def _is_ack_overdue(h, ts, feedback):
    """Return whether an ACK at time `ts` (µs) would be overdue.

    It is overdue if the receiver owes an ACK whose due time is earlier than `ts` by more than the
    longest certain RTT.
    """
    return h.segments_owing_ack > 0 and 0 < feedback.max_rtt < ts - h.ack_due


@inner
def arrive_with_delayed_ack(h, tx, feedback, path):
    """Change the HYPOTHESIS by an arrival whose answer is the ACK that was explained last.

    This is the alternative to `arrive`: that ACK was delayed until this arrival, and the next ACK
    is left to answer a later transmission. Returns whether this is possible.
    """
    h.ack_due, prev_ack_due = ack_due_after(h.ack_due, tx, path), h.prev_ack_due
    h.clock = link.clock_after_arrival(
        link.clock_on_entry(h.clock, tx), tx.ts, tx.size, tx.ack_ts, path
    )
    h.prev_ack_due = 0.0
    kind = _receive(h, tx, feedback.acks)
    h.segments_owing_ack += 1
    return _answer_with_delayed_ack(h, tx, prev_ack_due, kind, feedback, path)


@inner
def _missing_ack_cost(h, acks):
    """Return the cost of an arrival that was not acknowledged."""
    if h.next_ack >= len(acks) or acks[h.next_ack].unseen_before == UNKNOWN:
        return costs.LOST_ACK
    ack = acks[h.next_ack]
    return costs.missing_ack_cost(max(ack.unseen_before - h.acks_unseen, 0), ack.unseen_shared)


@inner
def _answer_with_delayed_ack(h, tx, prev_ack_due, kind, feedback, path):
    """Take the ACK that was explained last as the answer to this transmission, if this fits.

    Returns whether it fits. Until now the hypothesis explains that ACK by segments in order. The
    other possibility is that the mobile delayed it (RFC 9293, 3.8.6.3) until this transmission
    called for an ACK at once. Linux may delay an ACK over more than two segments, until the
    application has read the data. prev_ack_due: the time at which the ACK was due.
    """
    ack = feedback.acks[h.next_ack - 1]
    if (
        ack.number != h.rcv_nxt
        or not tx.ts + min_ack_delay(path) <= ack.ts <= prev_ack_due + MAX_DELAYED_ACK_US
    ):
        return False
    fifo_due, h.ack_due = h.ack_due, ack_due_after(prev_ack_due, tx, path)
    cost = h.prev_ack_cost + _mismatch_cost(h, tx, ack, kind, feedback, path)
    if path.base_rtt > 0:
        cost += costs.LATE_ACK * min(
            max((h.ack_due - ack.ts) / path.base_rtt, 0.0), costs.MAX_LATE_RTTS
        )
    if cost > _missing_ack_cost(h, feedback.acks):
        h.ack_due = fifo_due
        return False
    h.cost += cost
    h.ack_due = float(ack.ts)
    h.segments_owing_ack = 0
    return True


@inner
def _receive(h, tx, acks):
    """Add a transmission to what the receiver has, and return the kind of arrival.

    ACKs with a lower number than the new RCV.NXT are taken as unexplained. RFC 7323, 4.3, does not
    say whether old data changes TS.Recent. Linux changes it if the segment ends at the number
    of the last ACK that it sent.
    """
    if (
        tx.overtaken
        and tx.ambiguous
        and tx.fate != ARRIVED
        and np.int32(h.ts_recent - tx.ts_val) > 0
    ):
        return PAWS_REJECTED
    if tx.has_ts and tx.low <= h.last_ack_sent:
        if np.int32(tx.ts_val - h.ts_recent) >= 0 or h.ts_recent == 0:
            h.max_ts_recent = tx.ts_val
            if tx.high > h.last_ack_sent or h.ts_recent == 0:
                h.ts_recent = tx.ts_val
    if tx.high <= h.rcv_nxt:
        return KNOWN
    if tx.low > h.rcv_nxt:
        return KNOWN if hold_range(h, tx.low, tx.high) else OUT_OF_ORDER
    kind = FILLS_HOLE if h.held_count else IN_ORDER
    advance_rcv_nxt(h, tx.high)
    may_be_lost = tx.ambiguous and tx.fate == UNPROVEN
    first_ack, max_cost = h.next_ack, h.cost + MAX_PASSED_COST
    while h.next_ack < len(acks) and acks[h.next_ack].number < h.rcv_nxt:
        if may_be_lost and (h.cost > max_cost or h.next_ack - first_ack > MAX_PASSED_ACKS):
            h.cost = np.inf
            break
        _take_as_unexplained(h, acks[h.next_ack].number, acks[h.next_ack].unexplained_cost)
        consume_ack(h, acks)
    return kind


@inner
def _accept_answer(h, acks):
    """Explain the next ACK by the last arrival."""
    ack = acks[h.next_ack]
    if ack.has_ts and h.ts_recent != 0:
        if np.int32(ack.ts_ecr - h.ts_recent) > 0:
            h.ts_recent = ack.ts_ecr
    h.last_ack_explained = h.last_ack_sent = h.rcv_nxt
    consume_ack(h, acks)
    h.ack_due = float(ack.ts)
    h.unacked_ooo_end = NONE
    h.segments_owing_ack = 0


@inner
def _receive_empty(h, tx, acks):
    """Receive a pure ACK or a keep-alive.

    It may change TS.Recent. One with an old sequence number is answered.
    """
    if tx.has_ts and tx.low == h.last_ack_sent and np.int32(tx.ts_val - h.ts_recent) > 0:
        h.max_ts_recent = tx.ts_val
    j = h.next_ack
    if tx.low < h.rcv_nxt and j < len(acks):
        if acks[j].number == h.rcv_nxt == h.last_ack_explained and acks[j].sack_count == 0:
            consume_ack(h, acks)


@inner
def _mismatch_cost(h, tx, ack, kind, feedback, path):
    """Return the cost of an ACK as the answer to a transmission."""
    cost = 0.0
    if ack.has_ts and h.ts_recent != 0 and ack.ts_ecr != h.ts_recent:
        if np.int32(ack.ts_ecr - h.ts_recent) <= 0 or np.int32(h.max_ts_recent - ack.ts_ecr) < 0:
            cost += costs.ACK_MISMATCH
    if feedback.sack_permitted and not tx.is_syn:
        cost += _sack_mismatch_cost(h, tx, ack, kind, feedback)
    if kind >= OUT_OF_ORDER:
        cost += ack.window_change_cost
    cost += _long_rtt_cost(ack.ts - tx.ts, h.ack_due - tx.ts, path)
    if path.base_rtt > 0:
        cost += costs.LATE_ACK * min(
            max((ack.ts - h.ack_due) / path.base_rtt, 0.0), costs.MAX_LATE_RTTS
        )
    return cost


@inner
def _long_rtt_cost(rtt, expected_rtt, path):
    """Return the extra cost of an RTT that is longer than the longest certain RTT.

    It is the cost of this RTT minus the cost of the RTT that the FIFO predicts. Packets behind a
    late packet are late, too. The subtraction makes sure that one delay is charged once.
    """
    return max(costs.long_rtt_cost(rtt, path) - costs.long_rtt_cost(expected_rtt, path), 0.0)


@inner
def _sack_mismatch_cost(h, tx, ack, kind, feedback):
    sack_edges = feedback.sack_edges
    cost = 0.0
    block_count = ack.sack_count // 2
    reported = h.unacked_ooo_end <= h.rcv_nxt
    has_d_sack = False
    listed = 0
    for b in range(block_count):
        low = unwrap(sack_edges[ack.sack_begin + 2 * b], h.rcv_nxt)
        high = unwrap(sack_edges[ack.sack_begin + 2 * b + 1], h.rcv_nxt)
        if b == 0:
            if is_d_sack(sack_edges[ack.sack_begin : ack.sack_begin + ack.sack_count], h.rcv_nxt):
                has_d_sack = True
                if kind != KNOWN or not (low < tx.high and tx.low < high):
                    cost += costs.ACK_MISMATCH
                continue
        listed += 1
        reported |= low < h.unacked_ooo_end <= high
        held = False
        for k in range(h.held_count):
            held |= h.held_low[k] <= low and high <= h.held_high[k]
        if not held:
            cost += costs.ACK_MISMATCH
        if listed == 1 and kind == OUT_OF_ORDER and not (low <= tx.low and tx.high <= high):
            cost += costs.ACK_MISMATCH
    if kind == KNOWN and not has_d_sack and feedback.sends_d_sack:
        cost += costs.ACK_MISMATCH
    if not reported:
        cost += costs.ACK_MISMATCH
    return cost
