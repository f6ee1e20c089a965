"""ACKs from the mobile that show when a packet had arrived.

Such an ACK is clean: all data before it was sent once, in order, and answered without duplicate
ACKs.

A disturbance ends when all data sent until then is acknowledged. Disturbances are: a
retransmission, a hole, data that overtook other data, a duplicate ACK, an ACK of data that Gi never
saw, a closed window, and a reset.
"""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import compiled
from spark_jobs.estimators.sequence import NONE, sequence_length
from spark_jobs.estimators.tcp import RST


class CleanAcks(NamedTuple):
    """K clean ACKs, sorted by connection and time."""

    connection: np.ndarray
    """int64[K]."""
    ts: np.ndarray
    """int64[K], µs."""
    packet: np.ndarray
    """int64[K]: the last packet that the ACK acknowledges in full, in user order."""
    flight: np.ndarray
    """int64[K], B: data still in flight after the ACK."""
    undisturbed: np.ndarray
    """bool[K]: nothing disturbed the connection since its previous clean ACK."""
    maybe_delayed: np.ndarray
    """bool[K]: at most one data packet came since the previous ACK, so this may be a delayed ACK.

    A delayed ACK waits for a second segment (RFC 9293, 3.8.6.3).
    """


@compiled
def clean_acks(segments, connections):
    """Return the CleanAcks of Segments and their Connections."""
    first, number, window = connections.first, segments.number, segments.window
    ts, downlink, place = segments.ts, segments.downlink, segments.place
    tcp_flags, payload_len = segments.tcp_flags, segments.payload_len
    n = len(ts) - np.count_nonzero(downlink)
    connection = np.empty(n, np.int64)
    ack_ts = np.empty(n, np.int64)
    packet = np.empty(n, np.int64)
    flight = np.empty(n, np.int64)
    undisturbed = np.empty(n, np.bool_)
    maybe_delayed = np.empty(n, np.bool_)
    highest_so_far = np.empty(len(ts), np.int64)
    count = 0
    for c in range(len(first) - 1):
        highest = acked = recover = NONE
        last_window = -1
        is_undisturbed = False
        first_unacked = first[c]  # all packets before it are acknowledged in full
        answered = -1  # the last acknowledged packet that carried new data
        answered_end = NONE  # end of that data
        for i in range(first[c], first[c + 1]):
            if tcp_flags[i] & RST:
                recover = highest
                is_undisturbed = False
            elif number[i] == NONE:
                pass
            elif downlink[i]:
                start = number[i]
                end = start + sequence_length(tcp_flags[i], payload_len[i])
                if highest == NONE:
                    highest = acked = recover = start
                if end > start and start != highest:
                    recover = max(highest, end)
                    is_undisturbed = False
                highest = max(highest, end)
            else:
                ack = number[i]
                if highest == NONE:
                    highest = acked = recover = ack
                if ack > highest:
                    highest = acked = recover = ack
                    is_undisturbed = False
                elif window[i] == 0:
                    acked = max(acked, ack)
                    recover = highest
                    is_undisturbed = False
                elif ack == acked:
                    if ack < highest and payload_len[i] == 0 and window[i] == last_window:
                        recover = highest
                        is_undisturbed = False
                elif ack > acked:
                    new_packets = 0
                    while first_unacked < i and highest_so_far[first_unacked] <= ack:
                        if downlink[first_unacked] and highest_so_far[first_unacked] > answered_end:
                            answered = first_unacked
                            answered_end = highest_so_far[first_unacked]
                            new_packets += 1
                        first_unacked += 1
                    if acked < recover:
                        is_undisturbed = False
                    elif answered_end > acked:
                        connection[count] = c
                        ack_ts[count] = ts[i]
                        packet[count] = place[answered]
                        flight[count] = highest - ack
                        undisturbed[count] = is_undisturbed
                        maybe_delayed[count] = new_packets <= 1
                        count += 1
                        is_undisturbed = True
                    acked = ack
                last_window = window[i]
            highest_so_far[i] = highest
    return CleanAcks(
        connection[:count],
        ack_ts[:count],
        packet[:count],
        flight[:count],
        undisturbed[:count],
        maybe_delayed[:count],
    )
