"""The retransmission timer (RFC 6298), and the loss probe's (RFC 8985, 7).

Linux departs from RFC 6298: every ACK of data sent once is a sample, not one a round trip; the
deviation counts with its maximum over a round trip, and is not less than the least timeout; samples
below the mean move it but little, so that a falling round trip does not take the timeout's margin
away. Which of the two a server follows is told by when its timer goes off.
"""

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.sender.state import NO_TIMER, OPEN, PROBE, REORDERING, TIMEOUT
from spark_jobs.estimators.sequence import NONE

LINUX, RFC6298 = 0, 1
TIMER_RULES = ("linux", "rfc6298")
"""Whose timer it is."""
STRAYS = 0.2
"""A timer that strays so much from when it was expected, as a logarithm, may be another's."""

FALLBACK_US = 3_000_000.0
"""The timeout after a handshake that gave no sample (RFC 6298, 5.7)."""
LONGEST_US = 120_000_000.0
"""The longest timeout (RFC 6298, 2.5 asks for 60 s at least)."""
GRAIN = 1 / 16
"""Timers are kept in wheels whose steps widen with the time: by so much of it they may be late."""
REORDERING_SHARE = 1 / 4
"""Of the least round trip: how long a packet may be overtaken (RFC 8985, 6.2)."""


@inner
def measure(s, sample, rules):
    """A round trip was measured (µs), by the Rules of the network."""
    sample = max(sample, 1.0)
    s.least_rtt = min(s.least_rtt, sample) if s.least_rtt > 0 else sample
    if s.kind == RFC6298:
        _measure_by_rfc(s, sample, rules)
    elif s.srtt == 0:  # RFC 6298, (2.2)
        s.srtt, s.deviation = sample, 2 * sample
        s.rttvar = s.most = max(s.deviation, rules.least)
        s.measured_to = s.highest
    else:
        error = sample - s.srtt
        s.srtt += error / 8  # RFC 6298, (2.3)
        change = abs(error) - s.deviation / 4
        if error < 0 and change > 0:
            change /= 8
        s.deviation += change
        if s.deviation > s.most:
            s.most = s.deviation
            s.rttvar = max(s.rttvar, s.most)
        if s.acked > s.measured_to:
            if s.most < s.rttvar:
                s.rttvar -= (s.rttvar - s.most) / 4
            s.measured_to = s.highest
            s.most = rules.least
    if s.kind == LINUX:
        s.rto = min(s.srtt + s.rttvar, LONGEST_US)


@inner
def _measure_by_rfc(s, sample, rules):
    """RFC 6298, 2; one sample a round trip, or with timestamps each (RFC 7323, 4)."""
    if s.srtt == 0:
        s.srtt, s.rttvar = sample, sample / 2
    elif s.stamps or s.acked > s.measured_to:
        s.rttvar += (abs(sample - s.srtt) - s.rttvar) / 4
        s.srtt += (sample - s.srtt) / 8
    else:
        return
    s.measured_to = s.highest
    s.rto = min(max(s.srtt + 4 * s.rttvar, rules.least), LONGEST_US)


@inner
def no_sample(s):
    """The handshake gave none."""
    s.rto = s.deviation = s.most = s.rttvar = FALLBACK_US


@inner
def go_off(s, now):
    """The timer went off: the next timeout is twice as long (RFC 6298, 5.5)."""
    waited = now - s.due + s.rto
    if s.timer == TIMEOUT and waited > 0:
        s.strayed += abs(np.log(waited / s.rto))
        s.went_off += 1
    s.rto = min(2 * s.rto, LONGEST_US)


@inner
def restart(s, now):
    """The timeout counts from now."""
    s.timer, s.due = TIMEOUT, np.int64(now + s.rto)


@inner
def arm(s, sent, now, anew, rules):
    """The timer after an ACK of more, or after new data; anew: it counts from now, not from when
    the oldest segment was last sent."""
    if s.head == s.tail:
        s.timer = NO_TIMER
        return
    restart(s, now)
    if not may_probe(s):
        return
    wait = rules.initial
    if s.srtt > 0:  # RFC 8985, 7.2
        wait = 2 * s.srtt + (rules.least if s.tail - s.head == 1 else 0.0)
    left = s.rto if anew else sent[s.head].last + s.rto - now
    if left > 0:
        wait = min(wait, left)
    s.timer, s.due = PROBE, np.int64(now + wait)


@inner
def may_probe(s):
    """Whether the timer is a loss probe's: with SACK, nothing amiss, none in flight."""
    return s.sack and s.state == OPEN and s.probed == NONE and s.sacked == 0


@inner
def is_due(s, now, jitter):
    """Whether the retransmission timer may have gone off."""
    if s.timer == NO_TIMER or s.timer == REORDERING:
        return False
    return now >= s.due - jitter - s.rto * GRAIN


@inner
def strays(s):
    """By how much the timer went off otherwise than expected, as a logarithm; 0: it never did."""
    return s.strayed / s.went_off if s.went_off else 0.0
