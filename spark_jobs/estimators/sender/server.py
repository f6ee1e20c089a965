"""Server's clock: when the server received and sent the packets that Gi saw.

Between Gi and the server lies the Internet side. Half of its base RTT separates the two clocks. Any
delay beyond it counts as the packet's own. So the replay places an ACK's arrival at the server a
little early, and a segment's departure a little late. An answer of the server follows the ACK by at
most `Clock.jitter`.
"""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators import ip_ids
from spark_jobs.estimators.sequence import NONE
from spark_jobs.estimators.tcp import ACK, FIN, RST, SYN

MIN_JITTER_US = 20_000.0
"""Minimum of Clock.jitter: two ticks of a slow clock (100 Hz)."""
SERVER = np.dtype([("internet_rtt", "f8"), ("ids_in_order", "?"), ("ids_exclusive", "?")])
"""Properties of a connection's server.

internet_rtt: base RTT between Gi and the server (µs); NaN: unknown
ids_in_order: its IP IDs show the order of sending (see `ip_ids`)
ids_exclusive: its IP IDs count packets of this connection alone
"""


class Clock(NamedTuple):
    """Differences between the server's clock and Gi's (µs)."""

    internet_rtt: np.int64
    """Base RTT between Gi and the server."""
    half: np.int64
    """Half of internet_rtt."""
    slack: np.int64
    """Maximum time by which an ACK may have arrived earlier than assumed."""
    jitter: np.int64
    """Maximum time by which an answer may be late."""


@inner
def clock_of(internet_rtt):
    """Return the Clock of a server, given the base RTT between Gi and it (µs)."""
    return Clock(
        np.int64(internet_rtt),
        np.int64(internet_rtt / 2),
        np.int64(internet_rtt / 4),
        np.int64(max(internet_rtt / 2, MIN_JITTER_US)),
    )


@compiled
def servers(segments, connections):
    """Return SERVER[C] of Segments and their Connections.

    The base RTT is the smallest time from a SYN to its SYN ACK, from a request to the first segment
    that acknowledges it, or from a timestamp to its echo (RFC 7323).
    """
    first = connections.first
    out = np.zeros(len(first) - 1, SERVER)
    for c in range(len(out)):
        out[c].internet_rtt = _base_rtt(first[c], first[c + 1], segments)
        out[c].ids_in_order = ip_ids.is_counter(first[c], first[c + 1], segments, True)
        if out[c].ids_in_order:
            out[c].ids_exclusive = ip_ids.is_connection_counter(first[c], first[c + 1], segments)
    return out


@inner
def _base_rtt(begin, end, segments):
    ts, flags = segments.ts, segments.tcp_flags
    base_rtt = np.inf
    syns = 0
    syn_at = request_at = ts_val_at = NONE  # when the packets that await an answer passed Gi
    request_end = NONE
    ts_val = np.uint32(0)
    for i in range(begin, end):
        if flags[i] & RST:
            continue
        if segments.downlink[i]:
            if flags[i] & SYN and flags[i] & ACK and syns == 1 and syn_at != NONE:
                base_rtt, syn_at = min(base_rtt, float(ts[i] - syn_at)), NONE
            if request_at != NONE and not flags[i] & SYN and segments.up_number[i] >= request_end:
                base_rtt, request_at = min(base_rtt, float(ts[i] - request_at)), NONE
            if ts_val_at != NONE and segments.has_timestamps[i] and segments.ts_ecr[i] == ts_val:
                base_rtt, ts_val_at = min(base_rtt, float(ts[i] - ts_val_at)), NONE
            continue
        if flags[i] & SYN:
            syns += 1
            syn_at = ts[i] if flags[i] & ACK == 0 else NONE
        elif segments.up_number[i] != NONE:
            end_number = segments.up_number[i] + segments.payload_len[i] + (flags[i] & FIN != 0)
            has_request = end_number > segments.up_number[i]
            if has_request and (request_end == NONE or end_number > request_end):
                request_end, request_at = end_number, ts[i]
        newer = np.int32(np.uint32(segments.ts_val[i]) - ts_val) > 0 or ts_val_at == NONE
        if segments.has_timestamps[i] and newer and segments.ts_val[i] != ts_val:
            ts_val, ts_val_at = np.uint32(segments.ts_val[i]), ts[i]
    return base_rtt if base_rtt < np.inf else np.nan
