"""What a mobile says came twice (D-SACK, RFC 2883), and what it should have said.

A mobile that reports what comes twice, reports it each time. So a retransmission of what is thought to have
arrived, without such a report, leaves it open whether it was needed: either that did not arrive, or
the retransmission or the report of it was lost. It is settled where the ACK of the data came too soon for
the retransmission, or echoes an older timestamp (Eifel, RFC 3522).
"""

import numpy as np

from spark_jobs.compiled import compiled, inner, making
from spark_jobs.estimators.loss.sack import is_d_sack
from spark_jobs.estimators.sequence import NONE, unwrap


@compiled
def unreported(segments, connections, base_us, at):
    """bool[K]: whether the mobile should have said that the data of retransmissions at these Segments,
    int64[K], came twice, if it did. Of their Connections; base_us float64[C]: the user's least
    RTT on the access side (µs)."""
    reports = _reporters(segments, connections)
    out = np.zeros(len(at), np.bool_)
    for k in range(len(at)):
        c = np.searchsorted(connections.first, at[k], "right") - 1
        if connections.sack[c] and reports[connections.user[c]]:
            begin, end = connections.first[c], connections.first[c + 1]
            out[k] = not is_settled(at[k], begin, end, segments, base_us[c])
    return out


@making
def _reporters(segments, connections):
    """bool[U]: users whose mobiles report what comes twice."""
    out = np.zeros(len(connections.user_offsets) - 1, np.bool_)
    for c in range(len(connections.user)):
        if not connections.sack[c] or out[connections.user[c]]:
            continue
        for i in range(connections.first[c], connections.first[c + 1]):
            if segments.sack_count[i] >= 2 and _reported(i, segments) != NONE:
                out[connections.user[c]] = True
                break
    return out


@inner
def _reported(i, segments):
    """Where the data begins that uplink segment i says came twice, or NONE."""
    if segments.downlink[i] or segments.sack_count[i] < 2 or segments.number[i] == NONE:
        return NONE
    begin = segments.sack_at[i]
    edges = segments.sack_edges[begin : begin + segments.sack_count[i]]
    return unwrap(edges[0], segments.number[i]) if is_d_sack(edges, segments.number[i]) else NONE


@inner
def is_settled(retransmission, begin, end, segments, base_us):
    """Whether it is told that an earlier copy of a retransmission's data arrived; its connection's segments
    are begin to end."""
    ts, number = segments.ts, segments.number
    low = number[retransmission]
    high = low + np.int64(segments.payload_len[retransmission])
    i = retransmission - 1
    while i > begin and (segments.downlink[i] or number[i] == NONE):
        i -= 1
    if not segments.downlink[i] and number[i] >= high:
        return True
    acked = False
    for i in range(retransmission + 1, end):
        if segments.downlink[i] or number[i] == NONE:
            continue
        if low <= _reported(i, segments) < high:
            return True
        if number[i] >= high and not acked:
            acked = True
            if ts[i] < ts[retransmission] + base_us:
                return True
            if segments.has_timestamps[i] and segments.has_timestamps[retransmission]:
                if np.int32(segments.ts_ecr[i] - segments.ts_val[retransmission]) < 0:
                    return True
    return False
