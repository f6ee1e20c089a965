"""SYN ACKs retransmitted: in answer to a SYN that came again, or by the timer (RFC 6298, 5).

The timer starts with an answer and doubles with each time that it goes off. What no SYN explains,
the timer sent; if it came sooner than the timer can, or if there is no SYN ACK before it, Gi has
not seen the one that started the timer. A SYN ACK that comes shortly before the SYN that it may
answer was taken for the timer's; that is put right.
"""

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.sender.state import LONG_AGO
from spark_jobs.estimators.sender.timer import GRAIN
from spark_jobs.estimators.sequence import NONE

OPENING = np.dtype(
    [
        ("sent", "i8"),
        ("seen", "i8"),
        ("first", "i8"),
        ("armed", "i8"),
        ("asked_first", "i8"),
        ("asked", "i8"),
        ("unasked", "i8"),
        ("rto_expiries", "i8"),
        ("up_scale", "i8"),
        ("down_scale", "i8"),
        ("doubtful", "?"),
        ("called", "?"),
        ("done", "?"),
    ]
)
"""A handshake: how many SYN ACKs (or SYNs) the server has sent, and how many of them Gi has seen,
the first when; since when the timer runs, as far as it is known; when the first SYN came; when one
came that is not answered yet; when the last SYN ACK was sent that no SYN explains (µs, LONG_AGO:
none); how often the timer went off; the window scales of the SYNs, NO_SCALE without; doubtful: the
first SYN ACK seen answers a later SYN than the first, so that there may be one before it; called:
the server has sent a SYN, and no SYN ACK; done: it was acknowledged."""


@inner
def begin(o, no_scale):
    """A handshake of which nothing was seen."""
    o.sent = o.seen = o.rto_expiries = 0
    o.first = NONE
    o.armed = o.asked_first = o.asked = o.unasked = LONG_AGO
    o.up_scale = o.down_scale = no_scale
    o.doubtful = o.called = o.done = False


@inner
def ask(o, now, clock):
    """The mobile's SYN is heard."""
    if o.asked_first == LONG_AGO:
        o.asked_first = now
    if now - o.unasked <= clock.half:
        o.unasked = LONG_AGO
        o.rto_expiries -= 1
    else:
        o.asked = now


@inner
def answer(o, now, clock, rules):
    """The server sends a SYN ACK. Returns whether it did so before. Where both have sent a SYN, the
    first one is none retransmitted (RFC 9293, 3.5)."""
    if o.called and o.asked != LONG_AGO:
        o.called, o.armed, o.asked = False, now, LONG_AGO
        return False
    if now - o.asked < clock.jitter:
        o.armed = now
        o.unasked = LONG_AGO
        if not o.seen:
            o.doubtful = o.asked - o.asked_first > clock.jitter
    elif o.seen or o.asked_first != LONG_AGO:
        waited = now - (o.armed if o.seen else o.asked_first)
        soonest = rules.initial * (1 - GRAIN)
        if (o.doubtful and waited < soonest) or (not o.seen and waited > soonest):
            o.sent += 1
        o.doubtful = False
        if o.sent:
            o.unasked = now
            o.rto_expiries += 1
    o.asked = LONG_AGO
    o.first = now if not o.seen else o.first
    o.seen += 1
    o.sent += 1
    return o.sent > 1


@inner
def call(o, now):
    """The server sends a SYN. Returns whether it did so before: its timer went off."""
    again = o.sent > 0
    if not again:
        o.first = now
    o.rto_expiries += again
    o.called = True
    o.sent += 1
    o.seen += 1
    return again
