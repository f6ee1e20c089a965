"""What the order of packets alone proves of their fate.

The access link keeps a user's packets in order. So an ACK that proves a copy's arrival decides the
fate of all copies sent before it: what the receiver then still missed was lost, and what it then
had can only have come with copies sent before.

    Gi to mobile   1  2  3  4  ...  2'        ACK up to 4 (exclusive) and no further: 2' arrived,
    mobile to Gi      a2 a2      ...   a4     and at that time 4 had not: the copy of 4 sent before
                                              2' was lost; 3 had, by the only copy there was.
"""

import numpy as np
from numba import njit

from spark_jobs.estimators.receiver import STRAY_ACK
from spark_jobs.estimators.sequence import NONE, first_above

UNPROVEN, LOST, ARRIVED = 0, 1, 2
ROUNDS = 2
"""Each round's proofs narrow the next one's choices; more than two change next to nothing."""


@njit(cache=True, nogil=True)
def prove(copies, top, acks, soonest):
    """Sets copies.fate to LOST or ARRIVED where order alone proves it.

    copies COPY[n]; top int64[n]: the highest number seen up to each; acks ACK_SEEN[m]; soonest: no
    ACK comes earlier than this after a copy (µs).

    Among the copies that an ACK may be due to (the earliest and the latest that time and order
    allow), only bounds are used: an ACK that advances is due to a copy of the byte that was
    missing; a pure duplicate, to a copy of another byte, of its first SACK block if it has one.
    """
    n, m = len(copies), len(acks)
    limit, cover = _horizons(copies, acks, soonest)
    for _ in range(ROUNDS):
        reached = -1  # a copy of this index or a later one has arrived
        missing = acks[0].value
        for j in range(1, m):
            value = acks[j].value
            if value > missing:
                cause, only = _cause_of_advance(copies, acks[j], missing, reached, limit[j])
                begin = first_above(top, 0, n, value)
                missing = value
                if only:
                    copies[cause].fate = ARRIVED
                    for earlier in range(j - 1, -1, -1):
                        if limit[earlier] <= cause:
                            break
                        limit[earlier] = cause
            elif value == missing and acks[j].stray >= STRAY_ACK:
                cause = _cause_of_duplicate(copies, acks[j], reached, limit[j])
                begin = max(first_above(top, 0, n, value), reached + 1)
            else:
                continue
            if cause < 0:
                continue
            for k in range(begin, cause):
                if copies[k].low <= value < copies[k].high and copies[k].fate == UNPROVEN:
                    copies[k].fate = LOST
            reached = cause
        _only_copies(copies, top, cover, limit)


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _cause_of_duplicate(copies, ack, reached, limit):
    """The earliest copy of another byte that may have caused a duplicate ACK, or -1."""
    for k in range(reached + 1, limit):
        c = copies[k]
        if c.fate == LOST or c.low == c.high or c.low <= ack.value < c.high:
            continue
        if ack.block_high > ack.block_low and (
            c.high <= ack.block_low or ack.block_high <= c.low
        ):  # fmt: skip
            continue
        return k
    return -1


@njit(cache=True, nogil=True)
def _only_copies(copies, top, cover, limit):
    """ARRIVED for copies of what was acknowledged when no other copy of it can have arrived."""
    n, m = len(copies), len(cover)
    for k in range(n):
        c = copies[k]
        if not c.ambiguous or c.fate != UNPROVEN or c.low == c.high:
            continue
        j = first_above(cover, 0, m, c.high - 1)
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
