"""A sender, as far as it is known."""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.sender.server import Clock
from spark_jobs.estimators.sequence import NONE

OPEN, RECOVERY, LOSS = range(3)
"""Nothing is amiss; a loss told by ACKs is being repaired (RFC 6582, 6675); a timeout's."""

NO_TIMER, TIMEOUT, PROBE, REORDERING = range(4)
"""What the timer waits for: a timeout (RFC 6298), a loss probe (RFC 8985, 7.2), or what may only
have been overtaken (RFC 8985, 6.2, step 5)."""

LIMITS = ("channel", "receiver", "recovery", "slow_start", "server", "mobile")
"""What may hold a transfer up (see `limits`)."""

BEFORE_ANY_LOSS = 1e9
"""The slow start threshold may begin arbitrarily high (RFC 5681, 3.1)."""

LONG_AGO = np.int64(-(2**62))

SENDER = np.dtype(
    [
        ("sack", "?"),
        ("stamps", "?"),
        ("counts", "?"),
        ("own_ids", "?"),
        ("scale", "i8"),
        ("largest", "i8"),
        ("acked", "i8"),
        ("highest", "i8"),
        ("offered", "i8"),
        ("head", "i8"),
        ("tail", "i8"),
        ("pieces", "i8"),
        ("sacked", "i8"),
        ("lost", "i8"),
        ("highest_sacked", "i8"),
        ("latest_id", "i8"),
        ("passed", "i8"),
        ("state", "i8"),
        ("recover", "i8"),
        ("duplicates", "i8"),
        ("heard", "i8"),
        ("told", "i8"),
        ("retransmitted_since", "?"),
        ("may_be_spurious", "?"),
        ("first_retransmission", "i8"),
        ("first_low", "i8"),
        ("first_high", "i8"),
        ("first_stamp", "i8"),
        ("srtt", "f8"),
        ("deviation", "f8"),
        ("most", "f8"),
        ("rttvar", "f8"),
        ("measured_to", "i8"),
        ("least_rtt", "f8"),
        ("rto", "f8"),
        ("told_rto", "f8"),
        ("kind", "i8"),
        ("strayed", "f8"),
        ("went_off", "i8"),
        ("timer", "i8"),
        ("due", "i8"),
        ("probed", "i8"),
        ("cwnd", "f8"),
        ("ssthresh", "f8"),
        ("cwnd_before", "f8"),
        ("ssthresh_before", "f8"),
        ("after_loss", "f8"),
        ("delivered", "i8"),
        ("sent_in_recovery", "i8"),
        ("most_under_way", "i8"),
        ("full", "?"),
        ("flight_before", "i8"),
        ("gained", "i8"),
        ("alone", "?"),
        ("judged", "?"),
        ("room", "f8"),
        ("room_until", "i8"),
        ("has_room", "?"),
        ("ready", "f8"),
        ("edge", "i8"),
        ("edges", "i8"),
        ("sent_last", "i8"),
        ("busy_since", "i8"),
        ("rested_at", "i8"),
        ("busy", "f8"),
        ("rwnd_limited", "f8"),
        ("retransmissions", "i8"),
        ("rto_expiries", "i8"),
        ("limited", "f8", (len(LIMITS),)),
        ("shared_until", "i8"),
        ("asked_at", "i8"),
        ("was_busy", "?"),
        ("last_at", "i8"),
        ("awaits", "?"),
        ("sample", "i8"),
        ("sample_side", "i8"),
        ("sample_flight", "i8"),
        ("sample_delayed", "?"),
        ("kept_at", "i8", (2,)),
        ("kept", "i8", (2,)),
        ("least", "i8", (2,)),
        ("longest", "i8", (2,)),
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


class Rules(NamedTuple):
    """What a network's servers are taken to do (µs)."""

    initial: float
    """The timeout before the first sample (RFC 6298, 2.1),"""
    least: float
    """and the least deviation in one (RFC 6298 asks for a timeout of 1 s at least, Linux for a
    deviation of 200 ms)."""

    @classmethod
    def in_seconds(cls, initial, least):
        return cls(initial * 1e6, least * 1e6)


class Place(NamedTuple):
    """What is given of a connection."""

    clock: Clock
    rules: Rules
    base: np.int64
    """The user's least RTT on the access side (µs)."""
    sack: bool
    counts: bool
    """Its IP IDs tell the order of sending,"""
    own_ids: bool
    """and count its packets alone."""


@inner
def begin(s, place, kind):
    """A sender of which nothing was seen, in its Place; kind: whose timer it has."""
    s.kind = kind
    s.strayed, s.went_off = 0.0, 0
    s.sack, s.counts, s.own_ids, s.stamps = place.sack, place.counts, place.own_ids, False
    s.scale = s.offered = 0
    s.largest = 1
    s.acked = s.highest = s.highest_sacked = s.recover = s.probed = NONE
    s.head = s.tail = s.pieces = s.sacked = s.lost = s.duplicates = 0
    s.latest_id, s.passed = -1, 0
    s.state = OPEN
    s.heard = s.told = s.sent_last = LONG_AGO
    s.retransmitted_since = s.may_be_spurious = False
    s.first_retransmission = s.first_stamp = s.first_low = s.first_high = NONE
    s.srtt = s.least_rtt = s.told_rto = 0.0
    s.rto = place.rules.initial
    s.timer, s.due = NO_TIMER, 0
    s.busy_since = s.rested_at = NONE
    s.busy = s.rwnd_limited = 0.0
    s.retransmissions = s.rto_expiries = 0
    s.awaits = False
    s.last_at = LONG_AGO


@inner
def work(s, now):
    """There is data to send."""
    if s.busy_since == NONE:
        s.busy_since = now


@inner
def rest(s, now):
    """There is none, and all is acknowledged."""
    if s.busy_since != NONE:
        s.busy += max(now - s.busy_since, 0)
        s.busy_since = NONE
        s.rested_at = now


@inner
def close(s, now):
    """The connection is reset."""
    rest(s, now)
    s.head = s.tail
    s.timer = NO_TIMER
