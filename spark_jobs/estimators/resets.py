"""Who sent an RST: the end in whose name it comes, or something between the two.

What injects RSTs is found, as by Weaver, Sommer and Paxson (Detecting Forged TCP Reset Packets,
NDSS 2009), by what does not fit the end's other packets:

goes on    the end acknowledges later what the other one sent after the RST had passed: it knew of
           none (their DATA_SEQ_RST, without its time limit)
distance   the RST has come over another number of hops: its TTL falls short of the next usual
           initial one (64, 128, 255) by another number than the end's packets, by more than one; an
           IP ID that counts on from the end's last one clears it

IP IDs accuse nobody, for many stacks give RSTs IDs of their own. What sent nothing but RSTs, as a
port that refuses, cannot be compared. The ends' way to Gi is taken to be as long as it was.
"""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators.sequence import NONE, sequence_length
from spark_jobs.estimators.tcp import RST

UNKNOWN, MOBILE, SERVER, BETWEEN = range(-1, 3)
RESETTERS = ("mobile", "server", "between")

INITIAL_TTLS = (64, 128, 255)
"""Those of today's systems; 32 is of the past, and within 64's reach."""
ROUTE_CHANGE = 1
"""Hops by which a way may change."""
MAX_ID_STEP = 16
"""An IP ID counts on if it is ahead by fewer than these."""


@compiled
def reset_by(segments, connections):
    """int8[C]: who sent the first RST of each of the Connections, into RESETTERS, or NOT_TOLD; of
    Segments."""
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
    """Who sent segment `reset` of a connection, segments begin to end."""
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
    """Over how many hops a packet has come."""
    for initial in INITIAL_TTLS:
        if ttl <= initial:
            return np.int64(initial) - np.int64(ttl)
    return np.int64(0)


@inner
def _acknowledges_later_data(reset, begin, end, segments):
    """Whether the end that is said to have sent the RST acknowledges what passed Gi after it."""
    down = segments.downlink[reset]
    acked = highest = NONE  # of what the other end sent: acknowledged, and sent before the RST
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
