"""What the order of packets alone proves of their fate.

The access link keeps a user's packets in order. So an ACK that proves a copy's arrival decides the
fate of all copies sent before it: what the receiver then still missed was lost, and what it then
had can only have come with copies sent before.

    Gi to mobile   1  2  3  4  ...  2'        ACK up to 4 (exclusive) and no further: 2' arrived,
    mobile to Gi      a2 a2      ...   a4     and at that time 4 had not: the copy of 4 sent before
                                              2' was lost; 3 had, by the only copy there was.

One thing stands above order: what is acknowledged before it was retransmitted had arrived, though it
was overtaken on the access side.
"""

import numpy as np

from spark_jobs.compiled import inner, making
from spark_jobs.estimators.loss.costs import UNEXPLAINED_DUP_ACK
from spark_jobs.estimators.loss.observation import ARRIVED, LOST, UNPROVEN
from spark_jobs.estimators.loss.sack import is_d_sack
from spark_jobs.estimators.sequence import NONE, first_above, unwrap

MAX_SACK_BLOCKS = 4
"""SACK blocks in a segment (RFC 2018, 3)."""
MAX_LOST_REPORTS = 1
"""A receiver with SACK tells of an arrival at once; if that ACK is lost, in the next one. What is
told of neither by the ACK for a later arrival nor by so many ACKs after it was lost."""
MAX_D_SACK_SEARCH = 4096
"""A D-SACK of data that so many copies followed is passed over."""
ROUNDS = 2
"""Each round's proofs narrow the next one's choices; more than two change next to nothing."""


@making
def prove_fates(observation, min_ack_delay):
    """Sets the fate of an Exchange's copies to LOST or ARRIVED where order alone proves it.

    soonest: no ACK comes earlier than this after a copy (µs).

    Among the copies that an ACK may be due to (the earliest and the latest that time and order
    allow), only bounds are used: an ACK that advances is due to a copy of the byte that was
    missing; a pure duplicate, to a copy of another byte, of its first SACK block if it has one.
    What a SACK block reported arrived, even if the mobile drops it later (RFC 2018, 8).

    Returns the longest round trip of a copy whose answer is known for certain (µs), and a copy that
    had arrived, or a later one had, when the last ACK was sent (-1: none): what became of those
    before it is decided.
    """
    sent, highest_sent = observation.transmissions, observation.highest_sent
    cause_end, highest_ack = _ack_bounds(sent, observation.feedback.acks, min_ack_delay)
    first_report = _first_reports(observation, highest_ack)
    d_sack_count = np.empty(len(sent), np.int64)
    max_rtt, last_arrived = np.int64(0), np.int64(-1)
    _prove_reported_before_retransmission(
        sent, highest_sent, observation.feedback.acks, first_report
    )
    for _ in range(ROUNDS):
        highest_arrived = highest_arrived_before(sent)
        rtt, last_arrived = _prove_once(observation, first_report, cause_end, highest_arrived)
        max_rtt = max(max_rtt, rtt)
        _prove_sole_candidates(sent, highest_sent, first_report, cause_end)
        if observation.feedback.sack_permitted:
            _prove_d_sacked(observation, cause_end, d_sack_count)
    _mark_last_candidates(sent, first_report, cause_end)
    return max_rtt, last_arrived


@inner
def _prove_once(observation, first_report, cause_end, highest_arrived):
    """One round of `prove`, ACK by ACK; limit: see `_horizons`; report: see `_reports`; above: see
    `arrived_before`."""
    sent, highest_sent, acks = (
        observation.transmissions,
        observation.highest_sent,
        observation.feedback.acks,
    )
    max_rtt = np.int64(0)
    last_arrived = np.int64(-1)  # a copy of this index or a later one has arrived
    checked = first_missing = 0  # after: the first copy of the byte that is missing, or beyond it
    missing, highest_reported = acks[0].number, max(acks[0].number, acks[0].block_high)
    newest_reported = newest_report = -1  # the last copy that a SACK block told of, and that ACK
    for j in range(1, len(acks)):
        number = acks[j].number
        if number > missing:
            cause, is_sole = _cause_of_advance(sent, acks[j], missing, last_arrived, cause_end[j])
            missing = number
            first_missing = _first_beyond(highest_sent, first_missing, number)
            begin = first_missing
            if is_sole:
                sent[cause].fate = ARRIVED
                max_rtt = max(max_rtt, acks[j].ts - sent[cause].ts)
                _narrow_causes(cause_end, j, cause)
                if highest_arrived[cause] > number:
                    cause_end[j] = min(cause_end[j], cause + 1)
        elif number == missing and acks[j].unexplained_cost >= UNEXPLAINED_DUP_ACK:
            cause = _cause_of_duplicate(
                sent, highest_sent, acks[j], highest_reported, last_arrived, cause_end[j]
            )
            if cause >= 0 and sent[cause].high == acks[j].block_high > highest_reported:
                newest_reported, newest_report = cause, j
            first_missing = _first_beyond(highest_sent, first_missing, number)
            begin = max(first_missing, last_arrived + 1)
        else:
            continue
        highest_reported = max(highest_reported, number, acks[j].block_high)
        if cause < 0 or _includes_unambiguous(sent, number, begin, cause):
            continue
        for k in range(begin, cause):
            tx = sent[k]
            if tx.low <= number < tx.high and tx.fate == UNPROVEN and first_report[k] > j:
                if not _may_be_paws_rejected(tx, acks[j]):
                    tx.fate = LOST
        last_arrived = cause
        if observation.feedback.sack_permitted and checked < last_arrived:
            _lose_unreported(sent, acks[j], first_report, checked, last_arrived, j)
            checked = last_arrived
    if newest_report >= 0 and not _is_retransmitted_before(
        sent, newest_reported, cause_end[newest_report]
    ):
        max_rtt = max(max_rtt, acks[newest_report].ts - sent[newest_reported].ts)
    return max_rtt, last_arrived


@inner
def _is_retransmitted_before(sent, k, end):
    """Whether a copy's data was retransmitted before copy `end`."""
    for i in range(k + 1, end):
        if sent[i].low < sent[k].high and sent[k].low < sent[i].high:
            return True
    return False


@inner
def _first_beyond(highest_sent, begin, number):
    """The first copy, from `after` on, up to which more than `value` was sent."""
    while begin < len(highest_sent) and highest_sent[begin] <= number:
        begin += 1
    return begin


@inner
def _narrow_causes(cause_end, j, cause):
    """ACK j was caused by this copy, so those before it by none from it on."""
    for earlier in range(j - 1, -1, -1):
        if cause_end[earlier] <= cause:
            break
        cause_end[earlier] = cause


@inner
def _lose_unreported(sent, ack, first_report, begin, end, j):
    """Sets LOST for copies that a receiver with SACK has not told of, though ACK j was for a later
    arrival than theirs."""
    for k in range(begin, end):
        tx = sent[k]
        if (
            tx.ambiguous
            and tx.fate == UNPROVEN
            and tx.low < tx.high
            and first_report[k] > j + MAX_LOST_REPORTS
        ):
            if not _may_be_paws_rejected(tx, ack):
                tx.fate = LOST


@inner
def _may_be_paws_rejected(tx, ack):
    """Whether a copy that had come before an ACK may have been thrown away for its old timestamp
    (PAWS, RFC 7323, 5.3): it was overtaken, and TS.Recent, which the ACK echoes, is newer."""
    return tx.overtaken and ack.has_ts and np.int32(ack.ts_ecr - tx.ts_val) > 0


@inner
def _includes_unambiguous(sent, number, begin, end):
    """Whether one of these copies is the only one of the byte that an ACK misses. It arrived, so
    the ACK is not due to a later copy: the mobile repeated it for reasons of its own."""
    for k in range(begin, end):
        if not sent[k].ambiguous and sent[k].low <= number < sent[k].high:
            return True
    return False


@making
def highest_arrived_before(sent):
    """int64[n]: the highest number that has certainly arrived before each copy. What comes below it
    fills a hole or comes again: it is answered at once."""
    out = np.empty(len(sent), np.int64)
    highest = NONE
    for k in range(len(sent)):
        out[k] = highest
        tx = sent[k]
        if tx.low == tx.high:
            continue  # a pure ACK bears the number of what comes next, but brings nothing
        if tx.fate == ARRIVED or (tx.fate == UNPROVEN and not tx.ambiguous):
            highest = max(highest, tx.high)
    return out


@making
def _ack_bounds(sent, acks, min_ack_delay):
    """For each ACK: how many copies may have caused it or an earlier one; the highest so far."""
    cause_end = np.empty(len(acks), np.int64)
    highest_ack = np.empty(len(acks), np.int64)
    end, highest = 0, NONE
    for j in range(len(acks)):
        while end < len(sent) and sent[end].ts + min_ack_delay <= acks[j].ts:
            end += 1
        highest = max(highest, acks[j].number)
        cause_end[j], highest_ack[j] = end, highest
    return cause_end, highest_ack


@making
def _first_reports(observation, highest_ack):
    """int64[n]: the first ACK that tells that each copy's whole range is held, in its number or in
    a SACK block; len(acks) where none does. Of a copy whose range no earlier copy has exactly, only
    by number."""
    sent, highest_sent = observation.transmissions, observation.highest_sent
    first_report = _reports_by_number(sent, highest_ack)
    if observation.feedback.sack_permitted:
        out_of_order = _out_of_order(sent, highest_sent)
        _report_by_block(
            observation, first_report, out_of_order, np.empty((2, MAX_SACK_BLOCKS, 2), np.int64)
        )
    for k in range(len(sent)):
        if sent[k].ambiguous:
            twin = first_above(highest_sent, 0, len(sent), sent[k].low)
            if sent[twin].low == sent[k].low and sent[twin].high == sent[k].high:
                first_report[k] = min(first_report[k], first_report[twin])
    return first_report


@making
def _reports_by_number(sent, highest_ack):
    """The first ACK of each copy's whole range, int64[n]; cover: see `_horizons`."""
    first_report = np.empty(len(sent), np.int64)
    j, highest = 0, NONE
    for k in range(len(sent)):
        if sent[k].high >= highest:
            highest = sent[k].high
            while j < len(highest_ack) and highest_ack[j] < highest:
                j += 1
            first_report[k] = j
        else:
            first_report[k] = first_above(highest_ack, 0, j, sent[k].high - 1)
    return first_report


@making
def _out_of_order(sent, highest_sent):
    """int64[l]: the copies that came after a higher number, retransmitted or overtaken, in order of
    their ranges."""
    out_of_order = np.empty(len(sent), np.int64)
    n = 0
    for k in range(1, len(sent)):
        if sent[k].low < highest_sent[k - 1]:
            out_of_order[n] = k
            n += 1
    low = np.empty(n, np.int64)
    for x in range(n):
        low[x] = sent[out_of_order[x]].low
    return out_of_order[:n][np.argsort(low, kind="mergesort")]


@inner
def _report_by_block(observation, first_report, out_of_order, blocks):
    """Sets report to the first ACK that has a copy's range in a SACK block, where that is sooner;
    of a block, what the ACK before had told is passed over. late: see `_late`; blocks: int64[2,
    MOST_BLOCKS, 2] to work in."""
    sent, highest_sent = observation.transmissions, observation.highest_sent
    acks, sack_edges = observation.feedback.acks, observation.feedback.sack_edges
    previous, current = blocks[0], blocks[1]
    previous_count = 0
    for j in range(len(acks)):
        current_count = min(acks[j].sack_count // 2, MAX_SACK_BLOCKS)
        for b in range(current_count):
            edge = acks[j].sack_begin + 2 * b
            low = current[b, 0] = unwrap(sack_edges[edge], acks[j].number)
            high = current[b, 1] = unwrap(sack_edges[edge + 1], acks[j].number)
            for p in range(previous_count):
                if previous[p, 0] <= low < previous[p, 1]:
                    low = previous[p, 1]
            k = first_above(highest_sent, 0, len(sent), low)
            while k < len(sent) and sent[k].low < high:
                if low <= sent[k].low and sent[k].high <= high:
                    first_report[k] = min(first_report[k], j)
                k += 1
            for x in range(_first_from(out_of_order, low, sent), len(out_of_order)):
                k = out_of_order[x]
                if sent[k].low >= high:
                    break
                if sent[k].high <= high:
                    first_report[k] = min(first_report[k], j)
        previous, current, previous_count = current, previous, current_count


@inner
def _first_from(out_of_order, low, sent):
    """The first of the late copies whose range begins at `low` or above."""
    begin, end = 0, len(out_of_order)
    while begin < end:
        middle = (begin + end) >> 1
        if sent[out_of_order[middle]].low < low:
            begin = middle + 1
        else:
            end = middle
    return begin


@inner
def _cause_of_advance(sent, ack, missing, last_arrived, cause_end):
    """(the earliest copy that may have filled what was missing, or -1; whether it is the only
    one). The echoed timestamp is that copy's (RFC 7323, 4.3), where it is any of them's."""
    for by_timestamp in (True, False):
        if by_timestamp and not ack.has_ts:
            continue
        cause, is_sole = -1, False
        for k in range(last_arrived + 1, cause_end):
            tx = sent[k]
            if tx.fate == LOST or not tx.low <= missing < tx.high:
                continue
            if by_timestamp and not (tx.has_ts and tx.ts_val == ack.ts_ecr):
                continue
            if cause >= 0:
                is_sole = False
                break
            cause, is_sole = k, True
            if not tx.ambiguous:
                break
        if cause >= 0:
            return cause, is_sole
    return -1, False


@inner
def _cause_of_duplicate(sent, highest_sent, ack, highest_reported, last_arrived, cause_end):
    """The earliest copy of another byte that may have caused a duplicate ACK, or -1. A SACK block
    that ends beyond all that was told before ends with it."""
    if ack.block_high > max(ack.block_low, highest_reported):
        k = first_above(highest_sent, 0, len(highest_sent), ack.block_high - 1)
        if last_arrived < k < cause_end and sent[k].high == ack.block_high and sent[k].fate != LOST:
            return k
    for k in range(last_arrived + 1, cause_end):
        tx = sent[k]
        if tx.fate == LOST or tx.low == tx.high or tx.low <= ack.number < tx.high:
            continue
        if ack.block_high > ack.block_low and (
            tx.high <= ack.block_low or ack.block_high <= tx.low
        ):
            continue
        return k
    return -1


@inner
def _prove_sole_candidates(sent, highest_sent, first_report, cause_end):
    """ARRIVED for copies of what was reported when no other copy of it can have arrived."""
    n, m = len(sent), len(cause_end)
    for k in range(n):
        tx = sent[k]
        if not tx.ambiguous or tx.fate != UNPROVEN or tx.low == tx.high:
            continue
        j = first_report[k]
        if j == m or k >= cause_end[j]:
            continue
        is_sole = True
        for i in range(first_above(highest_sent, 0, n, tx.low), cause_end[j]):
            other = sent[i]
            if i != k and other.fate != LOST and other.low < tx.high and tx.low < other.high:
                is_sole = False
                break
        if is_sole:
            tx.fate = ARRIVED


@inner
def _prove_reported_before_retransmission(sent, highest_sent, acks, first_report):
    """ARRIVED for copies of what was reported before any other copy of it passed Gi. They may have
    been overtaken on the access side, which order alone would take for a loss."""
    n = len(sent)
    for k in range(n):
        tx = sent[k]
        if not tx.ambiguous or tx.low == tx.high or first_report[k] == len(acks):
            continue
        reported_ts = acks[first_report[k]].ts
        is_sole = tx.ts <= reported_ts
        for i in range(first_above(highest_sent, 0, n, tx.low), n):
            if not is_sole or sent[i].ts > reported_ts:
                break
            is_sole = i == k or sent[i].high <= tx.low or tx.high <= sent[i].low
        if is_sole:
            tx.fate = ARRIVED


@inner
def _prove_d_sacked(observation, cause_end, d_sack_count):
    """ARRIVED for all copies of what a D-SACK (RFC 2883) says came once more, when there are no
    more of them than have come by then. again: int64[n] to work in."""
    sent, highest_sent = observation.transmissions, observation.highest_sent
    acks, sack_edges = observation.feedback.acks, observation.feedback.sack_edges
    n = len(sent)
    d_sack_count[:] = 0
    for j in range(len(acks)):
        low, high = acks[j].block_low, acks[j].block_high
        edge = acks[j].sack_begin
        if high <= low or not is_d_sack(
            sack_edges[edge : edge + acks[j].sack_count], acks[j].number
        ):
            continue
        first = first_above(highest_sent, 0, n, low)
        if first == n or cause_end[j] - first > MAX_D_SACK_SEARCH:
            continue
        d_sack_count[first] += 1
        candidates = 0
        for k in range(first, cause_end[j]):
            tx = sent[k]
            candidates += tx.fate != LOST and tx.low < high and low < tx.high
        if candidates <= d_sack_count[first] + 1:
            for k in range(first, cause_end[j]):
                tx = sent[k]
                if tx.fate == UNPROVEN and tx.low < high and low < tx.high:
                    tx.fate = ARRIVED


@inner
def _mark_last_candidates(sent, first_report, cause_end):
    """Sets copies.last: no later copy of the same can have arrived before it was reported."""
    for k in range(len(sent)):
        tx = sent[k]
        if (
            not tx.ambiguous
            or tx.fate != UNPROVEN
            or tx.low == tx.high
            or first_report[k] == len(cause_end)
        ):
            continue
        tx.last_candidate = k < cause_end[first_report[k]]
        for i in range(k + 1, cause_end[first_report[k]]):
            other = sent[i]
            if other.fate != LOST and other.low < tx.high and tx.low < other.high:
                tx.last_candidate = False
                break
