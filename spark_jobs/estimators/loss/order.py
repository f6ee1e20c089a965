"""Fates of transmissions that the order of packets alone proves.

The access link keeps a user's packets in order. So an ACK that proves the arrival of a transmission
also decides the fates of all earlier ones. Data that the receiver still missed at that time was
lost. Data that it had can only have come with earlier transmissions.

    Gi to mobile   1  2  3  4  ...  2'        a4 acknowledges all below 4, so 2' arrived. At that
    mobile to Gi      a2 a2      ...   a4     time 4 had not arrived. So the transmission of 4
                                              before 2' was lost. 3 had arrived, with its only
                                              transmission.

One rule comes before order: data that is acknowledged before its retransmission had arrived, even
if later data overtook it on the access side.
"""

import numpy as np

from spark_jobs.compiled import inner, making
from spark_jobs.compiled.arrays import true_indices
from spark_jobs.estimators.loss.costs import UNEXPLAINED_DUP_ACK
from spark_jobs.estimators.loss.observation import ARRIVED, LOST, UNPROVEN
from spark_jobs.estimators.loss.sack import is_d_sack
from spark_jobs.estimators.sequence import MAX_WORK, NONE, first_above, search_end, unwrap

MAX_SACK_BLOCKS = 4
"""Maximum number of SACK blocks in a segment (RFC 2018, 3)."""
MAX_LOST_REPORTS = 1
"""Maximum number of ACKs lost in a row that may have reported an arrival.

A receiver with SACK reports an arrival at once, and if this ACK is lost, with the next one. A
transmission was lost if neither the ACK for a later arrival nor so many ACKs after it report it.
"""
ROUNDS = 2
"""Number of rounds: the proofs of one round narrow the choices of the next.

More than two change next to nothing.
"""


@making
def prove_fates(observation, min_ack_delay):
    """Set the fate of transmissions to LOST or ARRIVED if order alone proves it.

    observation: a connection's Observation; min_ack_delay: minimum time from a transmission to its
    ACK (µs).

    The proofs use only bounds: the earliest and the latest transmission that may have caused an
    ACK, by time and order. An ACK that advances was caused by a transmission of the byte that was
    missing. A pure duplicate ACK was caused by a transmission of another byte; if it has SACK
    blocks, of its first one. Data that a SACK block reported had arrived, even if the mobile drops
    it later (RFC 2018, 8).

    Returns two values. The first is the longest RTT of a transmission whose ACK is certain (µs).
    The second is the index of a transmission of which this is proven: it or a later one had arrived
    when the last ACK was sent (-1: there is none). The fates of all transmissions before it are
    decided.
    """
    sent, highest_sent = observation.transmissions, observation.highest_sent
    cause_end, highest_ack = _ack_bounds(sent, observation.feedback.acks, min_ack_delay)
    steps_left = np.full(1, MAX_WORK * (len(sent) + len(cause_end)))
    first_report = _first_reports(observation, highest_ack, steps_left)
    d_sack_count = np.empty(len(sent), np.int64)
    max_rtt, last_arrived = np.int64(0), np.int64(-1)
    _prove_reported_before_retransmission(
        sent, highest_sent, observation.feedback.acks, first_report, steps_left
    )
    for _ in range(ROUNDS):
        highest_arrived = highest_arrived_before(sent)
        rtt, last_arrived = _prove_once(
            observation, first_report, cause_end, highest_arrived, steps_left
        )
        max_rtt = max(max_rtt, rtt)
        _prove_sole_candidates(sent, highest_sent, first_report, cause_end, steps_left)
        if observation.feedback.sack_permitted:
            _prove_d_sacked(observation, cause_end, d_sack_count, steps_left)
    _mark_last_candidates(sent, first_report, cause_end, steps_left)
    return max_rtt, last_arrived


@inner
def _prove_once(observation, first_report, cause_end, highest_arrived, steps_left):
    """Prove fates in one round, ACK by ACK; return values as in `prove_fates`.

    cause_end: see `_ack_bounds`; first_report: see `_first_reports`; highest_arrived: see
    `highest_arrived_before`; steps_left: int64[1], see `sequence.search_steps`.
    """
    sent, highest_sent, acks = (
        observation.transmissions,
        observation.highest_sent,
        observation.feedback.acks,
    )
    max_rtt = np.int64(0)
    last_arrived = np.int64(-1)  # this transmission or a later one has arrived
    # first_missing: the first transmission of the missing byte, or of later data.
    # first_other: no transmission before it can have caused a duplicate ACK.
    checked = first_missing = first_other = 0
    missing, highest_reported = acks[0].number, max(acks[0].number, acks[0].block_high)
    # The newest transmission that a SACK block reported, and the ACK with this block.
    newest_reported = newest_report = -1
    for j in range(1, len(acks)):
        number = acks[j].number
        if number > missing:
            # No transmission before first_missing has the byte that was missing.
            begin = max(first_missing, last_arrived + 1)
            candidates = begin, cause_end[j]
            cause, is_sole = _cause_of_advance(sent, acks[j], missing, candidates, steps_left)
            missing, first_other = number, 0
            first_missing = _first_beyond(highest_sent, first_missing, number)
            begin = first_missing
            if is_sole:
                sent[cause].fate = ARRIVED
                max_rtt = max(max_rtt, acks[j].ts - sent[cause].ts)
                _narrow_causes(cause_end, j, cause)
                if highest_arrived[cause] > number:
                    cause_end[j] = min(cause_end[j], cause + 1)
        elif number == missing and acks[j].unexplained_cost >= UNEXPLAINED_DUP_ACK:
            begin = max(first_other, last_arrived + 1)
            candidates = begin, cause_end[j]
            cause, first_other = _cause_of_duplicate(
                sent, highest_sent, acks[j], highest_reported, candidates, steps_left
            )
            if cause >= 0 and sent[cause].high == acks[j].block_high > highest_reported:
                newest_reported, newest_report = cause, j
            first_missing = _first_beyond(highest_sent, first_missing, number)
            begin = max(first_missing, last_arrived + 1)
        else:
            continue
        highest_reported = max(highest_reported, number, acks[j].block_high)
        if cause < 0 or search_end(begin, cause, steps_left[0]) < cause:
            continue
        steps_left[0] -= max(cause - begin, 0)
        if _includes_unambiguous(sent, number, begin, cause):
            continue
        for k in range(begin, cause):
            tx = sent[k]
            if tx.low <= number < tx.high and tx.fate == UNPROVEN and first_report[k] > j:
                if not _may_be_paws_rejected(tx, acks[j]):
                    tx.fate = LOST
        last_arrived = cause
        # Without steps left, reports may be missed.
        if observation.feedback.sack_permitted and checked < last_arrived and steps_left[0] >= 0:
            _lose_unreported(sent, acks[j], first_report, checked, last_arrived, j)
            checked = last_arrived
    if newest_report >= 0 and not _is_retransmitted_before(
        sent, newest_reported, cause_end[newest_report]
    ):
        max_rtt = max(max_rtt, acks[newest_report].ts - sent[newest_reported].ts)
    return max_rtt, last_arrived


@inner
def _is_retransmitted_before(sent, k, end):
    """Return whether data of transmission k was retransmitted before transmission `end`."""
    for i in range(k + 1, end):
        if sent[i].low < sent[k].high and sent[k].low < sent[i].high:
            return True
    return False


@inner
def _first_beyond(highest_sent, begin, number):
    """Return the first transmission, from `begin` on, up to which data beyond `number` was sent."""
    while begin < len(highest_sent) and highest_sent[begin] <= number:
        begin += 1
    return begin


@inner
def _narrow_causes(cause_end, j, cause):
    """Limit the causes of the ACKs before ACK j to transmissions before the cause of ACK j."""
    for earlier in range(j - 1, -1, -1):
        if cause_end[earlier] <= cause:
            break
        cause_end[earlier] = cause


@inner
def _lose_unreported(sent, ack, first_report, begin, end, j):
    """Set transmissions to LOST that a receiver with SACK has not reported.

    ACK j, `ack`, was caused by a later arrival than those in [begin, end).
    """
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
    """Return whether PAWS may have made the receiver drop a transmission before an ACK.

    This is so if another transmission overtook it and TS.Recent, which the ACK echoes, is newer
    (RFC 7323, 5.3).
    """
    return tx.overtaken and ack.has_ts and np.int32(ack.ts_ecr - tx.ts_val) > 0


@inner
def _includes_unambiguous(sent, number, begin, end):
    """Return whether a transmission in [begin, end) is the only one of the byte that an ACK misses.

    This transmission arrived. So no later transmission caused the ACK: the mobile repeated it for
    reasons of its own.
    """
    for k in range(begin, end):
        if not sent[k].ambiguous and sent[k].low <= number < sent[k].high:
            return True
    return False


@making
def highest_arrived_before(sent):
    """Return the end of the highest data that certainly arrived before each transmission, int64[n].

    A transmission that ends below this fills a hole or is known already. The receiver answers it at
    once.
    """
    out = np.empty(len(sent), np.int64)
    highest = NONE
    for k in range(len(sent)):
        out[k] = highest
        tx = sent[k]
        if tx.low == tx.high:
            continue  # a pure ACK has the next sequence number, but no data
        if tx.fate == ARRIVED or (tx.fate == UNPROVEN and not tx.ambiguous):
            highest = max(highest, tx.high)
    return out


@making
def _ack_bounds(sent, acks, min_ack_delay):
    """Return bounds of the cause of each ACK, and the highest acknowledgment number so far.

    The bound is the number of transmissions that may have caused the ACK or an earlier one. Both
    are int64[m].
    """
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
def _first_reports(observation, highest_ack, steps_left):
    """Return the first ACK that reports that each transmission's whole range arrived, int64[n].

    The ACK reports the range by its number or by a SACK block. The index is len(acks) if no ACK
    reports it. If a later transmission's range is exactly that of the first one, the first one's
    report counts for it, too.
    """
    sent, highest_sent = observation.transmissions, observation.highest_sent
    first_report = _reports_by_number(sent, highest_ack)
    if observation.feedback.sack_permitted:
        _report_by_block(observation, first_report, steps_left)
    for k in range(len(sent)):
        if sent[k].ambiguous:
            twin = first_above(highest_sent, 0, len(sent), sent[k].low)
            if sent[twin].low == sent[k].low and sent[twin].high == sent[k].high:
                first_report[k] = min(first_report[k], first_report[twin])
    return first_report


@making
def _reports_by_number(sent, highest_ack):
    """Return the first ACK whose number covers each transmission's whole range, int64[n].

    highest_ack: see `_ack_bounds`.
    """
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
def _report_by_block(observation, first_report, steps_left):
    """Lower first_report to the first ACK with a transmission's range in a SACK block.

    Only ambiguous transmissions are looked at. Those that were reported are passed over later.
    """
    sent = observation.transmissions
    acks, sack_edges = observation.feedback.acks, observation.feedback.sack_edges
    order = true_indices(sent["ambiguous"])
    order = order[np.argsort(sent["low"][order], kind="mergesort")]
    following = np.arange(len(order) + 1)
    for j in range(len(acks)):
        for b in range(min(acks[j].sack_count // 2, MAX_SACK_BLOCKS)):
            edge = acks[j].sack_begin + 2 * b
            low = unwrap(sack_edges[edge], acks[j].number)
            high = unwrap(sack_edges[edge + 1], acks[j].number)
            x = _first_open(following, _first_from(order, low, sent))
            for _ in range(search_end(0, len(order) + 1, steps_left[0])):
                steps_left[0] -= 1
                if x == len(order) or sent[order[x]].low >= high:
                    break
                k = order[x]
                if sent[k].high <= high:
                    first_report[k] = min(first_report[k], j)
                if first_report[k] <= j:
                    following[x] = x + 1
                x = _first_open(following, x + 1)


@inner
def _first_open(following, k):
    """Return the first index from k on that is open: whose following one is itself.

    Shortens the way to it for the next search (path halving).
    """
    while following[k] != k:
        following[k] = following[following[k]]
        k = following[k]
    return k


@inner
def _first_from(order, low, sent):
    """Return the first of the ordered transmissions whose range begins at `low` or above."""
    begin, end = 0, len(order)
    while begin < end:
        middle = (begin + end) >> 1
        if sent[order[middle]].low < low:
            begin = middle + 1
        else:
            end = middle
    return begin


@inner
def _cause_of_advance(sent, ack, missing, candidates, steps_left):
    """Return the earliest transmission that may have brought the byte `missing`.

    candidates: the first transmission that may have done so, and the one after the last.
    Also returns whether it is the only one. The transmission is -1 if there is none. If one has the
    timestamp that the ACK echoes, it is the cause (RFC 7323, 4.3).
    """
    begin, cause_end = candidates
    for by_timestamp in (True, False):
        if by_timestamp and not ack.has_ts:
            continue
        cause, is_sole = -1, False
        end = search_end(begin, cause_end, steps_left[0])
        for k in range(begin, end):
            steps_left[0] -= 1
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
            return cause, is_sole and (end == cause_end or not sent[cause].ambiguous)
    return -1, False


@inner
def _cause_of_duplicate(sent, highest_sent, ack, highest_reported, candidates, steps_left):
    """Return the earliest transmission of another byte that may have caused a duplicate ACK, or -1.

    candidates: the first transmission that may have caused it, and the one after the last.
    If a SACK block ends beyond all data reported before, the transmission that ends there is the
    cause. The second value is the first transmission of another byte, whatever the SACK block says.
    """
    begin, cause_end = candidates
    if ack.block_high > max(ack.block_low, highest_reported):
        k = first_above(highest_sent, 0, len(highest_sent), ack.block_high - 1)
        if begin <= k < cause_end and sent[k].high == ack.block_high and sent[k].fate != LOST:
            return k, begin
    first_other, end = -1, search_end(begin, cause_end, steps_left[0])
    for k in range(begin, end):
        steps_left[0] -= 1
        tx = sent[k]
        if tx.fate == LOST or tx.low == tx.high or tx.low <= ack.number < tx.high:
            continue
        first_other = k if first_other < 0 else first_other
        if ack.block_high > ack.block_low and (
            tx.high <= ack.block_low or ack.block_high <= tx.low
        ):
            continue
        return k, first_other
    return -1, first_other if first_other >= 0 else end


@inner
def _prove_sole_candidates(sent, highest_sent, first_report, cause_end, steps_left):
    """Set transmissions to ARRIVED that alone can have brought what was reported."""
    n, m = len(sent), len(cause_end)
    for k in range(n):
        tx = sent[k]
        if not tx.ambiguous or tx.fate != UNPROVEN or tx.low == tx.high:
            continue
        j = first_report[k]
        if j == m or k >= cause_end[j]:
            continue
        first = first_above(highest_sent, 0, n, tx.low)
        end = search_end(first, cause_end[j], steps_left[0])
        is_sole = end == cause_end[j]
        for i in range(first, end):
            steps_left[0] -= 1
            other = sent[i]
            if i != k and other.fate != LOST and other.low < tx.high and tx.low < other.high:
                is_sole = False
                break
        if is_sole:
            tx.fate = ARRIVED


@inner
def _prove_reported_before_retransmission(sent, highest_sent, acks, first_report, steps_left):
    """Set transmissions to ARRIVED whose data was reported before it was retransmitted.

    Later data may have overtaken them on the access side. Order alone would take them as lost.
    """
    n = len(sent)
    for k in range(n):
        tx = sent[k]
        if not tx.ambiguous or tx.low == tx.high or first_report[k] == len(acks):
            continue
        reported_ts = acks[first_report[k]].ts
        is_sole = tx.ts <= reported_ts
        first = first_above(highest_sent, 0, n, tx.low)
        end = search_end(first, n, steps_left[0])
        for i in range(first, end):
            if not is_sole or sent[i].ts > reported_ts:
                break
            steps_left[0] -= 1
            is_sole = i == k or sent[i].high <= tx.low or tx.high <= sent[i].low
        else:
            is_sole &= end == n
        if is_sole:
            tx.fate = ARRIVED


@inner
def _prove_d_sacked(observation, cause_end, d_sack_count, steps_left):
    """Set transmissions to ARRIVED if D-SACKs report that all transmissions of their data arrived.

    This is so if no more transmissions of the data have passed Gi than the D-SACKs (RFC 2883)
    require. d_sack_count: int64[n] to work in.
    """
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
        if first == n or search_end(first, cause_end[j], steps_left[0]) < cause_end[j]:
            continue
        steps_left[0] -= max(cause_end[j] - first, 0)
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
def _mark_last_candidates(sent, first_report, cause_end, steps_left):
    """Set `last_candidate` of transmissions.

    It is set if no later transmission of the same data can have arrived before the data was
    reported.
    """
    for k in range(len(sent)):
        tx = sent[k]
        if (
            not tx.ambiguous
            or tx.fate != UNPROVEN
            or tx.low == tx.high
            or first_report[k] == len(cause_end)
        ):
            continue
        end = search_end(k, cause_end[first_report[k]], steps_left[0])
        tx.last_candidate = k < end == cause_end[first_report[k]]
        for i in range(k + 1, end):
            steps_left[0] -= 1
            other = sent[i]
            if other.fate != LOST and other.low < tx.high and tx.low < other.high:
                tx.last_candidate = False
                break
