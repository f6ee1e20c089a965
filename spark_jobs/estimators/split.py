"""Connections that something at Gi answers in the mobile's name: a performance-enhancing proxy that
splits them (RFC 3135, 2.4, 3.1), between the monitor and the mobile.

What is told of the access side is then the proxy's. Two signs show one that lets the handshake
pass and takes over behind it:

distance   no ACK of the mobile's after the first data to it has the TTL of its SYN, by more hops
           than a way may change
sooner     data is acknowledged many times sooner than any handshake of the user: the 95th
           percentile of the round trips under load is a quarter of the least of three handshakes
           or less. A radio that sleeps does not look so: the SYN that Gi saw has woken it.

One that answers the SYN itself leaves no sign but that all RTTs on the access side are shorter than a
radio's: a mobile that is as near is not told from it. `quality` has the share of these.
"""

import numpy as np

from spark_jobs.compiled import compiled
from spark_jobs.estimators.tcp import RST, SYN

ROUTE_CHANGE = 1
"""Hops by which a way may change."""
MIN_ACKS = 4
"""ACKs after the first data that tell of another distance."""
MIN_DATA_RTTS = 8
"""Round trips of data, and"""
MIN_HANDSHAKES = 3
"""of a user's handshakes that are compared."""
MIN_RTT_RATIO = 4
"""How many times sooner data is answered than a handshake."""


def split_connections(segments, connections, handshake_s, data_rtts):
    """bool[C]: whether the Connections of Segments show a sign; handshake_s float64[C]: round trip
    of the handshake on the access side (s; NaN: not known); trips: QUANTILES[C] of the data's."""
    return _has_other_distance(segments, connections) | _answers_too_soon(
        connections, handshake_s, data_rtts
    )


@compiled
def _has_other_distance(segments, connections):
    """bool[C]: the mobile's ACKs of data come from another distance than its SYN."""
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
    """bool[C]: the mobile's ACKs of data come far sooner than those of any of its user's
    handshakes."""
    usable = connections.starts_in_window & ~np.isnan(handshake_s)
    user, users = connections.user[usable], len(connections.user_offsets) - 1
    min_handshake_s = np.full(users, np.inf)
    np.minimum.at(min_handshake_s, user, handshake_s[usable])
    min_handshake_s[np.bincount(user, minlength=users) < MIN_HANDSHAKES] = 0
    known = (data_rtts["count"] >= MIN_DATA_RTTS) & ~np.isnan(handshake_s)
    return known & (MIN_RTT_RATIO * data_rtts["p95"] <= min_handshake_s[connections.user])
