"""IP IDs that count all TCP packets from a server to a user, attributed to its connections.

Some senders count the packets to each host (ns-3, Windows). Then no connection alone shows which of
its packets are missing, but all connections of a user with the server do together. Here such IDs
are replaced by numbers of each connection. An ID that no packet carries is attributed to a
connection if the packets before and after it are of this one; otherwise to none.
"""

import numpy as np

from spark_jobs.estimators.ip_ids import MAX_REORDERING
from spark_jobs.estimators.records import Connections, Segments
from spark_jobs.estimators.tcp import RST

MAX_MISSING_SHARE = 0.05
"""Maximum number of missing IDs, as a share of the packets.

If more are missing, the server may count the packets to other hosts, too.
"""


def number_by_connection(
    segments: Segments, connections: Connections, servers: np.ndarray
) -> tuple[Segments, np.ndarray]:
    """Return (segments, SERVER[C]) in which IP IDs that count by host count by connection.

    Only the IDs to the mobile change; a packet with RST keeps its ID.
    """
    host = connections.user.astype(np.int64) << 32 | connections.server
    chosen = np.isin(host, host[servers["ids_in_order"] & ~servers["ids_exclusive"]])
    if not chosen.any():
        return segments, servers
    of_segment = np.repeat(np.arange(len(host)), np.diff(connections.first))
    at = np.flatnonzero(chosen[of_segment] & segments.downlink & (segments.tcp_flags & RST == 0))
    at = at[np.lexsort((segments.place[at], host[of_segment[at]]))]
    _, pair = np.unique(host[of_segment[at]], return_inverse=True)
    order, missing, counts_pair = _read_counters(segments.ip_id[at], pair)
    at = at[order]
    number = _numbers(of_segment[at], missing)
    ip_id, out = segments.ip_id.copy(), servers.copy()
    ip_id[at[counts_pair]] = number[counts_pair].astype(np.uint16)
    for name in ("ids_in_order", "ids_exclusive"):
        out[name][of_segment[at[counts_pair]]] = True
    return segments._replace(ip_id=ip_id), out


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
