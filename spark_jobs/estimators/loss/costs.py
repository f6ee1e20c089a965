"""What speaks against a history of the receiver: negative logarithms of probabilities, rounded."""

import numpy as np

from spark_jobs.compiled import inner

LOSS = 3.9
"""A loss: one in fifty."""
NEXT_LOSS = 1.4
"""A loss right after another: buffers overflow and radio fails for some packets in a row."""
LOST_ACK = 4.6
"""An ACK that Gi never saw: one in a hundred."""
UNSENT_ACK = 8.0
"""The same where IP IDs tell that the mobile sent none: what called for an ACK did not come, or
stacks differ. Where they tell that it did, it is no wonder, and"""
SHARED_ACK = 0.7
"""little where it may have been another connection's."""
UNCALLED_ACK = 1.0
"""What the mobile sent, by its IP IDs, that Gi never saw and no arrival called for."""
COMPRESSED_ACK = 2.0
"""The same with SACK, where Linux sends one ACK for several arrivals at high rates."""
DELAYED_ACK = 2.0
"""More in-order segments than FULL_SEGMENTS_OWED without an ACK."""
STRAY_ACK = 6.0
"""A duplicate ACK that no arrival explains;"""
STRAY_SACK = 15.0
"""one that names blocks;"""
WINDOW_UPDATE = 1.0
"""one that moves the window (RFC 9293, 3.8.6)."""
MOVED_WINDOW = 1.5
"""A duplicate ACK for data that also moves the window."""
MISMATCH = 7.0
"""A SACK block or an echoed timestamp that the hypothesis would not send; an ACK of a state that it
passed without sending it."""
IMPOSSIBLE = 30.0
"""An ACK of data that has not arrived."""
LATE, LATEST = 0.7, 4.0
"""An ACK later than a FIFO's turn, for each base round trip and at most for so many."""
OVERFLOW, ROOM = 0.7, 0.5
"""A loss when the queue of the access link is full; more for each packet that it had room for."""
MARGIN, BEYOND, MOST_BEYOND = 1.0, 20.0, 4.0
"""A queue longer than it ever was for certain: for each time its length, and at most."""


@inner
def no_ack(unseen, shared):
    """What it costs that an arrival was not acknowledged, if the mobile has sent so many packets
    since then that Gi never saw (NOT_TOLD: who knows), other connections' perhaps among them."""
    if unseen < 0:
        return LOST_ACK
    if unseen == 0:
        return UNSENT_ACK
    return SHARED_ACK if shared else 0.0


@inner
def beyond(round_trip, path):
    """What a round trip longer than the longest costs."""
    if path.longest <= 0 or round_trip <= MARGIN * path.longest:
        return 0.0
    return min((round_trip / path.longest - MARGIN) * BEYOND, MOST_BEYOND)


@inner
def overflow(round_trip, path, size):
    """What the loss of a copy costs at most, if it would have had this round trip."""
    if path.longest <= 0 or size <= 0:
        return np.inf
    return OVERFLOW + ROOM * max((path.longest - round_trip) / max(size, path.jitter) - 1.0, 0.0)
