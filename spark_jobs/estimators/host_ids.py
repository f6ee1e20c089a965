"""IP IDs that count all packets from a server to a user, attributed to its connections.

Some senders count the packets to each host (ns-3, Windows). Then no connection alone shows which of
its packets are missing, but all packets of a user and a server do together, also those of UDP and
ICMP. Here such IDs are replaced by numbers of each connection. An ID that no packet carries is
attributed to a connection if the packets before and after it are of this one; otherwise to none.
"""

import numpy as np

from spark_jobs.estimators.ip_ids import MAX_REORDERING
from spark_jobs.estimators.records import Connections, Packets, Segments
from spark_jobs.estimators.tcp import RST

NO_CONNECTION = -1
"""Number in place of the connection of a packet that is no TCP packet."""
MAX_MISSING_SHARE = 0.05
"""Maximum number of missing IDs, as a share of the packets.

If more are missing, the server may count the packets to other hosts, too.
"""


def number_by_connection(
    segments: Segments, connections: Connections, packets: Packets, servers: np.ndarray
) -> tuple[Segments, np.ndarray]:
    """Return (segments, SERVER[C]) in which IP IDs that count by host count by connection.

    Only the IDs to the mobile change; a packet with RST keeps its ID.
    """
    host = _hosts(connections.user, connections.server)
    others = np.flatnonzero(~packets.is_tcp & packets.downlink & (packets.ip_id != 0))
    host_of_others = _hosts(packets.user[others], packets.server[others])
    is_shared = ~servers["ids_exclusive"] | np.isin(host, host_of_others)
    chosen = np.isin(host, host[servers["ids_in_order"] & is_shared])
    if not chosen.any():
        return segments, servers
    of_segment = np.repeat(np.arange(len(host)), np.diff(connections.first))
    at = np.flatnonzero(chosen[of_segment] & segments.downlink & (segments.tcp_flags & RST == 0))
    others = others[np.isin(host_of_others, host[chosen])]
    connection = np.append(of_segment[at], np.full(len(others), NO_CONNECTION))
    host = np.append(host[of_segment[at]], _hosts(packets.user[others], packets.server[others]))
    by_time = np.lexsort((np.append(segments.place[at], others), host))
    ip_id = np.append(segments.ip_id[at], packets.ip_id[others])[by_time]
    _, pair = np.unique(host[by_time], return_inverse=True)
    order, missing, counts_pair = _read_counters(ip_id, pair)
    place, connection = by_time[order], connection[by_time[order]]
    number = _numbers(connection, missing)
    counts_pair &= connection != NO_CONNECTION
    ip_id, out = segments.ip_id.copy(), servers.copy()
    ip_id[at[place[counts_pair]]] = number[counts_pair].astype(np.uint16)
    for name in ("ids_in_order", "ids_exclusive"):
        out[name][connection[counts_pair]] = True
    return segments._replace(ip_id=ip_id), out


def _hosts(user: np.ndarray, server: np.ndarray) -> np.ndarray:
    """Return a number for each pair of a user and a server, int64[n]."""
    return user.astype(np.int64) << 32 | server


def _read_counters(
    ip_id: np.ndarray, pair: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (order, missing, counts_pair) of n packets by user and server (pair), and time.

    order: int64[n], their indices by pair and ID.
    missing: int64[n], the number of IDs that are missing before each, in this order.
    counts_pair: bool[n], whether the IDs of its pair count the pair's packets alone.
    """
    begins = _begins(pair)
    step = np.diff(ip_id, prepend=ip_id[:1]).astype(np.int16).astype(np.int64)
    step[begins] = 0
    sequence = np.cumsum(step)
    order = np.lexsort((sequence, pair))  # pairs stay where they are
    missing = np.diff(sequence[order], prepend=0) - 1
    missing[begins] = 0
    total = np.bincount(pair, np.maximum(missing, 0))
    counts_pair = total <= MAX_MISSING_SHARE * np.bincount(pair)
    counts_pair[pair[(missing < 0) | (np.abs(step) >= MAX_REORDERING)]] = False
    return order, missing, counts_pair[pair]


def _numbers(connection: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Return the packets' numbers in their connections, from 1, int64[n].

    A missing ID counts if the packet before it is of the same connection.
    """
    advance = 1 + missing * (connection == np.roll(connection, 1))
    own = np.argsort(connection, kind="stable")
    total, begins = np.cumsum(advance[own]), _begins(connection[own])
    before = (total - advance[own])[begins]
    out = np.empty(len(own), np.int64)
    out[own] = total - before[np.cumsum(begins) - 1]
    return out


def _begins(codes: np.ndarray) -> np.ndarray:
    """Return whether each of the sorted codes is the first of its group, bool[n]."""
    return np.concatenate(([True], codes[1:] != codes[:-1]))
