"""What the monitor did not see of a connection: a whole direction, which is not mirrored or takes
another way, or some of the data that the mobile acknowledged.

A direction that is missing looks like a peer that does not answer. What the other one says tells
them apart: a handshake that went on, acknowledgements that advance, more data than a window lets
pass without an ACK.
"""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators.sequence import NONE
from spark_jobs.estimators.tcp import ACK, FIN, RST, SYN

BOTH, UP, DOWN = range(3)
DIRECTIONS = ("both", "up", "down")

MAX_UNSCALED_WINDOW = 65_535
"""Without scaling (RFC 9293)."""
MAX_UNSEEN_FOR_LOSSES = 0.01
"""Share of a connection's acknowledged data that Gi missed above which losses and rates are not
known: it is of the order of what networks lose."""
MAX_UNSEEN_FOR_SENDING = 0.1
"""Above which what the server did is not known: its replay bears gaps, but each hides a retransmission or
looks like one. Of the lab's connections thinned by a tenth four in five have their retransmissions right,
thinned by three tenths one in two."""
MIN_UNSEEN_BYTES = 1_460
"""B: one segment that was missed does not make what the server did unknown."""
COVERAGE = np.dtype([("seen", "i1"), ("unseen", "i8")], align=True)
"""Which directions were seen of those that there were, into SEEN; of UP, the downlink bytes that
the mobile acknowledged (a FIN's number among them)."""


@compiled
def coverage(segments, connections):
    """COVERAGE[C] of Segments and their Connections."""
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
    """(whether packets of one direction alone tell of answers, how much they acknowledge); sent,
    acked: int64[N], their numbers in its stream and in the other one."""
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
    """int64[C], B: what the mobile acknowledged and Gi never saw, of Segments, their Connections,
    COVERAGE[C] and VOLUME[C]. What Gi saw later than its ACK, as where two taps' clocks differ, is
    no part of it: no more bytes are acknowledged than lie between the stream's ends."""
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
    """bool[C]: whether the data to the mobile was seen, but for a share of at most `most_unseen`,
    or so many bytes, and the ACKs that answer it. covered: COVERAGE[C] of Connections; payload:
    int64[C], distinct bytes seen."""
    both, unseen = covered["seen"] == BOTH, covered["unseen"]
    enough = both & (unseen <= np.maximum(max_unseen * (unseen + payload), max_bytes))
    return enough & ~users_with_gaps(covered, payload, connections)[connections.user]


def users_with_gaps(covered, payload, connections):
    """bool[U]: users of most of whose connections with data more than MOST_UNSEEN_FOR_SENDING was
    not seen: the capture dropped or sampled, and what lacks nothing was too short to, or lacks ACKs
    alone. One segment of one connection is no sign. Arguments: see `seen_enough`."""
    unseen, users = covered["unseen"], len(connections.user_offsets) - 1
    with_data = connections.starts_in_window & (covered["seen"] == BOTH) & (unseen + payload > 0)
    with_gap = with_data & (unseen > MAX_UNSEEN_FOR_SENDING * (unseen + payload))
    user = connections.user
    with_gap_count = np.bincount(user[with_gap], minlength=users)
    large_gap_count = np.bincount(user[with_gap & (unseen > MIN_UNSEEN_BYTES)], minlength=users)
    data_count = np.bincount(user[with_data], minlength=users)
    return (2 * with_gap_count > data_count) & ((with_gap_count > 1) | (large_gap_count > 0))
