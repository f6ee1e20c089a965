"""Volumes of a connection: packets, bytes, distinct payload."""

import numpy as np

from spark_jobs.compiled import compiled, inner, making
from spark_jobs.estimators.tcp import RST, SYN, seq_diff

MAX_HOLES = 256
"""Maximum number of holes remembered in a direction's sequence space.

If there are more, the oldest are forgotten. Data that fills a forgotten hole counts as seen before.
"""

MAX_DISTANCE = 1 << 31
"""Maximum distance of a segment below the first one."""

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
        ("retransmitted_bytes_up", "i8"),
        ("retransmitted_bytes_down", "i8"),
        ("out_of_order_up", "i8"),
        ("out_of_order_down", "i8"),
        ("zero_windows_up", "i8"),
        ("zero_windows_down", "i8"),
    ]
)
"""A connection's volumes.

packets_up, packets_down: packets
ip_bytes_up, ip_bytes_down: IP bytes (B)
payload_bytes_up, payload_bytes_down: distinct payload (B)
data_packets_down: downlink packets with payload
max_ip_len: the largest IP packet (B)
retransmitted_bytes_up, retransmitted_bytes_down: payload that Gi saw before (B)
out_of_order_up, out_of_order_down: packets with data below the highest that Gi had not seen before
zero_windows_up, zero_windows_down: packets that advertise a window of 0
"""


@compiled
def volumes(segments, connections):
    """Return VOLUME[C] of Segments and their Connections.

    Distinct payload is the size of the union of the segments' ranges of sequence space.
    Retransmitted data counts once. Data that the monitor never saw does not count, nor does the
    data of a probe that the receiver did not accept. Payload of an RST is text for people (RFC
    9293, 3.5.2), not data. A segment below the SYN's number, such as a keep-alive, brings no data
    either. A SYN with another sequence number moves that number until data came.
    """
    first, flags, ip_len = connections.first, segments.tcp_flags, segments.ip_len
    out = np.zeros(len(first) - 1, VOLUME)
    holes, hole_count = np.empty((2, MAX_HOLES, 2), np.int64), np.zeros(2, np.int64)
    base, end, begun = np.zeros(2, np.uint32), np.zeros(2, np.int64), np.zeros(2, np.bool_)
    unique = np.zeros(2, np.int64)
    for c in range(len(first) - 1):
        row = out[c]
        hole_count[:], end[:], begun[:], unique[:] = 0, 0, False, 0
        for i in range(first[c], first[c + 1]):
            row.max_ip_len = max(row.max_ip_len, np.int64(ip_len[i]))
            size = np.int64(0) if flags[i] & RST else np.int64(segments.payload_len[i])
            direction = 1 if segments.downlink[i] else 0
            if direction:
                row.packets_down += 1
                row.ip_bytes_down += ip_len[i]
                row.data_packets_down += size > 0
            else:
                row.packets_up += 1
                row.ip_bytes_up += ip_len[i]
            if segments.window[i] == 0 and not flags[i] & (RST | SYN):
                if direction:
                    row.zero_windows_down += 1
                else:
                    row.zero_windows_up += 1
            opens = flags[i] & SYN != 0
            if (size == 0 and not opens) or segments.probe[i]:
                continue
            seq = segments.seq[i]
            data_seq = np.uint32(seq + np.uint32(1)) if opens else seq
            if not begun[direction] or (opens and unique[direction] == 0):
                base[direction], begun[direction] = data_seq, True
                if not opens:
                    hole_count[direction] = _add_hole(holes[direction], 0, -MAX_DISTANCE, 0)
            position = end[direction] + seq_diff(
                data_seq, np.uint32(base[direction] + np.uint32(end[direction]))
            )
            if size:
                ahead = min(size, max(position + size - end[direction], np.int64(0)))
                new, end[direction], hole_count[direction] = _count_new_bytes(
                    position, size, end[direction], holes[direction], hole_count[direction]
                )
                unique[direction] += new
                if direction:
                    row.retransmitted_bytes_down += size - new
                    row.out_of_order_down += new > ahead
                else:
                    row.retransmitted_bytes_up += size - new
                    row.out_of_order_up += new > ahead
        row.payload_bytes_up, row.payload_bytes_down = unique[0], unique[1]
    return out


@inner
def _count_new_bytes(low, size, end, holes, count):
    """Return (bytes of [low, low + size) seen for the first time, new end, number of holes left).

    end: highest position seen. holes: int64[.., 2], the ranges below it that were not seen; count:
    their number.
    """
    high = low + size
    if low >= end:
        if low > end:
            count = _add_hole(holes, count, end, low)
        return size, high, count
    new = max(high - end, np.int64(0))
    i = 0
    while i < count:
        hole_low, hole_high = holes[i, 0], holes[i, 1]
        filled = min(high, hole_high) - max(low, hole_low)
        if filled <= 0:
            i += 1
            continue
        new += filled
        count -= 1
        holes[i, 0], holes[i, 1] = holes[count, 0], holes[count, 1]
        if hole_low < low:
            count = _add_hole(holes, count, hole_low, low)
        if high < hole_high:
            count = _add_hole(holes, count, high, hole_high)
        i = 0
    return new, max(end, high), count


@making
def _add_hole(holes, count, low, high):
    if count == MAX_HOLES:
        holes[: count - 1] = holes[1:count]
        count -= 1
    holes[count, 0], holes[count, 1] = low, high
    return count + 1
