"""A segment that the server sends: new, overtaken, or retransmitted, and then why.

What comes at once after an ACK answers it; what comes when none was heard for longer than an
answer takes, the timer sent. Where both may be, the state decides: a sender that heard of no loss
waits for its timer; one that is repairing a loss answers ACKs, unless it sends the oldest segment
once more when the timer was due.
"""

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators import ip_ids
from spark_jobs.estimators.sender import flight, limits, state, timer, window
from spark_jobs.estimators.sender.state import LOSS, OPEN, RECOVERY
from spark_jobs.estimators.sequence import NONE

NOT_AGAIN, SYNACK, BY_TIMEOUT, LOSS_PROBE, FAST, SLOW_START = range(6)
CAUSES = ("none", "synack", "rto", "tlp", "fast", "slow_start")
"""Why a packet was sent: new; a SYN ACK again; a timeout (RFC 6298); a loss probe (RFC 8985, 7),
which may carry new data; duplicate ACKs or SACK blocks (RFC 5681, 6582, 6675); ACKs after a timeout
(RFC 5681, 3.3.2)."""

DUPLICATES = 3
"""Duplicate ACKs that tell of a loss (RFC 5681, 3.2)."""


@inner
def send(s, sent, edges, segment, place):
    """A Segment is sent. Returns why, into CAUSES."""
    missed = _pass_over(s, sent, segment)
    ahead = ip_ids.ahead(segment.ip_id, s.latest_id)
    if s.latest_id < 0 or ahead > 0:
        s.latest_id = segment.ip_id
    unseen = ahead - 1 - missed if s.own_ids else np.int64(0)
    if unseen > 0 and s.head < s.tail:
        _retransmission_unseen(s, sent, segment, unseen, place.clock)
    new = segment.low < s.highest and _is_overtaken(s, sent, segment, ahead, place)
    if ahead < 0 and s.passed > 0 and not new:
        s.passed -= 1
        s.retransmissions -= 1  # it counts when it comes
    if segment.high == segment.low:
        return NOT_AGAIN
    if segment.low < s.highest:
        if new:
            return NOT_AGAIN
        return _send_again(s, sent, segment, place.clock)
    cause = NOT_AGAIN
    if unseen > 0 and s.head == s.tail and _was_sent(s, segment, place.clock):
        cause = _send_tail(s)
    if segment.data:
        s.largest = max(s.largest, segment.data)
        _go_to_work(s, edges, segment, place.clock)
    probes = _send_new(s, sent, segment, place)
    return LOSS_PROBE if probes else cause


@inner
def _go_to_work(s, edges, segment, clock):
    """New data is sent; what kept it back until now counts."""
    rested = s.busy_since == NONE
    window.use(s, edges, segment.high, segment.at, clock)
    if rested and s.busy_since != NONE:
        limits.share(s, limits.RECEIVER, segment.at)
    elif rested:
        limits.wake(s, segment.at)
    state.work(s, segment.at)


@inner
def _pass_over(s, sent, segment):
    """What lies between the highest number sent and a new Segment was sent, too: Gi has not seen
    it. It was cut into the largest segments, as far as there is place for so many. Returns how many
    there were."""
    missed = np.int64(0)
    while s.highest < segment.low:
        high = min(segment.low, s.highest + s.largest)
        if high < segment.low and 3 * s.pieces >= len(sent) - 3:
            high = segment.low
        s.pieces += high < segment.low
        flight.add(s, sent, s.highest, high, segment)
        s.highest = high
        missed += 1
    return missed


@inner
def _is_overtaken(s, sent, segment, ahead, place):
    """Whether a Segment below the highest number was sent in its turn and has been overtaken: its
    IP ID is of then (ahead: see `ip_ids`), or, where these do not tell, its timestamp is older than
    that of what overtook it, or it comes sooner than the sender could know of a loss."""
    k = flight.first_beyond(s, sent, segment.low)
    if k == s.tail or not sent[k].unseen or sent[k].copies > 1:
        return False
    if s.counts:
        return ahead < 0
    if segment.stamp != NONE and sent[k].stamp != NONE:
        age = np.int32(np.uint32(segment.stamp) - np.uint32(sent[k].stamp))
        if age != 0:
            return age < 0
    return segment.at - sent[k].sent < place.base + place.clock.round_trip


@inner
def _send_new(s, sent, segment, place):
    """New data or a FIN is sent. Returns whether it is a loss probe (RFC 8985, 7.3)."""
    was_idle = s.head == s.tail
    late = segment.at >= s.due - place.clock.slack
    late &= segment.at - s.told > place.clock.jitter
    probes = s.timer == timer.PROBE and s.probed == NONE and late and not was_idle
    flight.add(s, sent, segment.low, segment.high, segment)
    s.highest = segment.high
    s.sent_last = segment.at
    s.sent_in_recovery += s.state == RECOVERY
    window.fill(s)
    window.look(s, segment.at)
    if probes:
        s.probed = segment.high
        timer.restart(s, segment.at)
    elif was_idle or timer.may_probe(s):
        timer.arm(s, sent, segment.at, was_idle, place.rules)
    return probes


@inner
def _was_sent(s, segment, clock):
    """Whether a Segment that looks new, though an IP ID before it is missing and all else has
    arrived, had been sent before: it answers nothing."""
    return s.srtt > 0 and segment.at - max(s.heard, s.sent_last) > max(s.srtt, clock.jitter)


@inner
def _send_tail(s):
    """A segment that Gi has not seen before is retransmitted. Returns why, into CAUSES."""
    s.retransmissions += 1
    if s.sack:
        return LOSS_PROBE
    s.rto_expiries += 1
    return BY_TIMEOUT


@inner
def _send_again(s, sent, segment, clock):
    """A Segment that was sent before is retransmitted. Returns why, into CAUSES."""
    cause = _cause(s, sent, segment, clock)
    s.retransmissions += 1
    is_head = flight.first_beyond(s, sent, segment.low) == s.head
    if cause == BY_TIMEOUT:
        _time_out(s, sent, segment.at)
        if s.first_retransmission == NONE:
            s.first_retransmission, s.first_stamp = segment.place, segment.stamp
            s.first_low, s.first_high = segment.low, segment.high
    elif cause == LOSS_PROBE:
        s.probed = s.highest
        timer.restart(s, segment.at)
    elif is_head:
        timer.restart(s, segment.at)
    if cause == FAST and s.state == OPEN:
        s.state, s.recover = RECOVERY, s.highest
        s.first_retransmission = s.first_stamp = NONE
        if not s.sack:
            flight.lose_head(s, sent)
        window.begin_recovery(s)
    s.sent_in_recovery += 1
    s.retransmitted_since = True
    flight.retransmission(s, sent, segment)
    if cause != BY_TIMEOUT and cause != LOSS_PROBE:
        window.look(s, segment.at)
    return cause


@inner
def _retransmission_unseen(s, sent, segment, count, clock):
    """So many retransmissions passed before a Segment that Gi has not seen: their IP IDs are missing."""
    s.retransmissions += count
    s.passed += count
    if s.timer != timer.TIMEOUT or segment.at <= s.due + clock.jitter:
        return
    is_head = segment.low <= s.acked and segment.low < s.highest
    if is_head and segment.at < s.due + 2 * s.rto * (1 - timer.GRAIN):
        return
    _time_out(s, sent, s.due)
    sent[s.head].copies += 1


@inner
def _time_out(s, sent, now):
    """The retransmission timer goes off (RFC 6298, 5)."""
    s.rto_expiries += 1
    if s.state != LOSS:
        s.first_retransmission = s.first_stamp = NONE
    window.time_out(s, s.state == LOSS)
    s.state, s.recover = LOSS, s.highest
    s.duplicates = 0
    s.may_be_spurious = True
    s.probed = NONE
    flight.lose_all(s, sent)
    timer.go_off(s, now)
    timer.restart(s, now)


@inner
def _cause(s, sent, segment, clock):
    """Why a segment is retransmitted."""
    now = segment.at
    k = flight.first_beyond(s, sent, segment.low)
    is_head = k == s.head
    answers = now - s.heard <= clock.jitter
    _give_up_reordering(s, sent, now, clock)
    is_due = timer.is_due(s, now, clock.jitter)
    if s.state != OPEN:
        in_vain = not s.sack and s.retransmitted_since and k < s.tail and sent[k].copies > 1
        if is_head and is_due and (in_vain or not answers):
            return BY_TIMEOUT
        return FAST if s.state == RECOVERY else SLOW_START
    if _knows_of_loss(s) and (answers or not is_due):
        return FAST
    if answers and s.duplicates > 0 and not is_due:
        return FAST
    is_tail = segment.high >= s.highest
    alone = s.tail - s.head == 1 and s.timer == timer.TIMEOUT
    if s.sack and s.probed == NONE and s.sacked == 0 and is_tail and not alone:
        return LOSS_PROBE
    return BY_TIMEOUT


@inner
def _knows_of_loss(s):
    return s.sacked > 0 if s.sack else s.duplicates >= DUPLICATES


@inner
def _give_up_reordering(s, sent, now, clock):
    """What might have been overtaken was lost; the timer waits for a timeout again."""
    if s.timer != timer.REORDERING:
        return
    if now > s.due + clock.jitter + s.least_rtt * timer.GRAIN:
        s.timer, s.due = timer.TIMEOUT, np.int64(sent[s.head].last + s.rto)
