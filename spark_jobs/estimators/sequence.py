"""Sequence space: TCP's 32-bit numbers as 64-bit numbers that never wrap; prefix sums; search."""

import numpy as np

from spark_jobs.compiled import compiled, inner, making
from spark_jobs.estimators.tcp import ACK, FIN, RST, SYN

NONE = np.int64(np.iinfo(np.int64).min)
"""Value of a number that is not known: the smallest int64."""

MAX_WORK, FEW = 300, 256
"""Maximum numbers of packets that a search looks at. They bound the time per packet for any input.

The searches of a connection look at MAX_WORK packets for each of its packets, on average. When they
have done so, a search looks at no more than FEW.
"""


@inner
def unwrap(number, near):
    """Return the 64-bit number nearest to `near` that is congruent to the 32-bit `number`."""
    if near == NONE:
        return np.int64(number)
    return near + np.int64(np.int32(np.uint32(number) - np.uint32(near & 0xFFFFFFFF)))


@compiled
def stream_numbers(first, downlink, tcp_flags, seq, ack):
    """Return each packet's numbers in the downlink and the uplink stream, int64[N] each.

    Arrays are as in Connections and Segments. A packet's seq is a number in its sender's own
    stream, its ack one in the other stream. NONE if a packet carries none: it has no ACK flag, or
    it is a reset, whose numbers need not fit.
    """
    down = np.full(len(seq), NONE)
    up = np.full(len(seq), NONE)
    for c in range(len(first) - 1):
        near_down = near_up = NONE
        for i in range(first[c], first[c + 1]):
            if tcp_flags[i] & RST:
                continue
            has_ack = tcp_flags[i] & ACK != 0
            if downlink[i]:
                near_down = down[i] = unwrap(seq[i], near_down)
                if has_ack:
                    near_up = up[i] = unwrap(ack[i], near_up)
            else:
                near_up = up[i] = unwrap(seq[i], near_up)
                if has_ack:
                    near_down = down[i] = unwrap(ack[i], near_down)
    return down, up


@inner
def sequence_length(tcp_flags, payload_len):
    """Return a segment's length in sequence space: its data, and one each for SYN and FIN.

    See RFC 9293, 3.4.
    """
    return np.int64(payload_len) + (tcp_flags & SYN != 0) + (tcp_flags & FIN != 0)


@compiled
def downlink_bytes_before(downlink, ip_len):
    """Return int64[N + 1]: IP bytes sent to the mobile before each packet of the user order."""
    before = np.zeros(len(ip_len) + 1, np.int64)
    for i in range(len(ip_len)):
        before[i + 1] = before[i] + (np.int64(ip_len[i]) if downlink[i] else 0)
    return before


@making
def count_before(marked):
    """Return int64[N + 1]: number of marked items before each item."""
    before = np.zeros(len(marked) + 1, np.int64)
    for i in range(len(marked)):
        before[i + 1] = before[i] + marked[i]
    return before


@inner
def first_above(values, lo, hi, limit):
    """Return the first index in [lo, hi) whose value exceeds limit, or hi; values ascend there."""
    while lo < hi:
        middle = (lo + hi) >> 1
        if values[middle] > limit:
            hi = middle
        else:
            lo = middle + 1
    return lo


@making
def search_steps(first):
    """Return int64[C]: the number of packets that the searches of each connection may look at.

    Each search subtracts what it looked at. first: int64[C + 1], where the packets of each begin.
    """
    return MAX_WORK * np.diff(first)


@inner
def search_end(begin, end, steps_left):
    """Return where a search from `begin` on ends: at `end`, or where too few steps are left."""
    return min(end, begin + max(steps_left, FEW))


@inner
def search_begin(begin, end, steps_left):
    """Return where a search from `end` back ends: at `begin`, or where too few steps are left."""
    return max(begin, end - max(steps_left, FEW))
