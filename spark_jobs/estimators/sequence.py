"""Sequence space: TCP's 32-bit numbers as 64-bit ones that never wrap; prefix sums; search."""

import numpy as np

from spark_jobs.compiled import compiled, inner, making
from spark_jobs.estimators.tcp import ACK, FIN, RST, SYN

NONE = np.int64(np.iinfo(np.int64).min)


@inner
def unwrap(number, near):
    """The 64-bit number that is congruent to the 32-bit `number` and lies nearest to `near`."""
    if near == NONE:
        return np.int64(number)
    return near + np.int64(np.int32(np.uint32(number) - np.uint32(near & 0xFFFFFFFF)))


@compiled
def stream_numbers(first, downlink, tcp_flags, seq, ack):
    """Unwrap both streams of every connection; arrays as in Connections and Segments.

    Returns two int64[N]: the number in the downlink stream and in the uplink stream that each
    packet carries. Its sender's own stream is named by seq, the other one by ack. NONE where it
    carries none (no ACK flag, or a reset, whose numbers need not fit).
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
    """Sequence numbers that a segment takes: its data, and one each for SYN and FIN (RFC 9293)."""
    return np.int64(payload_len) + (tcp_flags & SYN != 0) + (tcp_flags & FIN != 0)


@compiled
def downlink_bytes_before(downlink, ip_len):
    """int64[N + 1]: IP bytes sent to the mobile before each packet of the user order."""
    before = np.zeros(len(ip_len) + 1, np.int64)
    for i in range(len(ip_len)):
        before[i + 1] = before[i] + (np.int64(ip_len[i]) if downlink[i] else 0)
    return before


@making
def count_before(marked):
    """int64[N + 1]: how many items before each are marked."""
    before = np.zeros(len(marked) + 1, np.int64)
    for i in range(len(marked)):
        before[i + 1] = before[i] + marked[i]
    return before


@inner
def first_above(values, lo, hi, limit):
    """The first index in [lo, hi) whose value exceeds limit, or hi; values ascend there."""
    while lo < hi:
        middle = (lo + hi) >> 1
        if values[middle] > limit:
            hi = middle
        else:
            lo = middle + 1
    return lo
