"""Retransmission timer (RFC 6298) and loss probe timer (RFC 8985, 7).

Linux differs from RFC 6298 in three points. Each ACK of data sent once gives an RTT sample, not
only one per RTT. The deviation counts with its maximum over one RTT, and not below the minimum RTO.
A sample below the mean changes the deviation little, so that a falling RTT does not take away the
RTO's margin. The times of RTO expiries show which of the two rules a server follows.
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
"""Names of the rules that a timer can follow."""
RFC_MIN_RTO_US = 1_000_000.0
"""Minimum RTO that RFC 6298, 2.4 asks for."""
MAX_RTO_ERROR = 0.2
"""Mean error of RTO expiries, as a logarithm, above which another rule is tried."""

FALLBACK_RTO_US = 3_000_000.0
"""RTO after a set-up that gave no RTT sample (RFC 6298, 5.7)."""
MAX_RTO_US = 120_000_000.0
"""Maximum RTO (RFC 6298, 2.5 asks for at least 60 s)."""
TIMER_GRANULARITY = 1 / 16
"""Share of a timer's duration by which it can expire late.

Systems keep timers in wheels whose steps grow with the duration.
"""
REORDERING_SHARE = 1 / 4
"""Reordering window, as a share of the minimum RTT (RFC 8985, 6.2)."""


@inner
def add_rtt_sample(sender, sample, rto_settings):
    """Update the RTO by an RTT sample (µs); rto_settings: RtoSettings."""
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
        sender.rto = sender.measured_rto = min(sender.srtt + sender.rttvar, MAX_RTO_US)


@inner
def _update_rto_by_rfc(sender, sample, rto_settings):
    """Update the RTO as RFC 6298, 2 asks.

    Only one sample per RTT counts. With timestamps each counts (RFC 7323, 4).
    """
    if sender.srtt == 0:
        sender.srtt, sender.rttvar = sample, sample / 2
    elif sender.has_timestamps or sender.snd_una > sender.rtt_seq:
        sender.rttvar += (abs(sample - sender.srtt) - sender.rttvar) / 4
        sender.srtt += (sample - sender.srtt) / 8
    else:
        return
    sender.rtt_seq = sender.snd_nxt
    rto = max(sender.srtt + 4 * sender.rttvar, rto_settings.min_rto)
    sender.rto = sender.measured_rto = min(rto, MAX_RTO_US)


@inner
def use_fallback_rto(sender):
    """Set the RTO after a set-up that gave no RTT sample."""
    sender.mdev = sender.mdev_max = sender.rttvar = FALLBACK_RTO_US
    sender.rto = sender.measured_rto = FALLBACK_RTO_US


@inner
def expire(sender, now, is_full_rto):
    """Record an RTO expiry: the next RTO is twice as long (RFC 6298, 5.5).

    is_full_rto: the timer has run since the last ACK of new data, so it shows the RTO.
    """
    waited = now - sender.timer_due + sender.rto
    if is_full_rto and sender.timer == RTO_TIMER and waited > 0:
        sender.rto_error_sum += abs(np.log(waited / sender.rto))
        sender.rto_error_count += 1
    sender.rto = min(2 * sender.rto, MAX_RTO_US)


@inner
def restart(sender, now):
    """Restart the retransmission timer now."""
    sender.timer, sender.timer_due = RTO_TIMER, np.int64(now + sender.rto)


@inner
def arm(sender, sent, now, from_now, rto_settings):
    """Set the timer after an ACK of new data, or after new data.

    from_now: the RTO counts from now, not from when the oldest segment was last sent.
    """
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
    """Return whether the timer is that of a loss probe.

    It is with SACK, if no loss is known and no other probe is in flight.
    """
    return (
        sender.sack
        and sender.state == OPEN
        and sender.tlp_end_seq == NONE
        and sender.sacked_count == 0
    )


@inner
def is_due(sender, now, jitter):
    """Return whether the retransmission timer may have expired."""
    if sender.timer == NO_TIMER or sender.timer == REORDERING_TIMER:
        return False
    return now >= sender.timer_due - jitter - sender.rto * TIMER_GRANULARITY


@inner
def mean_rto_error(sender):
    """Return the mean difference between expected and observed RTO expiries, as a logarithm.

    It is 0 without an RTO expiry.
    """
    return sender.rto_error_sum / sender.rto_error_count if sender.rto_error_count else 0.0
