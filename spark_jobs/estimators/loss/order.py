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
from spark_jobs.estimators.loss.costs import STRAY_ACK
from spark_jobs.estimators.loss.exchange import ARRIVED, LOST, UNPROVEN
from spark_jobs.estimators.loss.sack import is_d_sack
from spark_jobs.estimators.sequence import NONE, first_above, unwrap

MOST_BLOCKS = 4
"""SACK blocks in a segment (RFC 2018, 3)."""
UNTOLD = 1
"""A receiver with SACK tells of an arrival at once; if that ACK is lost, in the next one. What is
told of neither by the ACK for a later arrival nor by so many ACKs after it was lost."""
MOST_BETWEEN = 4096
"""A D-SACK of data that so many copies followed is passed over."""
ROUNDS = 2
"""Each round's proofs narrow the next one's choices; more than two change next to nothing."""


@making
def prove(exchange, soonest):
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
    copies, top = exchange.copies, exchange.top
    limit, cover = _horizons(copies, exchange.heard.acks, soonest)
    report = _reports(exchange, cover)
    again = np.empty(len(copies), np.int64)
    longest, reached = np.int64(0), np.int64(-1)
    _told_before_sent_again(copies, top, exchange.heard.acks, report)
    for _ in range(ROUNDS):
        above = arrived_before(copies)
        certain, reached = _prove_once(exchange, report, limit, above)
        longest = max(longest, certain)
        _only_copies(copies, top, report, limit)
        if exchange.heard.sack:
            _copies_that_came_again(exchange, limit, again)
    _last_copies(copies, report, limit)
    return longest, reached


@inner
def _prove_once(exchange, report, limit, above):
    """One round of `prove`, ACK by ACK; limit: see `_horizons`; report: see `_reports`; above: see
    `arrived_before`."""
    copies, top, acks = exchange.copies, exchange.top, exchange.heard.acks
    longest = np.int64(0)
    reached = np.int64(-1)  # a copy of this index or a later one has arrived
    passed = after = 0  # after: the first copy of the byte that is missing, or beyond it
    missing, told = acks[0].value, max(acks[0].value, acks[0].block_high)
    newest = by = -1  # the last copy that a SACK block told of, and that ACK
    for j in range(1, len(acks)):
        value = acks[j].value
        if value > missing:
            cause, only = _cause_of_advance(copies, acks[j], missing, reached, limit[j])
            missing = value
            after = _first_copy_beyond(top, after, value)
            begin = after
            if only:
                copies[cause].fate = ARRIVED
                longest = max(longest, acks[j].ts - copies[cause].ts)
                _narrow(limit, j, cause)
                if above[cause] > value:
                    limit[j] = min(limit[j], cause + 1)
        elif value == missing and acks[j].stray >= STRAY_ACK:
            cause = _cause_of_duplicate(copies, top, acks[j], told, reached, limit[j])
            if cause >= 0 and copies[cause].high == acks[j].block_high > told:
                newest, by = cause, j
            after = _first_copy_beyond(top, after, value)
            begin = max(after, reached + 1)
        else:
            continue
        told = max(told, value, acks[j].block_high)
        if cause < 0 or _only_copy_between(copies, value, begin, cause):
            continue
        for k in range(begin, cause):
            c = copies[k]
            if c.low <= value < c.high and c.fate == UNPROVEN and report[k] > j:
                if not _may_be_refused(c, acks[j]):
                    c.fate = LOST
        reached = cause
        if exchange.heard.sack and passed < reached:
            _lose_untold(copies, acks[j], report, passed, reached, j)
            passed = reached
    if by >= 0 and not _again_between(copies, newest, limit[by]):
        longest = max(longest, acks[by].ts - copies[newest].ts)
    return longest, reached


@inner
def _again_between(copies, k, end):
    """Whether a copy's data was retransmitted before copy `end`."""
    for o in range(k + 1, end):
        if copies[o].low < copies[k].high and copies[k].low < copies[o].high:
            return True
    return False


@inner
def _first_copy_beyond(top, after, value):
    """The first copy, from `after` on, up to which more than `value` was sent."""
    while after < len(top) and top[after] <= value:
        after += 1
    return after


@inner
def _narrow(limit, j, cause):
    """ACK j was caused by this copy, so those before it by none from it on."""
    for earlier in range(j - 1, -1, -1):
        if limit[earlier] <= cause:
            break
        limit[earlier] = cause


@inner
def _lose_untold(copies, ack, report, begin, end, j):
    """Sets LOST for copies that a receiver with SACK has not told of, though ACK j was for a later
    arrival than theirs."""
    for k in range(begin, end):
        c = copies[k]
        if c.ambiguous and c.fate == UNPROVEN and c.low < c.high and report[k] > j + UNTOLD:
            if not _may_be_refused(c, ack):
                c.fate = LOST


@inner
def _may_be_refused(c, ack):
    """Whether a copy that had come before an ACK may have been thrown away for its old timestamp
    (PAWS, RFC 7323, 5.3): it was overtaken, and TS.Recent, which the ACK echoes, is newer."""
    return c.old and ack.has_ts and np.int32(ack.ecr - c.ts_val) > 0


@inner
def _only_copy_between(copies, value, begin, end):
    """Whether one of these copies is the only one of the byte that an ACK misses. It arrived, so
    the ACK is not due to a later copy: the mobile repeated it for reasons of its own."""
    for k in range(begin, end):
        if not copies[k].ambiguous and copies[k].low <= value < copies[k].high:
            return True
    return False


@making
def arrived_before(copies):
    """int64[n]: the highest number that has certainly arrived before each copy. What comes below it
    fills a hole or comes again: it is answered at once."""
    out = np.empty(len(copies), np.int64)
    highest = NONE
    for k in range(len(copies)):
        out[k] = highest
        c = copies[k]
        if c.low == c.high:
            continue  # a pure ACK bears the number of what comes next, but brings nothing
        if c.fate == ARRIVED or (c.fate == UNPROVEN and not c.ambiguous):
            highest = max(highest, c.high)
    return out


@making
def _horizons(copies, acks, soonest):
    """For each ACK: how many copies may have caused it or an earlier one; the highest so far."""
    limit = np.empty(len(acks), np.int64)
    cover = np.empty(len(acks), np.int64)
    sent, highest = 0, NONE
    for j in range(len(acks)):
        while sent < len(copies) and copies[sent].ts + soonest <= acks[j].ts:
            sent += 1
        highest = max(highest, acks[j].value)
        limit[j], cover[j] = sent, highest
    return limit, cover


@making
def _reports(exchange, cover):
    """int64[n]: the first ACK that tells that each copy's whole range is held, in its number or in
    a SACK block; len(acks) where none does. Of a copy whose range no earlier copy has exactly, only
    by number."""
    copies, top = exchange.copies, exchange.top
    report = _reports_by_number(copies, cover)
    if exchange.heard.sack:
        late = _late(copies, top)
        _report_by_block(exchange, report, late, np.empty((2, MOST_BLOCKS, 2), np.int64))
    for k in range(len(copies)):
        if copies[k].ambiguous:
            same = first_above(top, 0, len(copies), copies[k].low)
            if copies[same].low == copies[k].low and copies[same].high == copies[k].high:
                report[k] = min(report[k], report[same])
    return report


@making
def _reports_by_number(copies, cover):
    """The first ACK of each copy's whole range, int64[n]; cover: see `_horizons`."""
    report = np.empty(len(copies), np.int64)
    told, highest = 0, NONE
    for k in range(len(copies)):
        if copies[k].high >= highest:
            highest = copies[k].high
            while told < len(cover) and cover[told] < highest:
                told += 1
            report[k] = told
        else:
            report[k] = first_above(cover, 0, told, copies[k].high - 1)
    return report


@making
def _late(copies, top):
    """int64[l]: the copies that came after a higher number, retransmitted or overtaken, in order of
    their ranges."""
    late = np.empty(len(copies), np.int64)
    n = 0
    for k in range(1, len(copies)):
        if copies[k].low < top[k - 1]:
            late[n] = k
            n += 1
    low = np.empty(n, np.int64)
    for x in range(n):
        low[x] = copies[late[x]].low
    return late[:n][np.argsort(low, kind="mergesort")]


@inner
def _report_by_block(exchange, report, late, blocks):
    """Sets report to the first ACK that has a copy's range in a SACK block, where that is sooner;
    of a block, what the ACK before had told is passed over. late: see `_late`; blocks: int64[2,
    MOST_BLOCKS, 2] to work in."""
    copies, top = exchange.copies, exchange.top
    acks, edges = exchange.heard.acks, exchange.heard.edges
    old, new = blocks[0], blocks[1]
    olds = 0
    for j in range(len(acks)):
        news = min(acks[j].sack_count // 2, MOST_BLOCKS)
        for b in range(news):
            at = acks[j].sack_at + 2 * b
            low = new[b, 0] = unwrap(edges[at], acks[j].value)
            high = new[b, 1] = unwrap(edges[at + 1], acks[j].value)
            for o in range(olds):
                if old[o, 0] <= low < old[o, 1]:
                    low = old[o, 1]
            k = first_above(top, 0, len(copies), low)
            while k < len(copies) and copies[k].low < high:
                if low <= copies[k].low and copies[k].high <= high:
                    report[k] = min(report[k], j)
                k += 1
            for x in range(_first_from(late, low, copies), len(late)):
                k = late[x]
                if copies[k].low >= high:
                    break
                if copies[k].high <= high:
                    report[k] = min(report[k], j)
        old, new, olds = new, old, news


@inner
def _first_from(late, low, copies):
    """The first of the late copies whose range begins at `low` or above."""
    begin, end = 0, len(late)
    while begin < end:
        middle = (begin + end) >> 1
        if copies[late[middle]].low < low:
            begin = middle + 1
        else:
            end = middle
    return begin


@inner
def _cause_of_advance(copies, ack, missing, reached, limit):
    """(the earliest copy that may have filled what was missing, or -1; whether it is the only
    one). The echoed timestamp is that copy's (RFC 7323, 4.3), where it is any of them's."""
    for by_timestamp in (True, False):
        if by_timestamp and not ack.has_ts:
            continue
        cause, only = -1, False
        for k in range(reached + 1, limit):
            c = copies[k]
            if c.fate == LOST or not c.low <= missing < c.high:
                continue
            if by_timestamp and not (c.has_ts and c.ts_val == ack.ecr):
                continue
            if cause >= 0:
                only = False
                break
            cause, only = k, True
            if not c.ambiguous:
                break
        if cause >= 0:
            return cause, only
    return -1, False


@inner
def _cause_of_duplicate(copies, top, ack, told, reached, limit):
    """The earliest copy of another byte that may have caused a duplicate ACK, or -1. A SACK block
    that ends beyond all that was told before ends with it."""
    if ack.block_high > max(ack.block_low, told):
        k = first_above(top, 0, len(top), ack.block_high - 1)
        if reached < k < limit and copies[k].high == ack.block_high and copies[k].fate != LOST:
            return k
    for k in range(reached + 1, limit):
        c = copies[k]
        if c.fate == LOST or c.low == c.high or c.low <= ack.value < c.high:
            continue
        if ack.block_high > ack.block_low and (c.high <= ack.block_low or ack.block_high <= c.low):
            continue
        return k
    return -1


@inner
def _only_copies(copies, top, report, limit):
    """ARRIVED for copies of what was reported when no other copy of it can have arrived."""
    n, m = len(copies), len(limit)
    for k in range(n):
        c = copies[k]
        if not c.ambiguous or c.fate != UNPROVEN or c.low == c.high:
            continue
        j = report[k]
        if j == m or k >= limit[j]:
            continue
        alone = True
        for o in range(first_above(top, 0, n, c.low), limit[j]):
            other = copies[o]
            if o != k and other.fate != LOST and other.low < c.high and c.low < other.high:
                alone = False
                break
        if alone:
            c.fate = ARRIVED


@inner
def _told_before_sent_again(copies, top, acks, report):
    """ARRIVED for copies of what was reported before any other copy of it passed Gi. They may have
    been overtaken on the access side, which order alone would take for a loss."""
    n = len(copies)
    for k in range(n):
        c = copies[k]
        if not c.ambiguous or c.low == c.high or report[k] == len(acks):
            continue
        told = acks[report[k]].ts
        alone = c.ts <= told
        for o in range(first_above(top, 0, n, c.low), n):
            if not alone or copies[o].ts > told:
                break
            alone = o == k or copies[o].high <= c.low or c.high <= copies[o].low
        if alone:
            c.fate = ARRIVED


@inner
def _copies_that_came_again(exchange, limit, again):
    """ARRIVED for all copies of what a D-SACK (RFC 2883) says came once more, when there are no
    more of them than have come by then. again: int64[n] to work in."""
    copies, top = exchange.copies, exchange.top
    acks, edges = exchange.heard.acks, exchange.heard.edges
    n = len(copies)
    again[:] = 0
    for j in range(len(acks)):
        low, high = acks[j].block_low, acks[j].block_high
        at = acks[j].sack_at
        if high <= low or not is_d_sack(edges[at : at + acks[j].sack_count], acks[j].value):
            continue
        first = first_above(top, 0, n, low)
        if first == n or limit[j] - first > MOST_BETWEEN:
            continue
        again[first] += 1
        possible = 0
        for k in range(first, limit[j]):
            c = copies[k]
            possible += c.fate != LOST and c.low < high and low < c.high
        if possible <= again[first] + 1:
            for k in range(first, limit[j]):
                c = copies[k]
                if c.fate == UNPROVEN and c.low < high and low < c.high:
                    c.fate = ARRIVED


@inner
def _last_copies(copies, report, limit):
    """Sets copies.last: no later copy of the same can have arrived before it was reported."""
    for k in range(len(copies)):
        c = copies[k]
        if not c.ambiguous or c.fate != UNPROVEN or c.low == c.high or report[k] == len(limit):
            continue
        c.last = k < limit[report[k]]
        for o in range(k + 1, limit[report[k]]):
            other = copies[o]
            if other.fate != LOST and other.low < c.high and c.low < other.high:
                c.last = False
                break
