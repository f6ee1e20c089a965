"""How much a connection carried: packets, bytes, distinct payload."""

import numpy as np

from spark_jobs.compiled import compiled, inner, making
from spark_jobs.estimators.tcp import RST, SYN, seq_diff

MOST_HOLES = 256
"""Holes remembered in a direction's sequence space; of more, the oldest are forgotten, and what
fills them counts as seen before."""

LARGEST_DISTANCE = 1 << 31

VOLUME = np.dtype(
    [
        ("packets_up", "i8"),
        ("packets_down", "i8"),
        ("ip_bytes_up", "i8"),
        ("ip_bytes_down", "i8"),
        ("payload_bytes_up", "i8"),
        ("payload_bytes_down", "i8"),
        ("data_packets_down", "i8"),
        ("max_ip_len", "i8"),
    ]
)
"""A connection's volumes: packets, IP bytes and distinct payload bytes by direction, downlink
packets with payload, and the largest IP packet (B)."""


@compiled
def volumes(segments, connections):
    """VOLUME[C] of Segments and their Connections.

    Distinct payload is the size of the union of the segments' ranges of sequence space: data
    retransmitted counts once, data that the monitor never saw does not count, nor what a probe brings
    that was not taken in. Payload of an RST is
    text for people (RFC 9293, 3.5.2), not data. What lies before the SYN's place, as keep-alives
    may, is not data either; a SYN with another sequence number moves the place until data came.
    """
    first, flags, ip_len = connections.first, segments.tcp_flags, segments.ip_len
    out = np.zeros(len(first) - 1, VOLUME)
    holes, n_holes = np.empty((2, MOST_HOLES, 2), np.int64), np.zeros(2, np.int64)
    base, end, begun = np.zeros(2, np.uint32), np.zeros(2, np.int64), np.zeros(2, np.bool_)
    unique = np.zeros(2, np.int64)
    for c in range(len(first) - 1):
        v = out[c]
        n_holes[:], end[:], begun[:], unique[:] = 0, 0, False, 0
        for i in range(first[c], first[c + 1]):
            v.max_ip_len = max(v.max_ip_len, np.int64(ip_len[i]))
            size = np.int64(0) if flags[i] & RST else np.int64(segments.payload_len[i])
            way = 1 if segments.downlink[i] else 0
            if way:
                v.packets_down += 1
                v.ip_bytes_down += ip_len[i]
                v.data_packets_down += size > 0
            else:
                v.packets_up += 1
                v.ip_bytes_up += ip_len[i]
            opens = flags[i] & SYN != 0
            if (size == 0 and not opens) or segments.probe[i]:
                continue
            seq = segments.seq[i]
            at = np.uint32(seq + np.uint32(1)) if opens else seq
            if not begun[way] or (opens and unique[way] == 0):
                base[way], begun[way] = at, True
                if not opens:
                    n_holes[way] = _add_hole(holes[way], 0, -LARGEST_DISTANCE, 0)
            position = end[way] + seq_diff(at, np.uint32(base[way] + np.uint32(end[way])))
            if size:
                new, end[way], n_holes[way] = _unseen(
                    position, size, end[way], holes[way], n_holes[way]
                )
                unique[way] += new
        v.payload_bytes_up, v.payload_bytes_down = unique[0], unique[1]
    return out


@inner
def _unseen(low, size, end, holes, n):
    """The bytes of [low, low + size) seen for the first time.

    end: highest position seen; holes: int64[.., 2], the ranges below it not seen, n of them.
    Returns (bytes, new end, holes left).
    """
    high = low + size
    if low >= end:
        if low > end:
            n = _add_hole(holes, n, end, low)
        return size, high, n
    new = max(high - end, np.int64(0))
    i = 0
    while i < n:
        hole_low, hole_high = holes[i, 0], holes[i, 1]
        filled = min(high, hole_high) - max(low, hole_low)
        if filled <= 0:
            i += 1
            continue
        new += filled
        n -= 1
        holes[i, 0], holes[i, 1] = holes[n, 0], holes[n, 1]
        if hole_low < low:
            n = _add_hole(holes, n, hole_low, low)
        if high < hole_high:
            n = _add_hole(holes, n, high, hole_high)
        i = 0
    return new, max(end, high), n


@making
def _add_hole(holes, n, low, high):
    if n == MOST_HOLES:
        holes[: n - 1] = holes[1:n]
        n -= 1
    holes[n, 0], holes[n, 1] = low, high
    return n + 1
