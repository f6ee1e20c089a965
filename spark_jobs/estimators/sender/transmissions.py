"""Segments that the server sends: original, reordered, or retransmitted for some cause.

A segment that follows an ACK at once answers it. A segment came from the timer if the server
received no ACK for longer than an answer takes. If both are possible, the state decides. A sender
that knows of no loss waits for its timer. A sender in recovery answers ACKs, unless it retransmits
the oldest segment again when the timer was due.
"""

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators import ip_ids
from spark_jobs.estimators.sender import limits, scoreboard, state, timer, window
from spark_jobs.estimators.sender.state import LOSS, OPEN, RECOVERY
from spark_jobs.estimators.sequence import NONE
from spark_jobs.estimators.tcp import DUP_THRESH

ORIGINAL, SYNACK, RTO_EXPIRY, LOSS_PROBE, FAST, SLOW_START, PMTU = range(7)
CAUSES = ("none", "synack", "rto", "tlp", "fast", "slow_start", "pmtu")
"""Causes of a transmission.

none: new data
synack: retransmission of a SYN ACK
rto: RTO expiry (RFC 6298)
tlp: loss probe, which may carry new data (RFC 8985, 7)
fast: duplicate ACKs or SACK blocks (RFC 5681, 6582, 6675)
slow_start: ACKs after an RTO expiry (RFC 5681, 3.3.2)
pmtu: ICMP said that packets were too big (RFC 1191, RFC 8201): the server retransmits what was in
    flight, in smaller segments
"""


@inner
def send(sender, sent, edges, segment, context):
    """Process a Segment that the server sends and return its cause, into CAUSES.

    sent: SENT[..]; edges: EDGE[..]; context: ServerContext.
    """
    sender.max_segment = max(sender.max_segment, segment.payload_len)
    inserted = _add_unseen_segments(sender, sent, segment)
    ahead = take_ip_id(sender, segment.ip_id)
    unseen = ahead - 1 - inserted if sender.ids_exclusive else np.int64(0)
    has_cause = sender.had_cause or not has_nothing_to_retransmit(sender, segment.time)
    sender.had_cause = False
    if unseen > 0 and has_cause and sender.head < sender.tail:
        _count_unseen_retransmissions(sender, sent, segment, unseen, context.clock)
    is_reordered = segment.low < sender.snd_nxt and _is_reordered(
        sender, sent, segment, ahead, context
    )
    if ahead < 0 and sender.unseen_retransmissions > 0 and not is_reordered:
        sender.unseen_retransmissions -= 1
        sender.retransmissions -= 1  # it counts again when it is processed
    if segment.high == segment.low:
        return ORIGINAL
    if segment.low < sender.snd_nxt:
        if is_reordered:
            return ORIGINAL
        return _retransmit(sender, sent, segment, context.clock)
    cause = ORIGINAL
    if (
        unseen > 0
        and sender.head == sender.tail
        and _was_sent_before(sender, segment, context.clock)
    ):
        cause = _retransmit_unseen_tail(sender)
    if segment.payload_len:
        _account_new_data(sender, edges, segment, context.clock)
    is_loss_probe = _send_new(sender, sent, segment, context)
    return LOSS_PROBE if is_loss_probe else cause


@inner
def take_ip_id(sender, ip_id):
    """Record the IP ID of a packet that the server sends; return how far ahead it is."""
    ahead = np.int64(0)
    if sender.latest_ip_id >= 0:
        ahead = ip_ids.ahead(ip_id, sender.latest_ip_id)
    if sender.latest_ip_id < 0 or ahead > 0:
        sender.latest_ip_id = np.int64(ip_id)
    return ahead


@inner
def _account_new_data(sender, edges, segment, clock):
    """Account for new data, and for the time that it was held back."""
    was_idle = sender.busy_since == NONE
    window.on_new_data(sender, edges, segment.high, segment.time, clock)
    if was_idle and sender.busy_since != NONE:
        limits.attribute_time(sender, limits.RECEIVER, segment.time)
    elif was_idle:
        limits.end_idle(sender, segment.time)
    state.mark_busy(sender, segment.time)


@inner
def _add_unseen_segments(sender, sent, segment):
    """Add the data that Gi has not seen before a new Segment, and return the number of segments.

    The server sent the data between the highest number sent and the Segment. It is cut into
    segments of maximum length, as far as the scoreboard has room for so many.
    """
    count = np.int64(0)
    while sender.snd_nxt < segment.low:
        high = min(segment.low, sender.snd_nxt + sender.max_segment)
        if high < segment.low and 3 * sender.inserted >= len(sent) - 3:
            high = segment.low
        sender.inserted += high < segment.low
        scoreboard.add(sender, sent, sender.snd_nxt, high, segment)
        sender.snd_nxt = high
        count += 1
    return count


@inner
def _is_reordered(sender, sent, segment, ahead, context):
    """Return whether a Segment below the highest number sent is an original that was reordered.

    It is if its IP ID belongs to its original place; ahead: see `ip_ids`. If IP IDs do not show the
    order, its timestamp must be older than that of the segment that overtook it. Without either,
    the segment must come sooner than the sender can know of a loss.
    """
    k = scoreboard.first_above(sender, sent, segment.low)
    if k == sender.tail or not sent[k].unseen or sent[k].transmissions > 1:
        return False
    if sender.ids_in_order:
        return ahead < 0
    if segment.ts_val != NONE and sent[k].last_ts_val != NONE:
        age = np.int32(np.uint32(segment.ts_val) - np.uint32(sent[k].last_ts_val))
        if age != 0:
            return age < 0
    return segment.time - sent[k].first_sent_at < context.access_rtt + context.clock.internet_rtt


@inner
def _send_new(sender, sent, segment, context):
    """Process new data or a FIN and return whether it is a loss probe (RFC 8985, 7.3)."""
    was_idle = sender.head == sender.tail
    is_late = segment.time >= sender.timer_due - context.clock.slack
    is_late &= segment.time - sender.last_news_at > context.clock.jitter
    is_loss_probe = (
        sender.timer == timer.PROBE_TIMER
        and sender.tlp_end_seq == NONE
        and is_late
        and not was_idle
    )
    scoreboard.add(sender, sent, segment.low, segment.high, segment)
    sender.snd_nxt = segment.high
    sender.new_data_sent_at = segment.time
    sender.prr_out += sender.state == RECOVERY or sender.reduced_at != NONE
    window.update_full(sender)
    window.update_room(sender, segment.time)
    if is_loss_probe:
        sender.tlp_end_seq = segment.high
        timer.restart(sender, segment.time)
    elif was_idle or timer.may_probe(sender):
        timer.arm(sender, sent, segment.time, was_idle, context.rto_settings)
    return is_loss_probe


@inner
def _was_sent_before(sender, segment, clock):
    """Return whether a Segment that looks new had been sent before.

    An IP ID before it is missing, and all else has arrived. So the segment was sent before if it
    answers no ACK.
    """
    return sender.srtt > 0 and segment.time - max(
        sender.last_ack_at, sender.new_data_sent_at
    ) > max(sender.srtt, clock.jitter)


@inner
def _retransmit_unseen_tail(sender):
    """Process the retransmission of a segment that Gi had not seen, and return its cause."""
    sender.retransmissions += 1
    if sender.sack:
        return LOSS_PROBE
    sender.rto_expiries += 1
    return RTO_EXPIRY


@inner
def _retransmit(sender, sent, segment, clock):
    """Process the retransmission of a Segment and return its cause, into CAUSES."""
    cause = _cause_of_retransmission(sender, sent, segment, clock)
    sender.retransmissions += 1
    is_head = scoreboard.first_above(sender, sent, segment.low) == sender.head
    if cause == PMTU:
        if segment.low != sender.pmtu_next:
            sender.state, sender.recover, sender.pmtu_end = LOSS, sender.snd_nxt, sender.snd_nxt
            scoreboard.mark_all_lost(sender, sent)
        sender.pmtu_next = segment.high if segment.high < sender.pmtu_end else NONE
        timer.restart(sender, segment.time)
    elif cause == RTO_EXPIRY:
        _expire_rto(sender, sent, segment.time)
        if sender.rto_retransmission == NONE:
            sender.rto_retransmission, sender.rto_ts_val = segment.segment_index, segment.ts_val
            sender.rto_low, sender.rto_high = segment.low, segment.high
    elif cause == LOSS_PROBE:
        sender.tlp_end_seq = sender.snd_nxt
        timer.restart(sender, segment.time)
    elif is_head and sender.timer_rule == timer.LINUX:
        timer.restart(sender, segment.time)
    if cause == FAST and sender.state != RECOVERY:
        sender.state, sender.recover = RECOVERY, sender.snd_nxt
        sender.partial_ack_at = state.NEVER
        sender.rto_retransmission = sender.rto_ts_val = NONE
        if not sender.sack:
            scoreboard.mark_head_lost(sender, sent)
        window.begin_recovery(sender)
    sender.prr_out += 1
    if sender.undo_from != NONE:
        sender.undo_count += 1
        if sender.undo_ts_val == NONE:
            sender.undo_ts_val = segment.ts_val
    sender.retransmitted_since_ack = True
    scoreboard.retransmit(sender, sent, segment)
    if cause != RTO_EXPIRY and cause != LOSS_PROBE:
        window.update_room(sender, segment.time)
    return cause


@inner
def has_nothing_to_retransmit(sender, now):
    """Return whether the sender has no reason to retransmit now."""
    if sender.head == sender.tail:
        return True
    if sender.state != OPEN or sender.dup_acks > 0 or sender.sacked_count > 0:
        return False
    return sender.timer == timer.NO_TIMER or now <= sender.timer_due - sender.rto / 4


@inner
def _count_unseen_retransmissions(sender, sent, segment, count, clock):
    """Count retransmissions before a Segment that Gi has not seen: their IP IDs are missing."""
    sender.retransmissions += count
    sender.unseen_retransmissions += count
    if sender.timer != timer.RTO_TIMER or segment.time <= sender.timer_due + clock.jitter:
        return
    is_head = segment.low <= sender.snd_una and segment.low < sender.snd_nxt
    if is_head and segment.time < sender.timer_due + 2 * sender.rto * (1 - timer.TIMER_GRANULARITY):
        return
    _expire_rto(sender, sent, sender.timer_due)
    sent[sender.head].transmissions += 1


@inner
def _expire_rto(sender, sent, now):
    """Process an RTO expiry (RFC 6298, 5)."""
    sender.rto_expiries += 1
    is_full_rto = sender.sack or sender.state != RECOVERY
    if sender.state != LOSS:
        sender.rto_retransmission = sender.rto_ts_val = NONE
    window.reduce_to_one(sender, sender.state == LOSS)
    sender.state, sender.recover = LOSS, sender.snd_nxt
    sender.dup_acks = 0
    sender.rto_may_be_spurious = True
    sender.tlp_end_seq = NONE
    scoreboard.mark_all_lost(sender, sent)
    timer.expire(sender, now, is_full_rto)
    timer.restart(sender, now)


@inner
def _cause_of_retransmission(sender, sent, segment, clock):
    """Return the cause of a retransmission, into CAUSES."""
    now = segment.time
    k = scoreboard.first_above(sender, sent, segment.low)
    is_head = k == sender.head
    answers_ack = now - sender.last_ack_at <= clock.jitter
    _end_reordering_wait(sender, sent, now, clock)
    is_due = timer.is_due(sender, now, clock.jitter)
    if _answers_icmp(sender, sent, k, segment, is_due):
        return PMTU
    if sender.state != OPEN:
        is_repeated = (
            is_head
            and not sender.sack
            and sender.retransmitted_since_ack
            and k < sender.tail
            and sent[k].transmissions > 1
            and segment.low <= sent[k].low
        )
        if is_head and is_due and (is_repeated or not answers_ack):
            return RTO_EXPIRY
        if is_repeated and _is_due_since_partial_ack(sender, now, False, clock.jitter):
            return RTO_EXPIRY
        is_in_flight = is_head and k < sender.tail
        if is_in_flight and _is_late_repetition(sender, sent[k], now, answers_ack, clock):
            return RTO_EXPIRY
        if answers_ack and _is_recovery_by_duplicates(sender):
            return FAST
        return FAST if sender.state == RECOVERY else SLOW_START
    if _has_detected_loss(sender) and (answers_ack or not is_due):
        return FAST
    # Without SACK a sender may still repair a loss after the ACK that ends the recovery.
    if answers_ack and not is_due and (sender.dup_acks > 0 or not sender.sack):
        return FAST
    is_tail = segment.high >= sender.snd_nxt
    is_only_segment = sender.tail - sender.head == 1 and sender.timer == timer.RTO_TIMER
    if (
        sender.sack
        and sender.tlp_end_seq == NONE
        and sender.sacked_count == 0
        and is_tail
        and not is_only_segment
    ):
        return LOSS_PROBE
    return RTO_EXPIRY


@inner
def _answers_icmp(sender, sent, k, segment, is_due):
    """Return whether a retransmission, of segment k, answers ICMP's message on the path's MTU.

    Nothing else makes a sender retransmit a full segment as a smaller one before its timer is due
    and without a sign of a loss. What was in flight then follows.
    """
    if segment.low == sender.pmtu_next:
        return True
    if k == sender.tail or sent[k].transmissions > 1:
        return False
    is_smaller = segment.high < sent[k].high and sent[k].high - sent[k].low == sender.max_segment
    has_cause = is_due or sender.dup_acks > 0 or sender.sacked_count > 0
    return sender.state == OPEN and is_smaller and segment.low == sent[k].low and not has_cause


@inner
def _is_due_since_partial_ack(sender, now, at_once, jitter):
    """Return whether a timer that the first partial ACK set may have expired (RFC 6582, 4).

    at_once: whether it must have expired just now. The RTO counts as it was measured: some stacks
    end its doubling at any ACK of new data (ns-3).
    """
    if sender.state != RECOVERY or sender.partial_ack_at == state.NEVER:
        return False
    late = now - sender.partial_ack_at - sender.measured_rto
    tolerance = jitter + sender.measured_rto * timer.TIMER_GRANULARITY
    return late >= -tolerance and (not at_once or late <= tolerance)


@inner
def _is_recovery_by_duplicates(sender):
    """Return whether duplicate ACKs after the repair of an RTO expiry begin a recovery.

    RFC 6582, 3.2 asks senders to ignore these: retransmissions cause them. Some do not (ns-3).
    """
    is_repaired = sender.state == LOSS and not sender.sack and sender.snd_una >= sender.recover
    return is_repaired and sender.dup_acks >= DUP_THRESH


@inner
def _is_late_repetition(sender, oldest, now, answers_ack, clock):
    """Return whether the oldest segment is retransmitted again later than ACKs called for it.

    ACKs of what was sent after its last retransmission come an RTT later. A sender that takes these
    for a sign of its loss (RFC 8985) answers them. Another one waits for the RTO.
    """
    waited = now - oldest.last_sent_at
    rto = sender.rto * (1 - timer.TIMER_GRANULARITY) - clock.jitter
    return (
        sender.sack
        and oldest.transmissions > 1
        and waited > 2 * sender.srtt + clock.jitter
        and (
            now - sender.advanced_at >= rto
            or _is_due_since_partial_ack(sender, now, answers_ack, clock.jitter)
        )
    )


@inner
def _has_detected_loss(sender):
    return sender.sacked_count > 0 if sender.sack else sender.dup_acks >= DUP_THRESH


@inner
def _end_reordering_wait(sender, sent, now, clock):
    """Wait for the RTO expiry again, when segments that might have been reordered count as lost."""
    if sender.timer != timer.REORDERING_TIMER:
        return
    if now > sender.timer_due + clock.jitter + sender.min_rtt * timer.TIMER_GRANULARITY:
        sender.timer = timer.RTO_TIMER
        sender.timer_due = np.int64(sent[sender.head].last_sent_at + sender.rto)
