"""The server's clock: when it heard, and when it sent, what Gi saw.

Between Gi and the server lies a round trip. Half of the least one is what separates the two
clocks; what a packet took longer is taken for its own delay. So an ACK is believed to be heard a
little early, a segment to be sent a little late, and what the server sends in answer follows the
ACK by `Clock.jitter` at most.
"""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators import ip_ids
from spark_jobs.estimators.sequence import NONE
from spark_jobs.estimators.tcp import ACK, FIN, RST, SYN

TICK_US = 20_000.0
"""What a server may take to answer at least: two ticks of a slow clock (100 Hz)."""
SERVER = np.dtype([("round_trip", "f8"), ("counts", "?"), ("alone", "?")])
"""A connection's server: the least round trip between Gi and it (µs; NaN: not known); counts: its
IP IDs tell the order in which it sent; alone: and count this connection's packets alone (see
`ip_ids`)."""


class Clock(NamedTuple):
    """What separates the server's clock from Gi's (µs)."""

    round_trip: np.int64
    """The least between Gi and the server."""
    half: np.int64
    """Half of it."""
    slack: np.int64
    """By so much may an ACK have been heard before it is believed to be."""
    jitter: np.int64
    """By so much may an answer be late."""


@inner
def clock_of(round_trip):
    """The Clock of a server so far away (µs)."""
    return Clock(
        np.int64(round_trip),
        np.int64(round_trip / 2),
        np.int64(round_trip / 4),
        np.int64(max(round_trip / 2, TICK_US)),
    )


@compiled
def servers(segments, connections):
    """SERVER[C] of Segments and their Connections.

    The round trip is the least from a SYN to its SYN ACK, from a request to the first segment that
    acknowledges it, from a timestamp to its echo (RFC 7323).
    """
    first = connections.first
    out = np.zeros(len(first) - 1, SERVER)
    for c in range(len(out)):
        out[c].round_trip = _least_round_trip(first[c], first[c + 1], segments)
        out[c].counts = ip_ids.is_counter(first[c], first[c + 1], segments, True)
        if out[c].counts:
            out[c].alone = ip_ids.is_connection_counter(first[c], first[c + 1], segments)
    return out


@inner
def _least_round_trip(begin, end, segments):
    ts, flags = segments.ts, segments.tcp_flags
    least = np.inf
    syns = 0
    syn = asked = stamped = NONE  # when what is to be answered passed Gi
    request = NONE
    stamp = np.uint32(0)
    for i in range(begin, end):
        if flags[i] & RST:
            continue
        if segments.downlink[i]:
            if flags[i] & SYN and flags[i] & ACK and syns == 1 and syn != NONE:
                least, syn = min(least, float(ts[i] - syn)), NONE
            if asked != NONE and not flags[i] & SYN and segments.up_number[i] >= request:
                least, asked = min(least, float(ts[i] - asked)), NONE
            if stamped != NONE and segments.has_timestamps[i] and segments.ts_ecr[i] == stamp:
                least, stamped = min(least, float(ts[i] - stamped)), NONE
            continue
        if flags[i] & SYN:
            syns += 1
            syn = ts[i] if flags[i] & ACK == 0 else NONE
        elif segments.up_number[i] != NONE:
            last = segments.up_number[i] + segments.payload_len[i] + (flags[i] & FIN != 0)
            asks = last > segments.up_number[i]
            if asks and (request == NONE or last > request):
                request, asked = last, ts[i]
        newer = np.int32(np.uint32(segments.ts_val[i]) - stamp) > 0 or stamped == NONE
        if segments.has_timestamps[i] and newer and segments.ts_val[i] != stamp:
            stamp, stamped = np.uint32(segments.ts_val[i]), ts[i]
    return least if least < np.inf else np.nan
