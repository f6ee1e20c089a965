"""The state of a server's TCP, as far as Gi can infer it."""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.sender.server import Clock
from spark_jobs.estimators.sequence import NONE

OPEN, RECOVERY, LOSS = range(3)
"""Congestion states of a sender.

OPEN: no loss is known.
RECOVERY: the sender repairs a loss that ACKs showed (RFC 6582, 6675).
LOSS: the sender retransmits after an RTO expiry (RFC 6298).
"""

NO_TIMER, RTO_TIMER, PROBE_TIMER, REORDERING_TIMER = range(4)
"""Events that the timer waits for.

NO_TIMER: none, the timer is stopped.
RTO_TIMER: the RTO expiry (RFC 6298).
PROBE_TIMER: the time for a loss probe (RFC 8985, 7.2).
REORDERING_TIMER: segments that may only be reordered (RFC 8985, 6.2, step 5).
"""

LIMITS = ("channel", "receiver", "recovery", "slow_start", "server", "mobile")
"""Limits of a transfer: what can hold it back (see `limits`)."""

INFINITE_SSTHRESH = 1e9
"""Slow start threshold before any loss: arbitrarily high (RFC 5681, 3.1)."""

NEVER = np.int64(-(2**62))
"""Time of an event that has not happened (µs)."""

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
        ("work", "i8"),
        ("highest_sacked", "i8"),
        ("latest_ip_id", "i8"),
        ("unseen_retransmissions", "i8"),
        ("state", "i8"),
        ("recover", "i8"),
        ("dup_acks", "i8"),
        ("last_ack_at", "i8"),
        ("last_news_at", "i8"),
        ("advanced_at", "i8"),
        ("partial_ack_at", "i8"),
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
        ("measured_rto", "f8"),
        ("recorded_rto", "f8"),
        ("timer_rule", "i8"),
        ("rto_error_sum", "f8"),
        ("rto_error_count", "i8"),
        ("timer", "i8"),
        ("timer_due", "i8"),
        ("tlp_end_seq", "i8"),
        ("pmtu_end", "i8"),
        ("pmtu_next", "i8"),
        ("cwnd", "f8"),
        ("ssthresh", "f8"),
        ("prior_cwnd", "f8"),
        ("prior_ssthresh", "f8"),
        ("decrease_factor", "f8"),
        ("cubic_since", "i8"),
        ("cubic_last_max", "f8"),
        ("cubic_origin", "f8"),
        ("cubic_period", "f8"),
        ("cubic_friendly", "f8"),
        ("reduced_at", "i8"),
        ("is_reduced_by_marks", "?"),
        ("undo_from", "i8"),
        ("undo_count", "i8"),
        ("undo_ts_val", "i8"),
        ("prr_delivered", "i8"),
        ("prr_out", "i8"),
        ("max_in_flight", "i8"),
        ("cwnd_full", "?"),
        ("cwnd_was_full", "?"),
        ("round_of_use", "i8"),
        ("has_hystart", "?"),
        ("slow_start_until", "f8"),
        ("data_rtt_min", "f8"),
        ("round_end", "i8"),
        ("round_began_at", "i8"),
        ("round_rtt_min", "f8"),
        ("round_samples", "i8"),
        ("train_ack_at", "i8"),
        ("in_flight_before_ack", "i8"),
        ("newly_acked", "i8"),
        ("ack_after_silence", "?"),
        ("decrease_unmeasured", "?"),
        ("observed_cwnd", "f8"),
        ("room_time", "f8"),
        ("room_time_until", "i8"),
        ("cwnd_has_room", "?"),
        ("room_since", "i8"),
        ("room_time_before", "f8"),
        ("room_time_when_ready", "f8"),
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
        ("limited_by_marks", "f8"),
        ("attributed_until", "i8"),
        ("requested_at", "i8"),
        ("link_was_busy", "?"),
        ("last_event_at", "i8"),
        ("awaits_answer", "?"),
        ("had_cause", "?"),
        ("sample_rtt", "i8"),
        ("sample_side", "i8"),
        ("sample_flight", "i8"),
        ("sample_delayed", "?"),
        ("recorded_at", "i8", (2,)),
        ("recorded_rtt", "i8", (2,)),
        ("sample_min", "i8", (2,)),
        ("sample_max", "i8", (2,)),
        ("sample_sum", "f8", (2,)),
        ("sample_squares", "f8", (2,)),
        ("lowest_bin", "i8", (2,)),
        ("highest_bin", "i8", (2,)),
    ]
)
"""State of one server.

Sequence numbers are those of the downlink stream. Times are µs of the server's clock. Windows are
in segments, if not said otherwise.

The connection:
  sack                     it uses SACK
  has_timestamps           it uses TCP timestamps
  ids_in_order             IP IDs show the order of sending
  ids_exclusive            IP IDs count packets of this connection alone
  window_scale             shift of the mobile's window (RFC 7323)
  max_segment              largest segment (B)

The scoreboard (see `scoreboard`):
  snd_una                  highest ACK that the server received
  snd_nxt                  highest sequence number sent, plus one
  rwnd                     window that the mobile advertised last (B)
  head, tail               SENT[head:tail] are the segments in flight
  inserted                 segments added for data that Gi has not seen (see `transmissions`)
  sacked_count             segments in flight that SACK blocks reported
  lost_count               segments in flight that count as lost and were not retransmitted
  work                     segments that were looked at again so far
  highest_sacked           highest sequence number that SACK blocks reported
  latest_ip_id             latest IP ID; -1: none yet
  unseen_retransmissions   missing IP IDs that count as retransmissions for now

Loss detection and recovery:
  state                    OPEN, RECOVERY or LOSS
  recover                  sequence number whose ACK ends RECOVERY or LOSS (RFC 6582)
  dup_acks                 duplicate ACKs (RFC 5681, 2); in LOSS: since the last cumulative ACK
  last_ack_at              when the server received its last ACK
  last_news_at             when it last received an ACK of new data, new SACK blocks or a new window
  advanced_at              when it received its last cumulative ACK of new data
  partial_ack_at           when it received the first partial ACK of this RECOVERY; or NEVER
  retransmitted_since_ack  it has retransmitted since the last cumulative ACK
  rto_may_be_spurious      the last RTO expiry may turn out to be spurious (RFC 5682)
  rto_retransmission       segment that the last RTO expiry retransmitted first; NONE: none
  rto_low, rto_high        sequence range of this segment
  rto_ts_val               timestamp of this retransmission

The timer (see `timer`):
  srtt, mdev, mdev_max, rttvar, rtt_seq   RTT estimator, as in Linux (µs; rtt_seq: a number)
  min_rtt                  smallest RTT sample (µs)
  rto                      RTO (µs)
  measured_rto             RTO after the last RTT sample: not doubled by expiries (µs)
  recorded_rto             RTO that was recorded last (µs)
  timer_rule               rule that the timer follows, into timer.TIMER_RULES
  rto_error_sum            sum of |log(observed / expected RTO)| over RTO expiries
  rto_error_count          RTO expiries in this sum
  timer                    event that the timer waits for: NO_TIMER to REORDERING_TIMER
  timer_due                when the timer expires
  pmtu_end                 snd_nxt when ICMP made the server retransmit all in flight; or NONE
  pmtu_next                the next of these retransmissions; or NONE
  tlp_end_seq              snd_nxt when an unanswered loss probe was sent (RFC 8985, 7); or NONE

The congestion window (see `window`):
  cwnd, ssthresh           congestion window and slow start threshold
  prior_cwnd, prior_ssthresh   both before the last reduction
  reduced_at               snd_nxt when marks of ECN began to reduce the window; NONE after its ACK
  is_reduced_by_marks      the last reduction was by marks
  decrease_factor          share of the congestion window that a loss leaves
  cubic_since              when CUBIC's growth after a reduction began; or NEVER (see `window`)
  cubic_last_max           window before the last reduction, or less (RFC 9438, 4.7); 0: none
  cubic_origin             window at which CUBIC's growth is slowest
  cubic_period             time after which it is reached (s)
  cubic_friendly           window that Reno would have
  undo_from                snd_una when the last recovery began, while it may be undone; or NONE
  undo_count               its retransmissions that no D-SACK has reported
  undo_ts_val              timestamp of the first of them; or NONE
  prr_delivered, prr_out   segments delivered and sent in this recovery (RFC 6937)
  max_in_flight            maximum of segments unacknowledged in this round
  cwnd_full                the congestion window was full when the server last sent
  cwnd_was_full            it was full in this round
  round_of_use             number whose acknowledgment ends this round; or NONE
  in_flight_before_ack     segments in flight before the last ACK
  newly_acked              segments that the last ACK acknowledged
  ack_after_silence        the last ACK came an Internet-side RTT or more after other packets
  decrease_unmeasured      no window was observed since the last loss
  observed_cwnd            window that the last wait for an ACK showed; 0: none since the mobile's
                           window limited the server
  room_time                how long the congestion window had room, until room_time_until (µs)
  room_time_until          end of the time that room_time covers
  cwnd_has_room            the congestion window has room now
  room_since               since when it has room
  room_time_before         room_time at that time (µs)
  room_time_when_ready     room_time when the last new data could be sent (µs)
  next_edge, edge_count    index of the EDGE that new data needs; number of EDGE records
  new_data_sent_at         when the server last sent new data

The end of slow start (see `hystart`):
  has_hystart              the server's slow start may end before a loss
  slow_start_until         congestion window at which it ended so
  data_rtt_min             smallest RTT of data (µs)
  round_end                number whose acknowledgment ends the round; or NONE
  round_began_at           when the round began
  round_rtt_min, round_samples   smallest RTT of the round (µs); number of its samples
  train_ack_at             the last ACK of the train that began with the round

Times that are summed up:
  busy_since               since when it has data to send or in flight; or NONE
  idle_since               since when it had neither before
  busy_time                how long it was busy before busy_since (µs)
  rwnd_limited             how long the mobile's window alone limited it (µs)
  retransmissions          segments retransmitted
  rto_expiries             RTO expiries
  limited                  how long each limit held the transfer back (µs; see `limits`)
  limited_by_marks         part of it in which the limit was a window that marks had reduced (µs)
  attributed_until         end of the time that is attributed to limits
  requested_at             when the mobile sent its first data since the last idle period
  link_was_busy            the access link was busy before the last ACK
  last_event_at            when the server last received or sent a packet
  had_cause                whether it had a cause to retransmit since its last packet that Gi saw
  awaits_answer            the last ACK came after a silence, and nothing was sent since

RTT samples (see `rtt_sampling`; pairs: access side, Internet side):
  sample_rtt, sample_side, sample_flight, sample_delayed   the last sample; sample_rtt NONE: none
  recorded_at, recorded_rtt   end and RTT of the last sample that was recorded
  sample_min, sample_max   smallest and largest sample (µs)
  sample_sum, sample_squares  sums of the samples (µs) and of their squares
  lowest_bin, highest_bin  range of histogram bins in use
"""


class RtoSettings(NamedTuple):
    """Retransmission timer settings of a network's servers (µs)."""

    initial_rto: float
    """RTO before the first RTT sample (RFC 6298, 2.1)."""
    min_rto: float
    """Minimum RTO by RFC 6298, or minimum of the RTT deviation by Linux.

    RFC 6298 asks for an RTO of at least 1 s. Linux adds at least 200 ms to the smoothed RTT.
    """

    @classmethod
    def from_seconds(cls, initial_rto_s, min_rto_s):
        """Return the RtoSettings for times in seconds."""
        return cls(initial_rto_s * 1e6, min_rto_s * 1e6)


class ServerContext(NamedTuple):
    """Properties of a connection that the replay takes as known."""

    clock: Clock
    rto_settings: RtoSettings
    access_rtt: np.int64
    """Base RTT of the user on the access side (µs)."""
    sack: bool
    """True if the connection uses SACK."""
    ids_in_order: bool
    """True if IP IDs show the order of sending."""
    ids_exclusive: bool
    """True if IP IDs count packets of this connection alone."""


@inner
def initialize(sender, context, timer_rule):
    """Initialize a SENDER before its first packet.

    context: ServerContext; timer_rule: into timer.TIMER_RULES.
    """
    sender.timer_rule = timer_rule
    sender.rto_error_sum, sender.rto_error_count = 0.0, 0
    sender.sack, sender.has_timestamps = context.sack, False
    sender.ids_in_order, sender.ids_exclusive = context.ids_in_order, context.ids_exclusive
    sender.window_scale = sender.rwnd = 0
    sender.max_segment = 1
    sender.snd_una = sender.snd_nxt = sender.highest_sacked = NONE
    sender.recover = sender.tlp_end_seq = sender.pmtu_end = sender.pmtu_next = NONE
    sender.head = sender.tail = sender.inserted = sender.work = 0
    sender.sacked_count = sender.lost_count = sender.dup_acks = 0
    sender.latest_ip_id, sender.unseen_retransmissions = -1, 0
    sender.state = OPEN
    sender.last_ack_at = sender.last_news_at = sender.new_data_sent_at = NEVER
    sender.advanced_at = sender.partial_ack_at = NEVER
    sender.retransmitted_since_ack = sender.rto_may_be_spurious = False
    sender.rto_retransmission = sender.rto_ts_val = sender.rto_low = sender.rto_high = NONE
    sender.srtt = sender.min_rtt = sender.recorded_rto = 0.0
    sender.rto = sender.measured_rto = context.rto_settings.initial_rto
    sender.timer, sender.timer_due = NO_TIMER, 0
    sender.busy_since = sender.idle_since = NONE
    sender.busy_time = sender.rwnd_limited = 0.0
    sender.retransmissions = sender.rto_expiries = 0
    sender.awaits_answer = sender.had_cause = False
    sender.last_event_at = NEVER


@inner
def mark_busy(sender, now):
    """Record that the server has data to send."""
    if sender.busy_since == NONE:
        sender.busy_since = now


@inner
def mark_idle(sender, now):
    """Record that the server has nothing to send and nothing in flight."""
    if sender.busy_since != NONE:
        sender.busy_time += max(now - sender.busy_since, 0)
        sender.busy_since = NONE
        sender.idle_since = now


@inner
def close(sender, now):
    """Stop the server at a reset or at the end of the connection."""
    mark_idle(sender, now)
    sender.head = sender.tail
    sender.timer = NO_TIMER
