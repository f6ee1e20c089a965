"""Retransmissions of data that seems to have arrived, but without a D-SACK (RFC 2883).

A mobile that sends D-SACKs sends one each time that data arrives twice. If a retransmission of data
that seems to have arrived causes no D-SACK, it is undecided whether it was needed. Either the first
transmission did not arrive, or the retransmission or its D-SACK was lost. It is decided if the ACK
of the data came too early for the retransmission, or echoes an older timestamp (Eifel, RFC 3522).
"""

import numpy as np

from spark_jobs.compiled import compiled, inner, making
from spark_jobs.estimators.loss.sack import is_d_sack
from spark_jobs.estimators.sequence import NONE, search_begin, search_end, search_steps, unwrap


@compiled
def lacks_d_sack(segments, connections, base_us, retransmissions):
    """Return bool[K]: whether each retransmission lacks the D-SACK that it should have caused.

    It should have caused one if its data arrived twice. False: the mobile sends no D-SACKs, or an
    earlier transmission is known to have arrived. segments, connections: Segments and their
    Connections; base_us: float64[C], the user's base RTT on the access side (µs); retransmissions:
    int64[K], indexes of Segments.
    """
    sends_d_sacks = _users_with_d_sacks(segments, connections)
    out = np.zeros(len(retransmissions), np.bool_)
    steps_by_connection = search_steps(connections.first)
    for k in range(len(retransmissions)):
        c = np.searchsorted(connections.first, retransmissions[k], "right") - 1
        if connections.sack[c] and sends_d_sacks[connections.user[c]]:
            begin, end = connections.first[c], connections.first[c + 1]
            steps_left = steps_by_connection[c : c + 1]
            out[k] = not has_earlier_transmission_arrived(
                retransmissions[k], begin, end, segments, base_us[c], steps_left
            )
    return out


@making
def _users_with_d_sacks(segments, connections):
    """Return bool[U]: whether the mobiles of each user send D-SACKs."""
    out = np.zeros(len(connections.user_offsets) - 1, np.bool_)
    for c in range(len(connections.user)):
        if not connections.sack[c] or out[connections.user[c]]:
            continue
        for i in range(connections.first[c], connections.first[c + 1]):
            if segments.sack_count[i] >= 2 and _d_sack_start(i, segments) != NONE:
                out[connections.user[c]] = True
                break
    return out


@inner
def _d_sack_start(i, segments):
    """Return the first number of the D-SACK in uplink segment i, or NONE."""
    if segments.downlink[i] or segments.sack_count[i] < 2 or segments.number[i] == NONE:
        return NONE
    begin = segments.sack_at[i]
    edges = segments.sack_edges[begin : begin + segments.sack_count[i]]
    return unwrap(edges[0], segments.number[i]) if is_d_sack(edges, segments.number[i]) else NONE


@inner
def has_earlier_transmission_arrived(retransmission, begin, end, segments, base_us, steps_left):
    """Return whether an earlier transmission of a retransmission's data is known to have arrived.

    The connection's segments are begin to end; steps_left: see `sequence.search_steps`.
    """
    begin = search_begin(begin, retransmission, steps_left[0])
    ts, number = segments.ts, segments.number
    low = number[retransmission]
    high = low + np.int64(segments.payload_len[retransmission])
    i = retransmission - 1
    while i > begin and (segments.downlink[i] or number[i] == NONE):
        i -= 1
    steps_left[0] -= retransmission - i
    if not segments.downlink[i] and number[i] >= high:
        return True
    acked = False
    for i in range(retransmission + 1, search_end(retransmission + 1, end, steps_left[0])):
        steps_left[0] -= 1
        if segments.downlink[i] or number[i] == NONE:
            continue
        if low <= _d_sack_start(i, segments) < high:
            return True
        if number[i] >= high and not acked:
            acked = True
            if ts[i] < ts[retransmission] + base_us:
                return True
            if segments.has_timestamps[i] and segments.has_timestamps[retransmission]:
                if np.int32(segments.ts_ecr[i] - segments.ts_val[retransmission]) < 0:
                    return True
    return False
