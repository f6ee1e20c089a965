"""SYN ACKs and their retransmission, by a repeated SYN or by the timer (RFC 6298, 5).

The timer starts with the first SYN ACK and doubles at each expiry. A SYN ACK that no SYN explains
came from the timer. If it came sooner than the timer can expire, or without a SYN ACK before it, Gi
has not seen the SYN ACK that started the timer. A SYN ACK shortly before the SYN that it may answer
counts as the timer's at first. The later SYN corrects this.
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
"""Set-up of a connection.

sent: SYN ACKs (or SYNs) that the server sent
seen: SYN ACKs (or SYNs) that Gi saw
first_sent_at: when the first seen was sent; or NONE
timer_started_at: since when the timer runs, as far as is known
first_syn_at: when the first SYN arrived
unanswered_syn_at: when the SYN arrived that is not answered yet
unprompted_at: when the last SYN ACK was sent that no SYN explains
rto_expiries: RTO expiries
mobile_scale, server_scale: window scales of the SYNs; NO_SCALE without
first_may_be_unseen: the first SYN ACK seen answers a later SYN than the first; one may precede it
server_sent_syn: the server has sent a SYN, and no SYN ACK
acked: the set-up is complete

Times are µs of the server's clock; NEVER: none, if not said otherwise.
"""


@inner
def initialize(setup, no_scale):
    """Initialize a SETUP before its first packet."""
    setup.sent = setup.seen = setup.rto_expiries = 0
    setup.first_sent_at = NONE
    setup.timer_started_at = setup.first_syn_at = NEVER
    setup.unanswered_syn_at = setup.unprompted_at = NEVER
    setup.mobile_scale = setup.server_scale = no_scale
    setup.first_may_be_unseen = setup.server_sent_syn = setup.acked = False


@inner
def receive_syn(setup, now, clock):
    """Process the mobile's SYN."""
    if setup.first_syn_at == NEVER:
        setup.first_syn_at = now
    if now - setup.unprompted_at <= clock.half:
        setup.unprompted_at = NEVER
        setup.rto_expiries -= 1
    else:
        setup.unanswered_syn_at = now


@inner
def send_synack(setup, now, clock, rto_settings):
    """Process a SYN ACK of the server and return whether it is a retransmission.

    If both ends have sent a SYN, the first SYN ACK is an original (RFC 9293, 3.5).
    """
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
    """Process a SYN of the server and return whether it is a retransmission, by RTO expiry."""
    repeated = setup.sent > 0
    if not repeated:
        setup.first_sent_at = now
    setup.rto_expiries += repeated
    setup.server_sent_syn = True
    setup.sent += 1
    setup.seen += 1
    return repeated
