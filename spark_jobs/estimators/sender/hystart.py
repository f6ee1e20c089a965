"""End of slow start before a loss: HyStart, as Linux's CUBIC has it (RFC 9406 describes a variant).

Slow start ends when the RTT of a round has grown, or when ACKs have followed each other closely for
half of the smallest RTT: then what is in flight fills the path. It matters where the mobile's
window hides how far the congestion window has grown.
"""

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.sender.state import INFINITE_SSTHRESH, NEVER
from spark_jobs.estimators.sequence import NONE

MIN_CWND = 16
"""Congestion window from which on slow start may end (segments)."""
MIN_SAMPLES = 8
"""RTT samples of a round before its smallest RTT counts."""
MIN_INCREASE_US, MAX_INCREASE_US = 4_000.0, 16_000.0
"""Limits of the increase of the RTT that ends slow start.

Between them it is an eighth of the smallest RTT (µs).
"""
MAX_ACK_GAP_US = 2_000
"""Maximum time between the ACKs of a train (µs)."""
MAX_ACK_DELAY_US = 1_000
"""Twice the time by which a train must last longer than half of the smallest RTT (µs)."""


@inner
def initialize(sender):
    """Initialize HyStart before the first packet."""
    sender.has_hystart = True
    restart(sender)


@inner
def restart(sender):
    """Look for the end of slow start again, after an RTO expiry."""
    sender.slow_start_until = INFINITE_SSTHRESH
    sender.data_rtt_min = np.inf
    sender.round_end = NONE
    sender.round_began_at = sender.train_ack_at = NEVER
    sender.round_rtt_min, sender.round_samples = np.inf, 0


@inner
def on_rtt(sender, rtt, now):
    """Set `slow_start_until` if this RTT sample (µs) or the ACK at `now` ends slow start."""
    sender.data_rtt_min = min(sender.data_rtt_min, rtt)
    if not sender.has_hystart or sender.cwnd >= min(sender.ssthresh, sender.slow_start_until):
        return
    if sender.snd_una > sender.round_end:
        sender.round_end = sender.snd_nxt
        sender.round_began_at = sender.train_ack_at = now
        sender.round_rtt_min, sender.round_samples = np.inf, 0
    if sender.cwnd < MIN_CWND:
        return
    ends = False
    if now - sender.train_ack_at <= MAX_ACK_GAP_US:
        sender.train_ack_at = now
        ends = 2 * (now - sender.round_began_at) > sender.data_rtt_min + MAX_ACK_DELAY_US
    sender.round_rtt_min = min(sender.round_rtt_min, rtt)
    if sender.round_samples < MIN_SAMPLES:
        sender.round_samples += 1
    else:
        increase = min(max(sender.data_rtt_min / 8, MIN_INCREASE_US), MAX_INCREASE_US)
        ends |= sender.round_rtt_min > sender.data_rtt_min + increase
    if ends:
        sender.slow_start_until = sender.cwnd
