"""SYN ACKs retransmitted: in answer to a SYN that came again, or by the timer (RFC 6298, 5).

The timer starts with an answer and doubles with each time that it goes off. What no SYN explains,
the timer sent; if it came sooner than the timer can, or if there is no SYN ACK before it, Gi has
not seen the one that started the timer. A SYN ACK that comes shortly before the SYN that it may
answer was taken for the timer's; that is put right.
"""

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.sender.state import NEVER
from spark_jobs.estimators.sender.timer import TIMER_GRANULARITY
from spark_jobs.estimators.sequence import NONE

SETUP = np.dtype(
    [
        ("sent", "i8"),
        ("seen", "i8"),
        ("first_sent_at", "i8"),
        ("timer_started_at", "i8"),
        ("first_syn_at", "i8"),
        ("unanswered_syn_at", "i8"),
        ("unprompted_at", "i8"),
        ("rto_expiries", "i8"),
        ("mobile_scale", "i8"),
        ("server_scale", "i8"),
        ("first_may_be_unseen", "?"),
        ("server_sent_syn", "?"),
        ("acked", "?"),
    ]
)
"""A handshake: how many SYN ACKs (or SYNs) the server has sent, and how many of them Gi has seen,
the first when; since when the timer runs, as far as it is known; when the first SYN came; when one
came that is not answered yet; when the last SYN ACK was sent that no SYN explains (µs, LONG_AGO:
none); how often the timer went off; the window scales of the SYNs, NO_SCALE without; doubtful: the
first SYN ACK seen answers a later SYN than the first, so that there may be one before it; called:
the server has sent a SYN, and no SYN ACK; done: it was acknowledged."""


@inner
def initialize(setup, no_scale):
    """A handshake of which nothing was seen."""
    setup.sent = setup.seen = setup.rto_expiries = 0
    setup.first_sent_at = NONE
    setup.timer_started_at = setup.first_syn_at = setup.unanswered_syn_at = setup.unprompted_at = (
        NEVER
    )
    setup.mobile_scale = setup.server_scale = no_scale
    setup.first_may_be_unseen = setup.server_sent_syn = setup.acked = False


@inner
def receive_syn(setup, now, clock):
    """The mobile's SYN is heard."""
    if setup.first_syn_at == NEVER:
        setup.first_syn_at = now
    if now - setup.unprompted_at <= clock.half:
        setup.unprompted_at = NEVER
        setup.rto_expiries -= 1
    else:
        setup.unanswered_syn_at = now


@inner
def send_synack(setup, now, clock, rto_settings):
    """The server sends a SYN ACK. Returns whether it did so before. Where both have sent a SYN, the
    first one is none retransmitted (RFC 9293, 3.5)."""
    if setup.server_sent_syn and setup.unanswered_syn_at != NEVER:
        setup.server_sent_syn, setup.timer_started_at, setup.unanswered_syn_at = False, now, NEVER
        return False
    if now - setup.unanswered_syn_at < clock.jitter:
        setup.timer_started_at = now
        setup.unprompted_at = NEVER
        if not setup.seen:
            setup.first_may_be_unseen = setup.unanswered_syn_at - setup.first_syn_at > clock.jitter
    elif setup.seen or setup.first_syn_at != NEVER:
        waited = now - (setup.timer_started_at if setup.seen else setup.first_syn_at)
        min_wait = rto_settings.initial_rto * (1 - TIMER_GRANULARITY)
        if (setup.first_may_be_unseen and waited < min_wait) or (
            not setup.seen and waited > min_wait
        ):
            setup.sent += 1
        setup.first_may_be_unseen = False
        if setup.sent:
            setup.unprompted_at = now
            setup.rto_expiries += 1
    setup.unanswered_syn_at = NEVER
    setup.first_sent_at = now if not setup.seen else setup.first_sent_at
    setup.seen += 1
    setup.sent += 1
    return setup.sent > 1


@inner
def send_syn(setup, now):
    """The server sends a SYN. Returns whether it did so before: its timer went off."""
    repeated = setup.sent > 0
    if not repeated:
        setup.first_sent_at = now
    setup.rto_expiries += repeated
    setup.server_sent_syn = True
    setup.sent += 1
    setup.seen += 1
    return repeated
