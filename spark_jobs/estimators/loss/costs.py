"""Costs of the events in a history of the receiver.

A cost is the negative logarithm of the event's probability, rounded.
"""

import numpy as np

from spark_jobs.compiled import inner

LOSS = 3.9
"""A loss: one packet in fifty."""
CONSECUTIVE_LOSS = 1.4
"""A loss right after another: buffers overflow, and radio fails, for several packets in a row."""
LOST_ACK = 4.6
"""An ACK that was due and that Gi did not see: one in a hundred."""
UNSENT_ACK = 8.0
"""An ACK that was due and that the mobile did not send, according to its IP IDs.

Then the segment that called for the ACK did not arrive, or the mobile's stack differs.
"""
POSSIBLY_SENT_ACK = 0.7
"""An ACK that was due and that Gi did not see, if a missing IP ID may be this ACK's.

The missing ID may also be that of another connection's packet. An ACK that the mobile certainly
sent costs nothing.
"""
UNPROMPTED_ACK = 1.0
"""A packet that no arrival called for: the mobile sent it, by its IP IDs, but Gi did not see it."""
COMPRESSED_ACK = 2.0
"""An ACK that was due and that Gi did not see, with SACK.

At high rates Linux sends one SACK for several arrivals.
"""
STRETCH_ACK = 2.0
"""A segment in order that exceeds `receiver.SEGMENTS_PER_ACK` without an ACK (RFC 2525, 2.13)."""
UNEXPLAINED_DUP_ACK = 6.0
"""A duplicate ACK that no arrival explains."""
UNEXPLAINED_SACK = 15.0
"""A duplicate ACK with SACK blocks that no arrival explains."""
WINDOW_UPDATE = 1.0
"""A duplicate ACK that no arrival explains and that changes the window (RFC 9293, 3.8.6)."""
DUP_ACK_MOVES_WINDOW = 1.5
"""A duplicate ACK that an arrival explains and that also changes the window."""
ACK_MISMATCH = 7.0
"""A SACK block or an echoed timestamp that the hypothesis would not send.

Also an ACK with a number that the hypothesis reached without sending an ACK.
"""
ACK_OF_MISSING_DATA = 30.0
"""An ACK of data that has not arrived."""
LATE_ACK, MAX_LATE_RTTS = 0.7, 4.0
"""An ACK later than its turn in the FIFO.

LATE_ACK: cost for each base RTT.
MAX_LATE_RTTS: the maximum number of base RTTs.
"""
OVERFLOW_LOSS, LOSS_WITH_ROOM = 0.7, 0.5
"""A loss at the queue of the access link.

OVERFLOW_LOSS: cost if the queue is full.
LOSS_WITH_ROOM: further cost for each packet for which the queue had room.
"""
LONG_RTT_THRESHOLD, LONG_RTT, MAX_LONG_RTT = 1.0, 20.0, 4.0
"""An RTT above the longest certain RTT.

LONG_RTT_THRESHOLD: the multiple of the longest certain RTT that costs nothing.
LONG_RTT: cost for each further multiple.
MAX_LONG_RTT: the maximum cost.
"""


@inner
def missing_ack_cost(unseen_count, shared):
    """Return the cost of an arrival that was not acknowledged.

    unseen_count: packets that the mobile has sent since then and that Gi did not see (UNKNOWN: IP
    IDs do not show it). shared: some of them may be of other connections.
    """
    if unseen_count < 0:
        return LOST_ACK
    if unseen_count == 0:
        return UNSENT_ACK
    return POSSIBLY_SENT_ACK if shared else 0.0


@inner
def long_rtt_cost(rtt, path):
    """Return the cost of an RTT (µs) that is longer than the user's longest certain RTT."""
    if path.max_rtt <= 0 or rtt <= LONG_RTT_THRESHOLD * path.max_rtt:
        return 0.0
    return min((rtt / path.max_rtt - LONG_RTT_THRESHOLD) * LONG_RTT, MAX_LONG_RTT)


@inner
def overflow_loss_cost(rtt, path, service_time):
    """Return the maximum cost of losing a transmission that would have had this RTT (µs).

    service_time: time that the link needs to send the transmission (µs).
    """
    if path.max_rtt <= 0 or service_time <= 0:
        return np.inf
    return OVERFLOW_LOSS + LOSS_WITH_ROOM * max(
        (path.max_rtt - rtt) / max(service_time, path.jitter) - 1.0, 0.0
    )
