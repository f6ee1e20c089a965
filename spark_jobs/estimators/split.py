"""Split connections: a proxy between the monitor and the mobile answers in the mobile's name.

A performance-enhancing proxy at Gi splits a connection (RFC 3135, 2.4, 3.1). Measurements of the
access side then describe the proxy. Two signs show a proxy that lets the handshake pass and takes
over after it:

distance   after the first data to the mobile, no ACK of the mobile has the TTL of its SYN, and the
           difference is more hops than a route may change by.
sooner     data is acknowledged many times sooner than any handshake of the user: the 95th
           percentile of the RTTs under load is at most a quarter of the smallest of at least
           three handshake RTTs. A sleeping radio does not look so, because the SYN that Gi saw has
           woken it.

A proxy that answers the SYN itself has only one sign: all RTTs on the access side are shorter than
a radio's. It cannot be distinguished from a mobile that is as near. The table `quality` has the
share of such connections.
"""

import numpy as np

from spark_jobs.compiled import compiled
from spark_jobs.estimators.tcp import RST, SYN

ROUTE_CHANGE = 1
"""Number of hops by which a route may change."""
MIN_ACKS = 4
"""Minimum number of ACKs after the first data that show another distance."""
MIN_DATA_RTTS = 8
"""Minimum number of RTT samples of data."""
MIN_HANDSHAKES = 3
"""Minimum number of a user's handshakes to compare with."""
MIN_RTT_RATIO = 4
"""Factor by which data must be answered sooner than a handshake."""


def split_connections(segments, connections, handshake_s, data_rtts):
    """Return bool[C]: whether the Connections of Segments show a sign of a proxy.

    handshake_s: float64[C], the handshake's RTT on the access side (s; NaN: not known). data_rtts:
    QUANTILES[C] of the data's RTTs.
    """
    return _has_other_distance(segments, connections) | _answers_too_soon(
        connections, handshake_s, data_rtts
    )


@compiled
def _has_other_distance(segments, connections):
    """Return bool[C]: the mobile's ACKs of data come from another distance than its SYN."""
    out = np.zeros(len(connections.first) - 1, np.bool_)
    flags, downlink, ttl = segments.tcp_flags, segments.downlink, segments.ttl
    for c in range(len(out)):
        syn_ttl = np.int64(-1)
        acks = np.int64(0)
        data_seen = False
        for i in range(connections.first[c], connections.first[c + 1]):
            if downlink[i]:
                data_seen |= segments.payload_len[i] > 0
            elif flags[i] & SYN:
                syn_ttl = np.int64(ttl[i])
            elif data_seen and syn_ttl >= 0 and not flags[i] & RST:
                if abs(np.int64(ttl[i]) - syn_ttl) <= ROUTE_CHANGE:
                    acks = np.int64(0)
                    break
                acks += 1
            elif syn_ttl < 0 and data_seen:
                break
        out[c] = acks >= MIN_ACKS
    return out


def _answers_too_soon(connections, handshake_s, data_rtts):
    """Return bool[C]: ACKs of data come far sooner than those of all the user's handshakes."""
    usable = connections.starts_in_window & ~np.isnan(handshake_s)
    user, users = connections.user[usable], len(connections.user_offsets) - 1
    min_handshake_s = np.full(users, np.inf)
    np.minimum.at(min_handshake_s, user, handshake_s[usable])
    min_handshake_s[np.bincount(user, minlength=users) < MIN_HANDSHAKES] = 0
    known = (data_rtts["count"] >= MIN_DATA_RTTS) & ~np.isnan(handshake_s)
    return known & (MIN_RTT_RATIO * data_rtts["p95"] <= min_handshake_s[connections.user])
