"""Which window held the sender back: its own, or the mobile's.

The mobile's is seen. Of the congestion window Gi sees what it lets through: no less than was ever
in flight at once, no more than was in flight when the sender waited for an ACK though the mobile
offered room. Between the two it is taken to follow RFC 5681 (slow start, congestion avoidance),
RFC 7661 (no growth while it is not used) and RFC 6937 (proportional rate reduction).

The mobile's window held back a segment from when the one before it was sent until the ACK that
offered room for it was heard, or, if it went at once, from when room was offered for the one before
it; as far as the congestion window would have let it go. Where both were full, the congestion
window was; and which it was, is looked at when the sender hears or is given data, not when its
timer sends (Linux, tcp_write_xmit).
"""

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.sender import samples
from spark_jobs.estimators.sender.flight import in_flight
from spark_jobs.estimators.sender.state import BEFORE_ANY_LOSS, LONG_AGO, OPEN, RECOVERY
from spark_jobs.estimators.sequence import NONE

EDGE = np.dtype([("number", "i8"), ("at", "i8"), ("room", "f8")])
"""Up to where the mobile offered room, since when (µs, the server's clock), and SENDER.room of
then."""

INITIAL = 10.0
"""The initial window (RFC 6928)."""
AFTER_LOSS = 0.5
"""What a loss leaves of the congestion window (RFC 5681, (4)),"""
AFTER_LOSS_CUBIC = 0.7
"""and with CUBIC (RFC 9438, 4.6), as most servers have it: so it is taken to be until a window was
seen after a loss. What lies nearer to the one than to the other is its."""


@inner
def begin(s):
    """The windows of a sender of which nothing was seen."""
    s.cwnd = INITIAL
    s.ssthresh = BEFORE_ANY_LOSS
    s.cwnd_before = s.ssthresh_before = 0.0
    s.after_loss = AFTER_LOSS_CUBIC
    s.delivered = s.sent_in_recovery = s.most_under_way = s.flight_before = s.gained = 0
    s.full = s.alone = s.judged = False
    s.room = s.ready = 0.0
    s.room_until = LONG_AGO
    s.has_room = False
    s.edge = s.edges = 0


@inner
def room_at(s, now):
    """For how long the congestion window had room, until now (µs)."""
    if s.has_room and now > s.room_until:
        return s.room + (now - s.room_until)
    return s.room


@inner
def look(s, now):
    """From now on: whether the congestion window has room."""
    s.room = room_at(s, now)
    s.room_until = max(now, s.room_until)
    s.has_room = np.int64(s.cwnd + 1e-6) > in_flight(s)


@inner
def offer(s, edges, now):
    """The mobile offers a window."""
    number = s.acked + s.offered
    if s.edges == 0 or number > edges[s.edges - 1].number:
        edge = edges[s.edges]
        edge.number, edge.at, edge.room = number, now, s.room
        s.edges += 1


@inner
def use(s, edges, end, now, clock):
    """New data up to `end` is sent; what held it back until now counts."""
    while s.edge < s.edges and edges[s.edge].number < end:
        s.edge += 1
    ready = room_at(s, now)
    if s.edge < s.edges:
        edge = edges[s.edge]
        prompt = now - edge.at <= clock.round_trip
        _notice_limit(s, edge.at, now, clock)
        if s.busy_since != NONE or (prompt and s.busy > 0):
            s.rwnd_limited += max(edge.room - s.ready, 0.0)
            if s.busy_since == NONE:
                s.busy_since = s.rested_at
        if prompt:
            ready = edge.room
        _see_round_trip(s, edge.at, now, clock)
    s.awaits = False
    s.ready = ready


@inner
def _see_round_trip(s, offered_at, now, clock):
    """The round trip between Gi and the server, of the ACK that this data answers."""
    if s.state != OPEN:
        return
    released = offered_at > s.sent_last and s.busy_since != NONE
    if released or (s.awaits and now - s.heard <= clock.round_trip):
        answered = offered_at if released else s.heard
        rtt = now - answered + clock.round_trip
        samples.take(s, samples.INTERNET, rtt, np.int64(0), False)


@inner
def _notice_limit(s, offered_at, now, clock):
    """The mobile had offered room before the last ACK, yet the sender waited for that: so much and
    no more was its window."""
    if s.state != OPEN or not s.alone or s.flight_before < 1:
        return
    if offered_at >= s.heard or now - s.heard > clock.round_trip:
        return
    if s.judged:
        s.judged = False
        left = (s.flight_before + 1) / max(s.cwnd_before, 1.0)
        reno = 2 * left < AFTER_LOSS + AFTER_LOSS_CUBIC
        s.after_loss = AFTER_LOSS if reno else AFTER_LOSS_CUBIC
    s.cwnd = min(s.cwnd, float(s.flight_before + max(s.gained, 1)))
    s.alone = False


@inner
def fill(s):
    """New data was sent: the window holds it, and is full or not."""
    flight = in_flight(s)
    if s.state == OPEN:
        s.cwnd = max(s.cwnd, float(flight))
    s.most_under_way = max(s.most_under_way, s.tail - s.head)
    s.full = flight >= np.int64(s.cwnd + 1e-6)


@inner
def grow(s, delivered, advanced):
    """An ACK was heard, by which so many segments are known to have been delivered."""
    if s.state == RECOVERY:
        _reduce(s, delivered, advanced)
    elif advanced and s.cwnd < s.ssthresh:
        if s.full or s.cwnd < 2 * s.most_under_way:
            s.cwnd += delivered
    elif advanced and s.full:
        s.cwnd += delivered / max(s.cwnd, 1.0)
    if advanced:
        s.most_under_way = s.tail - s.head


@inner
def _reduce(s, delivered, advanced):
    """Proportional rate reduction (RFC 6937, 3)."""
    s.delivered += delivered
    flight = in_flight(s)
    if flight > s.ssthresh:
        share = s.ssthresh * s.delivered / max(s.cwnd_before, 1.0)
        more = np.ceil(share) - s.sent_in_recovery
    else:
        more = float(max(s.delivered - s.sent_in_recovery, delivered) + advanced)
        more = min(s.ssthresh - flight, more)
    s.cwnd = flight + max(more, 0.0 if s.sent_in_recovery else 1.0)


@inner
def begin_recovery(s):
    """ACKs tell of a loss."""
    _remember(s)
    s.delivered = s.sent_in_recovery = 0
    s.judged = True
    _reduce(s, 1, False)


@inner
def time_out(s, again):
    """A timeout; again: one more before what is lost is repaired."""
    if not again:
        _remember(s)
    s.cwnd = 1.0


@inner
def _remember(s):
    s.cwnd_before, s.ssthresh_before = s.cwnd, s.ssthresh
    s.ssthresh = max(s.cwnd * s.after_loss, 2.0)


@inner
def undo(s):
    """There was no loss (RFC 4015)."""
    s.cwnd, s.ssthresh = max(s.cwnd, s.cwnd_before), s.ssthresh_before


@inner
def end_recovery(s):
    """All is repaired that was lost."""
    s.cwnd = max(s.ssthresh, 1.0)
