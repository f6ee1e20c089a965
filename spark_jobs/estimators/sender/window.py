"""Congestion window and receive window, and which of them limited the server.

Gi sees the receive window. The congestion window shows in what it lets through. It is no less than
the maximum in flight. It is no more than what was in flight when the server waited for an ACK
though the mobile's window had room. Between these bounds the window is assumed to follow RFC 5681
(slow start, congestion avoidance) or, unless a loss reduced it to half, RFC 9438 (CUBIC, with
HyStart); RFC 7661 (no growth while it is not used) and RFC 6937 (proportional rate reduction).

The mobile's window holds back a segment until the server receives the ACK that makes room for it.
The time counts from when the server sent the segment before. If the server sent that segment as
soon as the window had room for it, the time counts from then. Only time in which the congestion
window had room counts: when both windows were full, the congestion window was the limit. The server
looks at the congestion window when it receives an ACK or new data, not when its timer sends (Linux,
tcp_write_xmit).
"""

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.sender import hystart, rtt_sampling
from spark_jobs.estimators.sender.scoreboard import in_flight
from spark_jobs.estimators.sender.state import INFINITE_SSTHRESH, NEVER, OPEN, RECOVERY
from spark_jobs.estimators.sequence import NONE

EDGE = np.dtype([("number", "i8"), ("time", "i8"), ("room_time", "f8")])
"""Right edge of the mobile's window.

number: first sequence number beyond the window
time: since when the window reaches so far (µs, the server's clock)
room_time: SENDER.room_time at that time
"""

INITIAL_CWND = 10.0
"""Initial congestion window (RFC 6928)."""
RENO_DECREASE = 0.5
"""Share of the congestion window that a loss leaves (RFC 5681, (4))."""
CUBIC_DECREASE = 0.7
"""Share of the congestion window that a loss leaves with CUBIC (RFC 9438, 4.6).

Most servers use CUBIC. So this share is assumed until a window after a loss was observed. Then the
nearer of the two shares is taken.
"""
CUBIC_SCALE = 0.4
"""Growth of CUBIC's window (segments/s^3; RFC 9438, 5.1: C)."""
CUBIC_FRIENDLY = 3 * (1 - CUBIC_DECREASE) / (1 + CUBIC_DECREASE)
"""Segments by which Reno's window grows in an RTT if it is to be as fast as CUBIC's (4.3)."""
CUBIC_MIN_GROWTH = 0.05
"""Minimum share by which CUBIC's window grows in an RTT until a loss sets its origin (Linux)."""


@inner
def initialize(sender):
    """Initialize the windows of a SENDER before its first packet."""
    sender.cwnd = INITIAL_CWND
    sender.ssthresh = INFINITE_SSTHRESH
    sender.prior_cwnd = sender.prior_ssthresh = 0.0
    sender.reduced_at, sender.is_reduced_by_marks, sender.limited_by_marks = NONE, False, 0.0
    sender.decrease_factor = CUBIC_DECREASE
    sender.cubic_since = NEVER
    sender.cubic_last_max = 0.0
    sender.cubic_origin = sender.cubic_period = sender.cubic_friendly = 0.0
    sender.prr_delivered = sender.prr_out = 0
    sender.max_in_flight = sender.in_flight_before_ack = sender.newly_acked = 0
    sender.cwnd_full = sender.cwnd_was_full = sender.ack_after_silence = False
    sender.decrease_unmeasured = False
    sender.observed_cwnd = 0.0
    sender.undo_from, sender.undo_count, sender.undo_ts_val = NONE, 0, NONE
    sender.round_of_use = NONE
    hystart.initialize(sender)
    sender.room_time = sender.room_time_when_ready = sender.room_time_before = 0.0
    sender.room_time_until = sender.room_since = NEVER
    sender.cwnd_has_room = False
    sender.next_edge = sender.edge_count = 0


@inner
def room_time_at(sender, now):
    """Return how long the congestion window had room, until now (µs)."""
    if sender.cwnd_has_room and now > sender.room_time_until:
        return sender.room_time + (now - sender.room_time_until)
    return sender.room_time


@inner
def update_room(sender, now):
    """Update whether the congestion window has room from now on."""
    sender.room_time = room_time_at(sender, now)
    sender.room_time_until = max(now, sender.room_time_until)
    has_room = np.int64(sender.cwnd + 1e-6) > in_flight(sender)
    if has_room and not sender.cwnd_has_room:
        sender.room_since, sender.room_time_before = now, sender.room_time
    sender.cwnd_has_room = has_room


@inner
def _discard_used_room(sender, edges, now, clock):
    """Do not count room in the congestion window that the server used at once.

    It did if the data comes so soon that it answers the ACK that made the room.
    """
    if not sender.cwnd_has_room or now - sender.room_since > clock.jitter:
        return
    sender.room_time = min(sender.room_time, sender.room_time_before)
    sender.room_time_until = max(now, sender.room_time_until)
    k = sender.edge_count - 1
    while k >= sender.next_edge and edges[k].time >= sender.room_since:
        edges[k].room_time = min(edges[k].room_time, sender.room_time)
        k -= 1


@inner
def add_edge(sender, edges, now):
    """Add the right edge of the mobile's window to the EDGE records, if it has advanced."""
    right_edge = sender.snd_una + sender.rwnd
    if sender.edge_count == 0 or right_edge > edges[sender.edge_count - 1].number:
        edge = edges[sender.edge_count]
        edge.number, edge.time, edge.room_time = right_edge, now, sender.room_time
        sender.edge_count += 1


@inner
def on_new_data(sender, edges, end, now, clock):
    """Account for new data up to `end`, and for the time that the mobile's window held it back.

    edges: EDGE[..]; clock: server.Clock.
    """
    while sender.next_edge < sender.edge_count and edges[sender.next_edge].number < end:
        sender.next_edge += 1
    _discard_used_room(sender, edges, now, clock)
    room_time = room_time_at(sender, now)
    if sender.next_edge < sender.edge_count:
        edge = edges[sender.next_edge]
        is_prompt = now - edge.time <= clock.internet_rtt
        _observe_cwnd(sender, edge.time, now, clock)
        if sender.busy_since != NONE or (is_prompt and sender.busy_time > 0):
            sender.rwnd_limited += max(edge.room_time - sender.room_time_when_ready, 0.0)
            if sender.busy_since == NONE:
                sender.busy_since = sender.idle_since
        if is_prompt:
            room_time = edge.room_time
        _sample_internet_rtt(sender, edge.time, now, clock)
    sender.awaits_answer = False
    sender.room_time_when_ready = room_time


@inner
def _sample_internet_rtt(sender, room_offered_at, now, clock):
    """Take the RTT between Gi and the server, from the ACK that this data answers."""
    if sender.state != OPEN:
        return
    released = room_offered_at > sender.new_data_sent_at and sender.busy_since != NONE
    if released or (sender.awaits_answer and now - sender.last_ack_at <= clock.internet_rtt):
        answered_ack_at = room_offered_at if released else sender.last_ack_at
        rtt = now - answered_ack_at + clock.internet_rtt
        rtt_sampling.set_sample(sender, rtt_sampling.INTERNET, rtt, np.int64(0), False)


@inner
def _observe_cwnd(sender, room_offered_at, now, clock):
    """Reduce the congestion window to what was in flight, if it limited the server.

    It did if the mobile's window had room before the last ACK, and the server waited for this ACK.
    Unless a loss has reduced the window, this must happen twice in a row: the ACK that made the
    room may have been lost on the Internet side.
    """
    if room_offered_at >= sender.last_ack_at:
        sender.observed_cwnd = 0.0
        return
    if sender.state != OPEN or not sender.ack_after_silence or sender.in_flight_before_ack < 1:
        return
    if now - sender.last_ack_at > clock.internet_rtt:
        return
    is_expected = sender.decrease_unmeasured or sender.observed_cwnd > 0
    if sender.decrease_unmeasured:
        sender.decrease_unmeasured = False
        ratio = (sender.in_flight_before_ack + 1) / max(sender.prior_cwnd, 1.0)
        is_reno = 2 * ratio < RENO_DECREASE + CUBIC_DECREASE
        sender.has_hystart &= not is_reno
        sender.decrease_factor = RENO_DECREASE if is_reno else CUBIC_DECREASE
    observed = float(sender.in_flight_before_ack + max(sender.newly_acked, 1))
    if is_expected:
        sender.cwnd = min(sender.cwnd, max(observed, sender.observed_cwnd))
    sender.observed_cwnd = observed
    sender.ack_after_silence = False


@inner
def update_full(sender):
    """Update whether the congestion window is full, and was in this round, after new data.

    A round ends when the data is acknowledged that was sent last when the window was full (Linux,
    tcp_cwnd_validate).
    """
    in_flight_now, unacked = in_flight(sender), sender.tail - sender.head
    if sender.state == OPEN and sender.reduced_at == NONE and in_flight_now > sender.cwnd:
        sender.cwnd = float(in_flight_now)
    sender.cwnd_full = in_flight_now >= np.int64(sender.cwnd + 1e-6)
    is_peak = not sender.cwnd_was_full and unacked > sender.max_in_flight
    if sender.cwnd_full or is_peak or sender.snd_una >= sender.round_of_use:
        sender.cwnd_was_full, sender.max_in_flight = sender.cwnd_full, unacked
        sender.round_of_use = sender.snd_nxt


@inner
def grow(sender, delivered, advanced, now):
    """Update the congestion window after an ACK.

    delivered: segments that the ACK shows to have arrived; advanced: whether it acknowledges new
    data.
    """
    if sender.state == RECOVERY or sender.reduced_at != NONE:
        _reduce_rate(sender, delivered, advanced)
    elif advanced:
        threshold = min(sender.ssthresh, sender.slow_start_until)
        in_slow_start = sender.cwnd < threshold
        if not sender.cwnd_was_full and not (
            in_slow_start and sender.cwnd < 2 * sender.max_in_flight
        ):
            return
        cwnd = min(sender.cwnd + delivered, threshold) if in_slow_start else sender.cwnd
        delivered_since = delivered - (cwnd - sender.cwnd)
        sender.cwnd = cwnd
        if delivered_since > 0:
            _avoid_congestion(sender, delivered_since, now)


@inner
def _avoid_congestion(sender, delivered, now):
    """Let the congestion window grow outside slow start."""
    if sender.decrease_factor == CUBIC_DECREASE:
        _grow_by_cubic(sender, delivered, now)
    else:
        sender.cwnd += delivered / max(sender.cwnd, 1.0)


@inner
def _grow_by_cubic(sender, delivered, now):
    """Let the congestion window grow as RFC 9438, 4.2 to 4.5 ask."""
    cwnd = max(sender.cwnd, 1.0)
    if sender.cubic_since == NEVER:
        sender.cubic_since, sender.cubic_friendly = now, cwnd
        sender.cubic_origin = max(sender.cubic_last_max, cwnd)
        sender.cubic_period = np.cbrt((sender.cubic_origin - cwnd) / CUBIC_SCALE)
    time = (now - sender.cubic_since + sender.min_rtt) / 1e6 - sender.cubic_period
    target = min(sender.cubic_origin + CUBIC_SCALE * time**3, 1.5 * cwnd)
    sender.cubic_friendly += CUBIC_FRIENDLY * delivered / cwnd
    growth = max(target - cwnd, 0.0)
    if sender.cubic_last_max == 0:
        growth = max(growth, CUBIC_MIN_GROWTH * cwnd)
    sender.cwnd = max(cwnd + growth * delivered / cwnd, sender.cubic_friendly)


@inner
def _reduce_rate(sender, delivered, advanced):
    """Set the congestion window by proportional rate reduction (RFC 6937, 3)."""
    sender.prr_delivered += delivered
    in_flight_now = in_flight(sender)
    if in_flight_now > sender.ssthresh:
        target = sender.ssthresh * sender.prr_delivered / max(sender.prior_cwnd, 1.0)
        allowed = np.ceil(target) - sender.prr_out
    else:
        allowed = float(max(sender.prr_delivered - sender.prr_out, delivered) + advanced)
        allowed = min(sender.ssthresh - in_flight_now, allowed)
    sender.cwnd = in_flight_now + max(allowed, 0.0 if sender.prr_out else 1.0)


@inner
def begin_recovery(sender):
    """Reduce the windows after a loss that ACKs showed."""
    if sender.reduced_at == NONE:
        _reduce_ssthresh(sender)
    sender.reduced_at, sender.is_reduced_by_marks = NONE, False
    sender.undo_from, sender.undo_count, sender.undo_ts_val = sender.snd_una, 0, NONE
    sender.observed_cwnd = 0.0
    sender.prr_delivered = sender.prr_out = 0
    sender.decrease_unmeasured = True
    _reduce_rate(sender, 1, False)


@inner
def update_reduction(sender, reports_marks):
    """Begin to reduce the windows after an ACK that reports marks, or end it after a round trip.

    Until then further marks have no effect (RFC 3168, 6.1.2; RFC 9768, 3.2).
    """
    if sender.reduced_at != NONE and sender.snd_una >= sender.reduced_at:
        sender.reduced_at = NONE
        end_recovery(sender)
    if reports_marks and sender.state == OPEN and sender.reduced_at == NONE:
        _reduce_ssthresh(sender)
        sender.prr_delivered = sender.prr_out = 0
        sender.observed_cwnd, sender.decrease_unmeasured = 0.0, True
        sender.reduced_at, sender.is_reduced_by_marks = sender.snd_nxt, True


@inner
def reduce_to_one(sender, repeated):
    """Reduce the congestion window to one segment after an RTO expiry.

    repeated: the timer expired again before the lost data was repaired.
    """
    if not repeated:
        _reduce_ssthresh(sender)
    sender.cwnd = 1.0
    sender.reduced_at, sender.is_reduced_by_marks = NONE, False
    sender.undo_from = NONE
    sender.cubic_last_max = 0.0  # RFC 9438, 4.8
    hystart.restart(sender)


@inner
def _reduce_ssthresh(sender):
    sender.prior_cwnd, sender.prior_ssthresh = np.floor(sender.cwnd + 1e-6), sender.ssthresh
    converges = sender.prior_cwnd < sender.cubic_last_max  # RFC 9438, 4.7
    sender.cubic_last_max = sender.prior_cwnd * ((1 + CUBIC_DECREASE) / 2 if converges else 1.0)
    sender.cubic_since = NEVER
    sender.ssthresh = max(np.floor(sender.prior_cwnd * sender.decrease_factor), 2.0)


@inner
def undo(sender):
    """Restore both windows: there was no loss (RFC 4015)."""
    sender.cwnd, sender.ssthresh = max(sender.cwnd, sender.prior_cwnd), sender.prior_ssthresh
    sender.undo_from = NONE
    sender.decrease_unmeasured = False


@inner
def end_recovery(sender):
    """Set the congestion window after recovery."""
    sender.cwnd = max(sender.ssthresh, 1.0)
