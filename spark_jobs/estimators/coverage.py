"""Parts of a connection that the monitor did not see: a whole direction, or acknowledged data.

A direction is missing if it is not mirrored or takes another route. It then looks like a peer that
does not answer. The other direction distinguishes the two cases: a handshake that went on,
acknowledgments that advance, or more data than a window lets pass without an ACK.
"""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators.sequence import NONE
from spark_jobs.estimators.tcp import ACK, FIN, RST, SYN

BOTH, UP, DOWN = range(3)
"""Directions of a connection that were seen."""
DIRECTIONS = ("both", "up", "down")
"""Names of BOTH, UP and DOWN."""

MAX_UNSCALED_WINDOW = 65_535
"""B: the largest window without scaling (RFC 9293)."""
MAX_UNSEEN_FOR_LOSSES = 0.01
"""Maximum share of acknowledged data that Gi missed for losses and rates to be known.

It is of the order of the losses of networks.
"""
MAX_UNSEEN_FOR_SENDING = 0.1
"""Maximum share of acknowledged data that Gi missed for the server's behaviour to be known.

The server's replay tolerates gaps, but each gap hides a retransmission or looks like one. Of the
lab's connections thinned by one tenth, four in five have their retransmissions right. Of those
thinned by three tenths, one in two has them right.
"""
MIN_UNSEEN_BYTES = 1_460
"""B: more than one missed segment is needed to make the server's behaviour unknown."""
COVERAGE = np.dtype([("seen", "i1"), ("unseen", "i8")], align=True)
"""The coverage of a connection.

seen: the directions that were seen of those that existed, an index into DIRECTIONS
unseen: for UP, the downlink bytes that the mobile acknowledged, including a FIN's sequence number
"""


@compiled
def coverage(segments, connections):
    """Return COVERAGE[C] of Segments and their Connections."""
    first, downlink = connections.first, segments.downlink
    out = np.zeros(len(first) - 1, COVERAGE)
    for c in range(len(out)):
        down = downlink[first[c]]
        one_direction = True
        for i in range(first[c] + 1, first[c + 1]):
            if downlink[i] != down:
                one_direction = False
                break
        if not one_direction:
            continue
        acked = segments.up_number if down else segments.number
        sent = segments.number if down else segments.up_number
        answered, unseen = _infer_answers(first[c], first[c + 1], segments.tcp_flags, sent, acked)
        if answered:
            out[c].seen = DOWN if down else UP
            out[c].unseen = np.int64(0) if down else unseen
    return out


@inner
def _infer_answers(begin, end, flags, sent, acked):
    """Return (whether packets of one direction show that the other exists, bytes they acknowledge).

    sent, acked: int64[N], the packets' numbers in their own stream and in the other stream.
    """
    low = high = sent_low = sent_high = NONE
    syn_seen = answered = False
    for i in range(begin, end):
        if flags[i] & RST:
            continue
        if flags[i] & SYN:
            syn_seen = True
            continue
        sent_low = sent[i] if sent_low == NONE else min(sent_low, sent[i])
        sent_high = max(sent_high, sent[i])
        if flags[i] & ACK:
            answered |= syn_seen
            low = acked[i] if low == NONE else min(low, acked[i])
            high = max(high, acked[i])
    acks_advance = low != NONE and high > low
    exceeds_window = sent_low != NONE and sent_high - sent_low > MAX_UNSCALED_WINDOW
    return answered or acks_advance or exceeds_window, high - low if acks_advance else np.int64(0)


@compiled
def acked_unseen_bytes(segments, connections, covered, volume):
    """Return int64[C], B: the data that the mobile acknowledged and Gi never saw.

    Arguments: Segments, their Connections, COVERAGE[C] and VOLUME[C]. Data that Gi saw later than
    its ACK does not count; this happens if the clocks of two taps differ. No more bytes count than
    lie between the ends of the stream.
    """
    out = covered["unseen"].copy()
    first, downlink, number = connections.first, segments.downlink, segments.number
    for c in range(len(out)):
        if out[c] == 0:
            continue
        low = high = NONE
        flags = np.int64(0)
        for i in range(first[c], first[c + 1]):
            if number[i] == NONE:
                continue
            low = number[i] if low == NONE else min(low, number[i])
            if downlink[i]:
                flags |= np.int64(segments.tcp_flags[i])
            else:
                high = max(high, number[i])
        sent = high - low - (flags & SYN != 0) - (flags & FIN != 0)
        out[c] = min(out[c], max(sent - volume[c].payload_bytes_down, np.int64(0)))
    return out


def seen_enough(covered, payload, connections, max_unseen, max_bytes=0):
    """Return bool[C]: the data to the mobile was seen, except for a small part, and its ACKs, too.

    At most a share `max_unseen`, or `max_bytes` bytes, may be unseen. covered: COVERAGE[C] of
    Connections; payload: int64[C], distinct bytes seen.
    """
    both, unseen = covered["seen"] == BOTH, covered["unseen"]
    enough = both & (unseen <= np.maximum(max_unseen * (unseen + payload), max_bytes))
    return enough & ~users_with_gaps(covered, payload, connections)[connections.user]


def users_with_gaps(covered, payload, connections):
    """Return bool[U]: users whose packets the capture dropped or sampled.

    These are users with more than MAX_UNSEEN_FOR_SENDING unseen in most connections that have data.
    Their connections without gaps were too short to have gaps, or lack only ACKs. One segment of
    one connection is no sign. Arguments: see `seen_enough`.
    """
    unseen, users = covered["unseen"], len(connections.user_offsets) - 1
    with_data = connections.starts_in_window & (covered["seen"] == BOTH) & (unseen + payload > 0)
    with_gap = with_data & (unseen > MAX_UNSEEN_FOR_SENDING * (unseen + payload))
    user = connections.user
    with_gap_count = np.bincount(user[with_gap], minlength=users)
    large_gap_count = np.bincount(user[with_gap & (unseen > MIN_UNSEEN_BYTES)], minlength=users)
    data_count = np.bincount(user[with_data], minlength=users)
    return (2 * with_gap_count > data_count) & ((with_gap_count > 1) | (large_gap_count > 0))
