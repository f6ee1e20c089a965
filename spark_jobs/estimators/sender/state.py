"""A sender, as far as it is known."""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.sender.server import Clock
from spark_jobs.estimators.sequence import NONE

OPEN, RECOVERY, LOSS = range(3)
"""Nothing is amiss; a loss told by ACKs is being repaired (RFC 6582, 6675); a timeout's."""

NO_TIMER, RTO_TIMER, PROBE_TIMER, REORDERING_TIMER = range(4)
"""What the timer waits for: a timeout (RFC 6298), a loss probe (RFC 8985, 7.2), or what may only
have been overtaken (RFC 8985, 6.2, step 5)."""

LIMITS = ("channel", "receiver", "recovery", "slow_start", "server", "mobile")
"""What may hold a transfer up (see `limits`)."""

INFINITE_SSTHRESH = 1e9
"""The slow start threshold may begin arbitrarily high (RFC 5681, 3.1)."""

NEVER = np.int64(-(2**62))

SENDER = np.dtype(
    [
        ("sack", "?"),
        ("has_timestamps", "?"),
        ("ids_in_order", "?"),
        ("ids_exclusive", "?"),
        ("window_scale", "i8"),
        ("max_segment", "i8"),
        ("snd_una", "i8"),
        ("snd_nxt", "i8"),
        ("rwnd", "i8"),
        ("head", "i8"),
        ("tail", "i8"),
        ("inserted", "i8"),
        ("sacked_count", "i8"),
        ("lost_count", "i8"),
        ("highest_sacked", "i8"),
        ("latest_ip_id", "i8"),
        ("unseen_retransmissions", "i8"),
        ("state", "i8"),
        ("recover", "i8"),
        ("dup_acks", "i8"),
        ("last_ack_at", "i8"),
        ("last_news_at", "i8"),
        ("retransmitted_since_ack", "?"),
        ("rto_may_be_spurious", "?"),
        ("rto_retransmission", "i8"),
        ("rto_low", "i8"),
        ("rto_high", "i8"),
        ("rto_ts_val", "i8"),
        ("srtt", "f8"),
        ("mdev", "f8"),
        ("mdev_max", "f8"),
        ("rttvar", "f8"),
        ("rtt_seq", "i8"),
        ("min_rtt", "f8"),
        ("rto", "f8"),
        ("recorded_rto", "f8"),
        ("timer_rule", "i8"),
        ("rto_error_sum", "f8"),
        ("rto_error_count", "i8"),
        ("timer", "i8"),
        ("timer_due", "i8"),
        ("tlp_end_seq", "i8"),
        ("cwnd", "f8"),
        ("ssthresh", "f8"),
        ("prior_cwnd", "f8"),
        ("prior_ssthresh", "f8"),
        ("decrease_factor", "f8"),
        ("prr_delivered", "i8"),
        ("prr_out", "i8"),
        ("max_in_flight", "i8"),
        ("cwnd_full", "?"),
        ("in_flight_before_ack", "i8"),
        ("newly_acked", "i8"),
        ("ack_after_silence", "?"),
        ("decrease_unmeasured", "?"),
        ("room_time", "f8"),
        ("room_time_until", "i8"),
        ("cwnd_has_room", "?"),
        ("room_time_at_last_send", "f8"),
        ("next_edge", "i8"),
        ("edge_count", "i8"),
        ("new_data_sent_at", "i8"),
        ("busy_since", "i8"),
        ("idle_since", "i8"),
        ("busy_time", "f8"),
        ("rwnd_limited", "f8"),
        ("retransmissions", "i8"),
        ("rto_expiries", "i8"),
        ("limited", "f8", (len(LIMITS),)),
        ("attributed_until", "i8"),
        ("requested_at", "i8"),
        ("link_was_busy", "?"),
        ("last_event_at", "i8"),
        ("awaits_answer", "?"),
        ("sample_rtt", "i8"),
        ("sample_side", "i8"),
        ("sample_flight", "i8"),
        ("sample_delayed", "?"),
        ("recorded_at", "i8", (2,)),
        ("recorded_rtt", "i8", (2,)),
        ("sample_min", "i8", (2,)),
        ("sample_max", "i8", (2,)),
        ("lowest_bin", "i8", (2,)),
        ("highest_bin", "i8", (2,)),
    ]
)
"""Numbers are of the downlink stream, times µs of the server's clock, windows segments if not
said otherwise.

sack, stamps           whether it uses SACK; timestamps;
counts, own_ids        IP IDs that tell the order of sending; that count this connection alone
scale                  of the mobile's window (RFC 7323)
largest                its largest segment (B)
acked, highest         the highest ACK it has heard; the highest number it has sent
offered                the mobile's window (B)
head, tail             its SENT[head:tail] are in flight,
pieces                 so many were put in between, for what Gi has not seen (see `sending`)
sacked, lost           of which so many are reported, and taken for lost and not retransmitted
highest_sacked         the highest number that the mobile reported
latest_id, passed      the latest IP ID, -1: none yet; so many that are missing count as retransmissions
state, recover         OPEN, RECOVERY or LOSS, and the number that ends it
duplicates             duplicate ACKs (RFC 5681, 2), in LOSS since the last ACK of more
heard, told            when it last heard an ACK; one that told something: more, blocks, a window
retransmitted_since           it has retransmitted since the last ACK of more
may_be_spurious        the last timeout may turn out to have come too soon (RFC 5682)
first_retransmission           the segment retransmitted by that timeout first; NONE: none,
first_low, first_high  its range,
first_stamp            and its timestamp
srtt ... least_rtt     round trips measured (see `timer`)
rto, told_rto          the timeout (µs); the last one written down
kind                   whose timer it is taken to be
strayed, went_off      by how much in all it went off otherwise than expected, and how often
timer, due             what the timer waits for, and until when
probed                 the highest number when a loss probe was sent that is not answered; or NONE
cwnd ... judged        the congestion window (see `window`)
room ... edges         when it had room, and what the mobile offered when (see `window`)
sent_last              when it last sent new data
busy_since, rested_at, since when it has data to send or unacknowledged, or NONE; since when it had
busy                   none before; for how long it had before (µs)
rwnd_limited           how long the mobile's window alone held it back (µs)
retransmissions, rto_expiries   how often it sent a segment again; its timer went off
limited ... was_busy   what held it back, and for how long (see `limits`)
last_at                when it last heard or sent anything
awaits                 the last ACK came alone, and nothing has been sent since
sample ... highest_bin round trips seen (see `samples`)
"""


class RtoSettings(NamedTuple):
    """What a network's servers are taken to do (µs)."""

    initial_rto: float
    """The timeout before the first sample (RFC 6298, 2.1),"""
    min_rto: float
    """and the least deviation in one (RFC 6298 asks for a timeout of 1 s at least, Linux for a
    deviation of 200 ms)."""

    @classmethod
    def from_seconds(cls, initial_rto_s, min_rto_s):
        return cls(initial_rto_s * 1e6, min_rto_s * 1e6)


class ServerContext(NamedTuple):
    """What is given of a connection."""

    clock: Clock
    rto_settings: RtoSettings
    access_rtt: np.int64
    """The user's least RTT on the access side (µs)."""
    sack: bool
    ids_in_order: bool
    """Its IP IDs tell the order of sending,"""
    ids_exclusive: bool
    """and count its packets alone."""


@inner
def initialize(sender, context, timer_rule):
    """A sender of which nothing was seen, in its Place; kind: whose timer it has."""
    sender.timer_rule = timer_rule
    sender.rto_error_sum, sender.rto_error_count = 0.0, 0
    sender.sack, sender.ids_in_order, sender.ids_exclusive, sender.has_timestamps = (
        context.sack,
        context.ids_in_order,
        context.ids_exclusive,
        False,
    )
    sender.window_scale = sender.rwnd = 0
    sender.max_segment = 1
    sender.snd_una = sender.snd_nxt = sender.highest_sacked = sender.recover = (
        sender.tlp_end_seq
    ) = NONE
    sender.head = sender.tail = sender.inserted = sender.sacked_count = sender.lost_count = (
        sender.dup_acks
    ) = 0
    sender.latest_ip_id, sender.unseen_retransmissions = -1, 0
    sender.state = OPEN
    sender.last_ack_at = sender.last_news_at = sender.new_data_sent_at = NEVER
    sender.retransmitted_since_ack = sender.rto_may_be_spurious = False
    sender.rto_retransmission = sender.rto_ts_val = sender.rto_low = sender.rto_high = NONE
    sender.srtt = sender.min_rtt = sender.recorded_rto = 0.0
    sender.rto = context.rto_settings.initial_rto
    sender.timer, sender.timer_due = NO_TIMER, 0
    sender.busy_since = sender.idle_since = NONE
    sender.busy_time = sender.rwnd_limited = 0.0
    sender.retransmissions = sender.rto_expiries = 0
    sender.awaits_answer = False
    sender.last_event_at = NEVER


@inner
def mark_busy(sender, now):
    """There is data to send."""
    if sender.busy_since == NONE:
        sender.busy_since = now


@inner
def mark_idle(sender, now):
    """There is none, and all is acknowledged."""
    if sender.busy_since != NONE:
        sender.busy_time += max(now - sender.busy_since, 0)
        sender.busy_since = NONE
        sender.idle_since = now


@inner
def close(sender, now):
    """The connection is reset."""
    mark_idle(sender, now)
    sender.head = sender.tail
    sender.timer = NO_TIMER
