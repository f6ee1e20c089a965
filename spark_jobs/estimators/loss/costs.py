"""What speaks against a history of the receiver: negative logarithms of probabilities, rounded."""

import numpy as np

from spark_jobs.compiled import inner

LOSS = 3.9
"""A loss: one in fifty."""
CONSECUTIVE_LOSS = 1.4
"""A loss right after another: buffers overflow and radio fails for some packets in a row."""
LOST_ACK = 4.6
"""An ACK that Gi never saw: one in a hundred."""
UNSENT_ACK = 8.0
"""The same where IP IDs tell that the mobile sent none: what called for an ACK did not come, or
stacks differ. Where they tell that it did, it is no wonder, and"""
POSSIBLY_SENT_ACK = 0.7
"""little where it may have been another connection's."""
UNPROMPTED_ACK = 1.0
"""What the mobile sent, by its IP IDs, that Gi never saw and no arrival called for."""
COMPRESSED_ACK = 2.0
"""The same with SACK, where Linux sends one ACK for several arrivals at high rates."""
STRETCH_ACK = 2.0
"""More in-order segments than FULL_SEGMENTS_OWED without an ACK."""
UNEXPLAINED_DUP_ACK = 6.0
"""A duplicate ACK that no arrival explains;"""
UNEXPLAINED_SACK = 15.0
"""one that names blocks;"""
WINDOW_UPDATE = 1.0
"""one that moves the window (RFC 9293, 3.8.6)."""
DUP_ACK_MOVES_WINDOW = 1.5
"""A duplicate ACK for data that also moves the window."""
ACK_MISMATCH = 7.0
"""A SACK block or an echoed timestamp that the hypothesis would not send; an ACK of a state that it
passed without sending it."""
ACK_OF_MISSING_DATA = 30.0
"""An ACK of data that has not arrived."""
LATE_ACK, MAX_LATE_RTTS = 0.7, 4.0
"""An ACK later than a FIFO's turn, for each base round trip and at most for so many."""
OVERFLOW_LOSS, LOSS_WITH_ROOM = 0.7, 0.5
"""A loss when the queue of the access link is full; more for each packet that it had room for."""
LONG_RTT_THRESHOLD, LONG_RTT, MAX_LONG_RTT = 1.0, 20.0, 4.0
"""A queue longer than it ever was for certain: for each time its length, and at most."""


@inner
def missing_ack_cost(unseen_count, shared):
    """What it costs that an arrival was not acknowledged, if the mobile has sent so many packets
    since then that Gi never saw (NOT_TOLD: who knows), other connections' perhaps among them."""
    if unseen_count < 0:
        return LOST_ACK
    if unseen_count == 0:
        return UNSENT_ACK
    return POSSIBLY_SENT_ACK if shared else 0.0


@inner
def long_rtt_cost(rtt, path):
    """What a round trip longer than the longest costs."""
    if path.max_rtt <= 0 or rtt <= LONG_RTT_THRESHOLD * path.max_rtt:
        return 0.0
    return min((rtt / path.max_rtt - LONG_RTT_THRESHOLD) * LONG_RTT, MAX_LONG_RTT)


@inner
def overflow_loss_cost(rtt, path, service_time):
    """What the loss of a copy costs at most, if it would have had this round trip."""
    if path.max_rtt <= 0 or service_time <= 0:
        return np.inf
    return OVERFLOW_LOSS + LOSS_WITH_ROOM * max(
        (path.max_rtt - rtt) / max(service_time, path.jitter) - 1.0, 0.0
    )
