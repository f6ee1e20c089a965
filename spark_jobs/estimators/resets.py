"""The sender of an RST: the end in whose name it comes, or a device between the two ends.

An injected RST does not fit the end's other packets (Weaver, Sommer and Paxson, Detecting Forged
TCP Reset Packets, NDSS 2009):

goes on    the end later acknowledges data that the other end sent after the RST had passed, so it
           did not know of the RST (their DATA_SEQ_RST, without its time limit).
distance   the RST came over another number of hops: the gap between its TTL and the next usual
           initial TTL (64, 128, 255) differs from that of the end's packets by more than one. An
           IP ID that counts on from the end's last one clears the RST of this suspicion.

IP IDs alone are no evidence of an injected RST, because many stacks give RSTs IDs of their own. An
end that sent only RSTs, such as a port that refuses connections, cannot be compared. The route from
each end to Gi is assumed to keep its length.
"""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators.sequence import NONE, sequence_length
from spark_jobs.estimators.tcp import RST

UNKNOWN, MOBILE, SERVER, BETWEEN = range(-1, 3)
RESETTERS = ("mobile", "server", "between")
"""Names of MOBILE, SERVER and BETWEEN."""

INITIAL_TTLS = (64, 128, 255)
"""Initial TTLs of today's systems; 32 is no longer used, and is within 64's reach."""
ROUTE_CHANGE = 1
"""Number of hops by which a route may change."""
MAX_ID_STEP = 16
"""Limit of an IP ID's step: the ID counts on if it is ahead by less."""


@compiled
def reset_by(segments, connections):
    """Return int8[C]: the sender of each connection's first RST.

    The value is an index into RESETTERS, or UNKNOWN.
    """
    first, flags = connections.first, segments.tcp_flags
    out = np.full(len(first) - 1, np.int8(UNKNOWN))
    for c in range(len(out)):
        for i in range(first[c], first[c + 1]):
            if flags[i] & RST:
                out[c] = _sender(i, first[c], first[c + 1], segments)
                break
    return out


@inner
def _sender(reset, begin, end, segments):
    """Return the sender of segment `reset` of a connection, segments [begin, end)."""
    down = segments.downlink[reset]
    hops = _hops(segments.ttl[reset])
    has_packets = distance_fits = False
    last = -1
    for i in range(begin, end):
        if segments.downlink[i] == down and not segments.tcp_flags[i] & RST:
            has_packets = True
            distance_fits |= abs(_hops(segments.ttl[i]) - hops) <= ROUTE_CHANGE
            last = i if i < reset else last
    if not has_packets:
        return UNKNOWN
    counts_on = last >= 0 and _is_next_ip_id(segments.ip_id[reset], segments.ip_id[last])
    if not (distance_fits or counts_on) or _acknowledges_later_data(reset, begin, end, segments):
        return BETWEEN
    return SERVER if down else MOBILE


@inner
def _is_next_ip_id(ip_id, last):
    return last != 0 and 0 < (np.int64(ip_id) - np.int64(last)) & 0xFFFF < MAX_ID_STEP


@inner
def _hops(ttl):
    """Return the number of hops that a packet has passed."""
    for initial in INITIAL_TTLS:
        if ttl <= initial:
            return np.int64(initial) - np.int64(ttl)
    return np.int64(0)


@inner
def _acknowledges_later_data(reset, begin, end, segments):
    """Return whether the RST's apparent sender acknowledges data that passed Gi after the RST."""
    down = segments.downlink[reset]
    # Of the other end's data: acknowledged, and sent before the RST.
    acked = highest = NONE
    for i in range(begin, end):
        own = segments.up_number[i] if down else segments.number[i]
        if own == NONE:
            continue
        if segments.downlink[i] == down:
            acked = own if i > reset else acked
            if acked != NONE and highest != NONE and acked > highest:
                return True
        elif i < reset:
            length = sequence_length(segments.tcp_flags[i], segments.payload_len[i])
            highest = max(highest, own + length)
    return False
