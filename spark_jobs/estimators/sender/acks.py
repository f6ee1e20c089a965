"""An ACK, as the server hears it: what is in flight, the round trip, the state it leads to."""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.loss.sack import is_d_sack
from spark_jobs.estimators.sender import limits, rtt_sampling, scoreboard, state, timer, window
from spark_jobs.estimators.sender.state import LOSS, OPEN, RECOVERY
from spark_jobs.estimators.sequence import NONE, unwrap

BY_FRTO, BY_EIFEL, BY_DSACK = 1, 2, 4
"""What tells that a timeout came too soon: data arrived that had been sent once, before it (RFC
5682); an older timestamp than its retransmission's is echoed (RFC 3522); its retransmission came twice (RFC
3708)."""


class Ack(NamedTuple):
    """What the server hears."""

    time: np.int64
    """When (µs, the server's clock)."""
    number: np.int64
    window: np.int64
    """B"""
    ts_ecr: np.int64
    """The echoed timestamp, or NONE."""
    has_data: bool
    sack_at: np.int64
    """Where its SACK edges are, and how many."""
    sack_count: np.int64


class SackNews(NamedTuple):
    """What SACK blocks tell."""

    newly_sacked: np.int64
    """Segments reported for the first time;"""
    first_sent_at: np.int64
    """when the first of these that was sent once was sent, or NONE (µs);"""
    last_sent_at: np.int64
    """when the highest of them was sent, if it has data, was sent once, and Gi has seen it, or NONE
    (µs),"""
    flight: np.int64
    """and the bytes in flight then;"""
    original_arrived: bool
    """one such was sent before the last timeout;"""
    rto_retransmission_arrived_twice: bool
    """what the last timeout had retransmitted first came twice (D-SACK)."""


@inner
def on_ack(sender, sent, edges, ack, sack_edges, context):
    """An Ack is heard; sack_edges uint32: all SACK edges. Returns what tells that the last timeout
    came too soon: BY_FRTO, BY_EIFEL, BY_DSACK or 0."""
    sender.snd_nxt = max(sender.snd_nxt, ack.number)
    window_changed = ack.window > sender.rwnd or ack.window == 0
    advanced = ack.number > sender.snd_una
    limit, previous_ack_at = limits.current_limit(sender), sender.last_ack_at
    sender.in_flight_before_ack = scoreboard.in_flight(sender)
    sender.ack_after_silence = (
        ack.time - max(sender.last_ack_at, sender.new_data_sent_at) > context.clock.internet_rtt
    )
    sack_news = SackNews(np.int64(0), NONE, NONE, np.int64(0), False, False)
    if sender.sack and ack.sack_count >= 2:
        sack_news = _read_blocks(
            sender, sent, ack.number, sack_edges[ack.sack_at : ack.sack_at + ack.sack_count]
        )
    acked = scoreboard.acknowledge(sender, sent, ack.number, ack.ts_ecr)
    if advanced:
        sender.snd_una = ack.number
        sender.retransmitted_since_ack = False
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
    spurious = _update_state(sender, sent, ack, duplicate, original_arrived)
    if sack_news.rto_retransmission_arrived_twice:
        spurious |= BY_DSACK
    delivered = acked.delivered + sack_news.newly_sacked + (duplicate and not sender.sack)
    window.grow(sender, delivered, advanced)
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
    """What the SACK blocks tell, of Told."""
    newly_sacked, first_sent_at, original_arrived, rto_retransmission_arrived_twice = (
        np.int64(0),
        NONE,
        False,
        False,
    )
    last_sent_at, flight, begin = NONE, np.int64(0), 0
    if is_d_sack(blocks, number):
        begin = 2
        low, high = unwrap(blocks[0], number), unwrap(blocks[1], number)
        rto_retransmission_arrived_twice = low < sender.rto_high and sender.rto_low < high
    for k in range(begin, len(blocks) - 1, 2):
        low, high = unwrap(blocks[k], number), unwrap(blocks[k + 1], number)
        count, lowest_sent_at, original, highest = scoreboard.mark_sacked(sender, sent, low, high)
        newly_sacked += count
        original_arrived |= original
        first_sent_at = lowest_sent_at if first_sent_at == NONE else first_sent_at
        # The first block has what the ACK answers (RFC 2018, 4).
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
        rto_retransmission_arrived_twice,
    )


@inner
def _measure_rtt(sender, ack, acked, sack_news, rto_settings):
    """A round trip: of data sent once (Karn), else of a timestamp (RFC 7323, 4)."""
    if acked.first_sent_at != NONE and not acked.retransmitted:
        timer.add_rtt_sample(sender, float(ack.time - acked.first_sent_at), rto_settings)
    elif sack_news.first_sent_at != NONE:
        timer.add_rtt_sample(sender, float(ack.time - sack_news.first_sent_at), rto_settings)
    elif acked.echoed_sent_at != NONE:
        timer.add_rtt_sample(sender, float(ack.time - acked.echoed_sent_at), rto_settings)


@inner
def _attribute_time(sender, now, acked_and_sacked, limit, previous_ack_at, context):
    """What held the server back between the ACK heard before and this one; news: (Acked, Told)."""
    acked, sack_news = acked_and_sacked
    answered_sent_at = acked.retransmitted_at if acked.retransmitted else acked.last_sent_at
    if answered_sent_at == NONE:
        answered_sent_at = sack_news.first_sent_at
    if answered_sent_at != NONE:
        sender.link_was_busy = limits.is_link_busy(answered_sent_at, previous_ack_at, context)
    limits.attribute_time(sender, limits.CHANNEL if sender.link_was_busy else limit, now)


@inner
def _sample_access_rtt(sender, ack, acked, sack_news, clock):
    """The round trip between Gi and the mobile, of what an ACK answers: a SACK block at once (RFC
    5681, 4.2)."""
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
def _update_state(sender, sent, ack, duplicate, original_arrived):
    """The state after an Ack; original: data that was sent but once, before the last timeout, has
    arrived. Returns what tells that that timeout came too soon."""
    spurious = np.int64(0)
    if sender.state == LOSS:
        spurious = _update_loss_state(sender, sent, ack, duplicate, original_arrived)
    elif sender.state == RECOVERY and _is_recovery_over(sender):
        sender.state = OPEN
        sender.dup_acks = 0
        scoreboard.clear_lost(sender, sent)
        window.end_recovery(sender)
    elif sender.state == RECOVERY and sender.newly_acked and not sender.sack:
        scoreboard.mark_head_lost(sender, sent)
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
    """Without SACK one more byte must be acknowledged than was sent when the loss was noticed, lest
    duplicate ACKs of retransmissions tell of another (RFC 6582, 3.2)."""
    if sender.sack or sender.head == sender.tail:
        return sender.snd_una >= sender.recover
    return sender.snd_una > sender.recover


@inner
def _update_loss_state(sender, sent, ack, duplicate, original_arrived):
    """F-RTO (RFC 5682) and Eifel (RFC 3522)."""
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
def _undo_rto(sender, sent, reopen):
    """The last timeout came too soon; reopen: the sender goes on as if nothing had been. Without
    SACK, Linux waits for F-RTO to say so, too."""
    scoreboard.clear_lost(sender, sent)
    window.undo(sender)
    if reopen:
        sender.state = OPEN
        sender.rto_may_be_spurious = False
        sender.dup_acks = 0
