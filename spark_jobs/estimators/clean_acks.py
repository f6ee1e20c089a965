"""ACKs from the mobile that tell when a packet had arrived: all before it was sent once, in order,
and answered without duplicate ACKs.

A disturbance (a retransmission, a hole, data that overtook, a duplicate ACK, an ACK of data that Gi never
saw, a closed window, a reset) ends once all sent until then is acknowledged.
"""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import compiled
from spark_jobs.estimators.sequence import NONE, sequence_length
from spark_jobs.estimators.tcp import RST


class CleanAcks(NamedTuple):
    """K such ACKs, by connection and time."""

    connection: np.ndarray
    """int64[K]"""
    ts: np.ndarray
    """int64[K], µs"""
    packet: np.ndarray
    """int64[K]: the last packet that it acknowledges in full, in user order."""
    flight: np.ndarray
    """int64[K], B: what is still in flight after it."""
    joined: np.ndarray
    """bool[K]: nothing disturbed the connection since its previous one."""
    single: np.ndarray
    """bool[K]: no more than one packet with data had come since the ACK before: it may have waited
    for a second (RFC 9293, 3.8.6.3)."""


@compiled
def clean_acks(segments, connections):
    """CleanAcks of Segments and their Connections."""
    first, number, window = connections.first, segments.number, segments.window
    ts, downlink, place = segments.ts, segments.downlink, segments.place
    tcp_flags, payload_len = segments.tcp_flags, segments.payload_len
    n = len(ts) - np.count_nonzero(downlink)
    connection = np.empty(n, np.int64)
    at = np.empty(n, np.int64)
    packet = np.empty(n, np.int64)
    flight = np.empty(n, np.int64)
    joined = np.empty(n, np.bool_)
    single = np.empty(n, np.bool_)
    top = np.empty(len(ts), np.int64)
    items = 0
    for c in range(len(first) - 1):
        highest = acked = recover = NONE
        last_window = -1
        join = False
        reached = first[c]  # packets before it are acknowledged in full
        answered = -1  # the last of them that carried new data, and
        told = NONE  # where that data ends
        for i in range(first[c], first[c + 1]):
            if tcp_flags[i] & RST:
                recover = highest
                join = False
            elif number[i] == NONE:
                pass
            elif downlink[i]:
                start = number[i]
                end = start + sequence_length(tcp_flags[i], payload_len[i])
                if highest == NONE:
                    highest = acked = recover = start
                if end > start and start != highest:
                    recover = max(highest, end)
                    join = False
                highest = max(highest, end)
            else:
                ack = number[i]
                if highest == NONE:
                    highest = acked = recover = ack
                if ack > highest:
                    highest = acked = recover = ack
                    join = False
                elif window[i] == 0:
                    acked = max(acked, ack)
                    recover = highest
                    join = False
                elif ack == acked:
                    if ack < highest and payload_len[i] == 0 and window[i] == last_window:
                        recover = highest
                        join = False
                elif ack > acked:
                    many = 0
                    while reached < i and top[reached] <= ack:
                        if downlink[reached] and top[reached] > told:
                            answered = reached
                            told = top[reached]
                            many += 1
                        reached += 1
                    if acked < recover:
                        join = False
                    elif told > acked:
                        connection[items] = c
                        at[items] = ts[i]
                        packet[items] = place[answered]
                        flight[items] = highest - ack
                        joined[items] = join
                        single[items] = many <= 1
                        items += 1
                        join = True
                    acked = ack
                last_window = window[i]
            top[i] = highest
    return CleanAcks(
        connection[:items],
        at[:items],
        packet[:items],
        flight[:items],
        joined[:items],
        single[:items],
    )
