"""The retransmission timer (RFC 6298), and the loss probe's (RFC 8985, 7).

Linux departs from RFC 6298: every ACK of data sent once is a sample, not one a round trip; the
deviation counts with its maximum over a round trip, and is not less than the least timeout; samples
below the mean move it but little, so that a falling round trip does not take the timeout's margin
away. Which of the two a server follows is told by when its timer goes off.
"""

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.sender.state import (
    NO_TIMER,
    OPEN,
    PROBE_TIMER,
    REORDERING_TIMER,
    RTO_TIMER,
)
from spark_jobs.estimators.sequence import NONE

LINUX, RFC6298 = 0, 1
TIMER_RULES = ("linux", "rfc6298")
"""Whose timer it is."""
MAX_RTO_ERROR = 0.2
"""A timer that strays so much from when it was expected, as a logarithm, may be another's."""

FALLBACK_RTO_US = 3_000_000.0
"""The timeout after a handshake that gave no sample (RFC 6298, 5.7)."""
MAX_RTO_US = 120_000_000.0
"""The longest timeout (RFC 6298, 2.5 asks for 60 s at least)."""
TIMER_GRANULARITY = 1 / 16
"""Timers are kept in wheels whose steps widen with the time: by so much of it they may be late."""
REORDERING_SHARE = 1 / 4
"""Of the least round trip: how long a packet may be overtaken (RFC 8985, 6.2)."""


@inner
def add_rtt_sample(sender, sample, rto_settings):
    """A round trip was measured (µs), by the Rules of the network."""
    sample = max(sample, 1.0)
    sender.min_rtt = min(sender.min_rtt, sample) if sender.min_rtt > 0 else sample
    if sender.timer_rule == RFC6298:
        _update_rto_by_rfc(sender, sample, rto_settings)
    elif sender.srtt == 0:  # RFC 6298, (2.2)
        sender.srtt, sender.mdev = sample, 2 * sample
        sender.rttvar = sender.mdev_max = max(sender.mdev, rto_settings.min_rto)
        sender.rtt_seq = sender.snd_nxt
    else:
        error = sample - sender.srtt
        sender.srtt += error / 8  # RFC 6298, (2.3)
        change = abs(error) - sender.mdev / 4
        if error < 0 and change > 0:
            change /= 8
        sender.mdev += change
        if sender.mdev > sender.mdev_max:
            sender.mdev_max = sender.mdev
            sender.rttvar = max(sender.rttvar, sender.mdev_max)
        if sender.snd_una > sender.rtt_seq:
            if sender.mdev_max < sender.rttvar:
                sender.rttvar -= (sender.rttvar - sender.mdev_max) / 4
            sender.rtt_seq = sender.snd_nxt
            sender.mdev_max = rto_settings.min_rto
    if sender.timer_rule == LINUX:
        sender.rto = min(sender.srtt + sender.rttvar, MAX_RTO_US)


@inner
def _update_rto_by_rfc(sender, sample, rto_settings):
    """RFC 6298, 2; one sample a round trip, or with timestamps each (RFC 7323, 4)."""
    if sender.srtt == 0:
        sender.srtt, sender.rttvar = sample, sample / 2
    elif sender.has_timestamps or sender.snd_una > sender.rtt_seq:
        sender.rttvar += (abs(sample - sender.srtt) - sender.rttvar) / 4
        sender.srtt += (sample - sender.srtt) / 8
    else:
        return
    sender.rtt_seq = sender.snd_nxt
    sender.rto = min(max(sender.srtt + 4 * sender.rttvar, rto_settings.min_rto), MAX_RTO_US)


@inner
def use_fallback_rto(sender):
    """The handshake gave none."""
    sender.rto = sender.mdev = sender.mdev_max = sender.rttvar = FALLBACK_RTO_US


@inner
def expire(sender, now):
    """The timer went off: the next timeout is twice as long (RFC 6298, 5.5)."""
    waited = now - sender.timer_due + sender.rto
    if sender.timer == RTO_TIMER and waited > 0:
        sender.rto_error_sum += abs(np.log(waited / sender.rto))
        sender.rto_error_count += 1
    sender.rto = min(2 * sender.rto, MAX_RTO_US)


@inner
def restart(sender, now):
    """The timeout counts from now."""
    sender.timer, sender.timer_due = RTO_TIMER, np.int64(now + sender.rto)


@inner
def arm(sender, sent, now, from_now, rto_settings):
    """The timer after an ACK of more, or after new data; anew: it counts from now, not from when
    the oldest segment was last sent."""
    if sender.head == sender.tail:
        sender.timer = NO_TIMER
        return
    restart(sender, now)
    if not may_probe(sender):
        return
    wait = rto_settings.initial_rto
    if sender.srtt > 0:  # RFC 8985, 7.2
        wait = 2 * sender.srtt + (rto_settings.min_rto if sender.tail - sender.head == 1 else 0.0)
    until_rto = sender.rto if from_now else sent[sender.head].last_sent_at + sender.rto - now
    if until_rto > 0:
        wait = min(wait, until_rto)
    sender.timer, sender.timer_due = PROBE_TIMER, np.int64(now + wait)


@inner
def may_probe(sender):
    """Whether the timer is a loss probe's: with SACK, nothing amiss, none in flight."""
    return (
        sender.sack
        and sender.state == OPEN
        and sender.tlp_end_seq == NONE
        and sender.sacked_count == 0
    )


@inner
def is_due(sender, now, jitter):
    """Whether the retransmission timer may have gone off."""
    if sender.timer == NO_TIMER or sender.timer == REORDERING_TIMER:
        return False
    return now >= sender.timer_due - jitter - sender.rto * TIMER_GRANULARITY


@inner
def mean_rto_error(sender):
    """By how much the timer went off otherwise than expected, as a logarithm; 0: it never did."""
    return sender.rto_error_sum / sender.rto_error_count if sender.rto_error_count else 0.0
