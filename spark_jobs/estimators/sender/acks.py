"""Effect of an ACK on the server: segments in flight, RTT, and the state that it leads to."""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.loss.sack import is_d_sack
from spark_jobs.estimators.sender import (
    hystart,
    limits,
    rtt_sampling,
    scoreboard,
    state,
    timer,
    window,
)
from spark_jobs.estimators.sender.state import LOSS, OPEN, RECOVERY
from spark_jobs.estimators.sequence import NONE, unwrap

BY_FRTO, BY_EIFEL, BY_DSACK = 1, 2, 4
"""Bits of the evidence that an RTO expiry was spurious.

BY_FRTO: data arrived that had been sent once, before the expiry (RFC 5682).
BY_EIFEL: the ACK echoes an older timestamp than that of the retransmission (RFC 3522).
BY_DSACK: a D-SACK reports that the retransmission's data arrived twice (RFC 3708).
"""


class Ack(NamedTuple):
    """ACK that the server receives."""

    time: np.int64
    """When the server receives it (µs, the server's clock)."""
    number: np.int64
    window: np.int64
    """Window (B)."""
    ts_ecr: np.int64
    """The timestamp that it echoes, or NONE."""
    has_data: bool
    """True if it carries data, a SYN or a FIN."""
    sack_at: np.int64
    """Index of its first SACK edge."""
    sack_count: np.int64
    """Number of its SACK edges."""
    reports_marks: bool
    """True if it reports new marks of ECN."""


class SackNews(NamedTuple):
    """New information in an ACK's SACK blocks."""

    newly_sacked: np.int64
    """Number of segments reported for the first time."""
    first_sent_at: np.int64
    """When the first of these that was sent once was sent, or NONE (µs)."""
    last_sent_at: np.int64
    """When the highest segment that the first block newly reports was sent, or NONE (µs).

    NONE, too, if it has no data, was sent more than once, or Gi has not seen it.
    """
    flight: np.int64
    """Bytes in flight when this segment was sent."""
    original_arrived: bool
    """True if one of the segments was sent only once, before the last RTO expiry."""
    d_sack_of_rto: bool
    """True if a D-SACK covers the segment that the last RTO expiry retransmitted first."""
    d_sack_of_recovery: bool
    """True if a D-SACK covers data that the last recovery may have retransmitted."""


@inner
def on_ack(sender, sent, edges, ack, sack_edges, context):
    """Process an Ack and return the evidence that the last RTO expiry was spurious.

    sent: SENT[..]; edges: EDGE[..]; sack_edges: uint32[..], all SACK edges; context: ServerContext.
    The evidence consists of the bits BY_FRTO, BY_EIFEL and BY_DSACK.
    """
    sender.snd_nxt = max(sender.snd_nxt, ack.number)
    window_changed = ack.window > sender.rwnd or ack.window == 0
    advanced = ack.number > sender.snd_una
    limit, previous_ack_at = limits.current_limit(sender), sender.last_ack_at
    sender.in_flight_before_ack = scoreboard.in_flight(sender)
    sender.ack_after_silence = (
        ack.time - max(sender.last_ack_at, sender.new_data_sent_at) > context.clock.internet_rtt
    )
    sack_news = SackNews(np.int64(0), NONE, NONE, np.int64(0), False, False, False)
    if sender.sack and ack.sack_count >= 2:
        sack_news = _read_blocks(
            sender, sent, ack.number, sack_edges[ack.sack_at : ack.sack_at + ack.sack_count]
        )
    acked = scoreboard.acknowledge(sender, sent, ack.number, ack.ts_ecr)
    if advanced:
        sender.snd_una = ack.number
        sender.retransmitted_since_ack = False
        sender.advanced_at = ack.time
        if sender.tlp_end_seq != NONE and ack.number >= sender.tlp_end_seq:
            sender.tlp_end_seq = NONE
    sender.rwnd, sender.last_ack_at, sender.newly_acked = ack.window, ack.time, acked.newly_acked
    if advanced or sack_news.newly_sacked or window_changed:
        sender.last_news_at = ack.time
    if sender.busy_since != NONE:
        _attribute_time(sender, ack.time, (acked, sack_news), limit, previous_ack_at, context)
    elif limit == limits.MOBILE:
        limits.attribute_time(sender, limit, ack.time)
    if ack.has_data:
        limits.note_request(sender, ack.time)
    _measure_rtt(sender, ack, acked, sack_news, context.rto_settings)
    _sample_access_rtt(sender, ack, acked, sack_news, context.clock)
    sender.awaits_answer = sender.ack_after_silence
    duplicate = (
        sack_news.newly_sacked > 0
        if sender.sack
        else not (advanced or window_changed or ack.has_data)
    )
    duplicate &= sender.head < sender.tail
    original_arrived = (acked.original_arrived or sack_news.original_arrived) and (
        sender.sack or not acked.retransmitted
    )
    spurious = _update_state(
        sender, sent, ack, duplicate, original_arrived, sack_news.d_sack_of_recovery
    )
    if sack_news.d_sack_of_rto:
        spurious |= BY_DSACK
    delivered = acked.delivered + sack_news.newly_sacked + (duplicate and not sender.sack)
    if acked.last_sent_at != NONE and not acked.retransmitted:
        hystart.on_rtt(sender, float(ack.time - acked.last_sent_at), ack.time)
    window.grow(sender, delivered, advanced, ack.time)
    if sender.head == sender.tail:
        scoreboard.clear(sender)
        sender.highest_sacked = NONE
        sender.timer = timer.NO_TIMER
    elif acked.newly_acked:
        timer.arm(sender, sent, ack.time, True, context.rto_settings)
    elif (
        sack_news.first_sent_at != NONE and sender.state == OPEN and sender.timer != timer.NO_TIMER
    ):
        sender.timer = timer.REORDERING_TIMER
        sender.timer_due = np.int64(ack.time + sender.min_rtt * timer.REORDERING_SHARE)
    window.update_room(sender, ack.time)
    window.add_edge(sender, edges, ack.time)
    if sender.head == sender.tail:
        state.mark_idle(sender, ack.time)
    return spurious


@inner
def _read_blocks(sender, sent, number, blocks):
    """Mark the segments that SACK blocks report and return SackNews."""
    newly_sacked, first_sent_at, original_arrived, d_sack_of_rto = np.int64(0), NONE, False, False
    d_sack_of_recovery = False
    last_sent_at, flight, begin = NONE, np.int64(0), 0
    if is_d_sack(blocks, number):
        begin = 2
        low, high = unwrap(blocks[0], number), unwrap(blocks[1], number)
        d_sack_of_rto = low < sender.rto_high and sender.rto_low < high
        d_sack_of_recovery = sender.undo_from != NONE and sender.undo_from < high
    for k in range(begin, len(blocks) - 1, 2):
        low, high = unwrap(blocks[k], number), unwrap(blocks[k + 1], number)
        count, lowest_sent_at, original, highest = scoreboard.mark_sacked(sender, sent, low, high)
        newly_sacked += count
        original_arrived |= original
        first_sent_at = lowest_sent_at if first_sent_at == NONE else first_sent_at
        # The first block holds the segment that the ACK answers (RFC 2018, 4).
        if highest != NONE and last_sent_at == NONE:
            segment = sent[highest]
            if segment.transmissions == 1 and not segment.unseen and segment.flight:
                last_sent_at, flight = segment.first_sent_at, segment.flight
    return SackNews(
        newly_sacked,
        first_sent_at,
        last_sent_at,
        flight,
        original_arrived,
        d_sack_of_rto,
        d_sack_of_recovery,
    )


@inner
def _measure_rtt(sender, ack, acked, sack_news, rto_settings):
    """Add an RTT sample: of data sent once (Karn), else of a timestamp (RFC 7323, 4)."""
    if acked.first_sent_at != NONE and not acked.retransmitted:
        timer.add_rtt_sample(sender, float(ack.time - acked.first_sent_at), rto_settings)
    elif sack_news.first_sent_at != NONE:
        timer.add_rtt_sample(sender, float(ack.time - sack_news.first_sent_at), rto_settings)
    elif acked.echoed_sent_at != NONE:
        timer.add_rtt_sample(sender, float(ack.time - acked.echoed_sent_at), rto_settings)


@inner
def _attribute_time(sender, now, acked_and_sacked, limit, previous_ack_at, context):
    """Attribute the time between the previous ACK and this one to a limit.

    acked_and_sacked: (AckedSegments, SackNews); limit: the limit if the link was not busy.
    """
    acked, sack_news = acked_and_sacked
    answered_sent_at = acked.retransmitted_at if acked.retransmitted else acked.last_sent_at
    if answered_sent_at == NONE:
        answered_sent_at = sack_news.first_sent_at
    if answered_sent_at != NONE:
        sender.link_was_busy = limits.is_link_busy(answered_sent_at, previous_ack_at, context)
    limits.attribute_time(sender, limits.CHANNEL if sender.link_was_busy else limit, now)


@inner
def _sample_access_rtt(sender, ack, acked, sack_news, clock):
    """Take the RTT between Gi and the mobile from the data that an ACK answers.

    An ACK that newly reports data by SACK was sent at once (RFC 5681, 4.2).
    """
    is_ambiguous = acked.retransmitted or (not sender.sack and sender.dup_acks > 0)
    sent_at = NONE if is_ambiguous else acked.last_sent_at
    flight, delayed = acked.flight, acked.newly_acked == 1
    if acked.retransmitted and acked.newly_acked == 1:
        sent_at = acked.echoed_sent_at
    if acked.newly_acked == 0 and sack_news.last_sent_at != NONE:
        sent_at, flight, delayed = sack_news.last_sent_at, sack_news.flight, False
    if sent_at != NONE and flight:
        rtt = ack.time - sent_at - clock.internet_rtt
        rtt_sampling.set_sample(sender, rtt_sampling.ACCESS, rtt, flight, delayed)


@inner
def _update_state(sender, sent, ack, duplicate, original_arrived, d_sack):
    """Update the state after an Ack and return the evidence that the last RTO expiry was spurious.

    original_arrived: data arrived that was sent but once, before the last RTO expiry; d_sack: a
    D-SACK reports data of the last recovery.
    """
    spurious = np.int64(0)
    _undo_recovery(sender, sent, ack, d_sack)
    if sender.state == LOSS:
        spurious = _update_loss_state(sender, sent, ack, duplicate, original_arrived)
    elif sender.state == RECOVERY and _is_recovery_over(sender):
        sender.state = OPEN
        sender.dup_acks = 0
        scoreboard.clear_lost(sender, sent)
        window.end_recovery(sender)
    elif sender.state == RECOVERY and sender.newly_acked:
        if sender.partial_ack_at == state.NEVER:
            sender.partial_ack_at = ack.time
        if not sender.sack:
            scoreboard.mark_head_lost(sender, sent)
    window.update_reduction(sender, ack.reports_marks)
    if sender.newly_acked:
        sender.dup_acks = (
            0 if sender.state != RECOVERY else max(sender.dup_acks - sender.newly_acked + 1, 0)
        )
    if duplicate:
        max_dup_acks = sender.tail - sender.head - 1
        sender.dup_acks = (
            sender.dup_acks + 1 if sender.state == LOSS else min(sender.dup_acks + 1, max_dup_acks)
        )
    return spurious


@inner
def _is_recovery_over(sender):
    """Return whether all data sent before the loss was detected is acknowledged.

    Without SACK one more byte must be acknowledged. Otherwise duplicate ACKs of retransmissions
    would indicate another loss (RFC 6582, 3.2).
    """
    if sender.sack or sender.head == sender.tail:
        return sender.snd_una >= sender.recover
    return sender.snd_una > sender.recover


@inner
def _update_loss_state(sender, sent, ack, duplicate, original_arrived):
    """Update the state LOSS by F-RTO (RFC 5682) and Eifel (RFC 3522)."""
    spurious = np.int64(0)
    if sender.newly_acked and ack.ts_ecr != NONE and sender.rto_ts_val != NONE:
        if np.int32(np.uint32(ack.ts_ecr) - np.uint32(sender.rto_ts_val)) < 0:
            spurious |= BY_EIFEL
            sender.rto_ts_val = NONE
            _undo_rto(sender, sent, sender.sack)
    if sender.state == LOSS and sender.rto_may_be_spurious:
        if original_arrived:
            spurious |= BY_FRTO
            _undo_rto(sender, sent, True)
        elif sender.snd_nxt > sender.recover:
            sender.rto_may_be_spurious = not duplicate
        elif sender.newly_acked and sender.snd_una < sender.recover:
            sender.recover = sender.snd_nxt
    if sender.state == LOSS and _is_recovery_over(sender):
        sender.state = OPEN
    return spurious


@inner
def _undo_recovery(sender, sent, ack, d_sack):
    """Undo the last recovery if there was no loss: segments were reordered.

    D-SACKs have reported all its retransmissions, or the ACK that ends it echoes a timestamp from
    before them (Linux, tcp_may_undo; RFC 3522).
    """
    if sender.undo_from == NONE:
        return
    is_undone = d_sack and sender.undo_count == 1
    sender.undo_count -= d_sack and sender.undo_count > 0
    if sender.state == RECOVERY and ack.ts_ecr != NONE and sender.undo_ts_val != NONE:
        age = np.int32(np.uint32(ack.ts_ecr) - np.uint32(sender.undo_ts_val))
        is_undone |= age < 0 and sender.newly_acked > 0 and _is_recovery_over(sender)
    if is_undone:
        window.undo(sender)
        if sender.state == RECOVERY:
            sender.state, sender.dup_acks = OPEN, 0
            scoreboard.clear_lost(sender, sent)


@inner
def _undo_rto(sender, sent, reopen):
    """Undo the effects of the last RTO expiry, which was spurious.

    reopen: the sender continues as if there had been no expiry. Without SACK, Linux waits until
    F-RTO confirms it, too.
    """
    scoreboard.clear_lost(sender, sent)
    window.undo(sender)
    if reopen:
        sender.state = OPEN
        sender.rto_may_be_spurious = False
        sender.dup_acks = 0
