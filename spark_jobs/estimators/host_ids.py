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
    pair = connections.user.astype(np.int64) << 32 | connections.server
    shared = servers["ids_in_order"] & ~servers["ids_exclusive"]
    chosen = np.isin(pair, pair[shared])
    if not chosen.any():
        return segments, servers
    connection = np.repeat(np.arange(len(pair)), np.diff(connections.first))
    sent = segments.downlink & (segments.tcp_flags & RST == 0)
    at = np.flatnonzero(chosen[connection] & sent)
    at = at[np.lexsort((segments.place[at], pair[connection[at]]))]
    _, of_pair = np.unique(pair[connection[at]], return_inverse=True)
    step = np.diff(segments.ip_id[at], prepend=segments.ip_id[at[:1]]).astype(np.int16)
    step[_begins(of_pair)] = 0
    sequence = np.cumsum(step, dtype=np.int64)  # also across pairs: only differences count
    order = np.lexsort((sequence, of_pair))
    at, of_pair = at[order], of_pair[order]
    missing = np.diff(sequence[order], prepend=0) - 1
    missing[_begins(of_pair)] = 0
    count = np.bincount(of_pair)
    counts_host = np.bincount(of_pair, np.maximum(missing, 0)) <= MAX_MISSING_SHARE * count
    counts_host[of_pair[missing < 0]] = False
    counts_host[of_pair[np.argsort(order)][np.abs(step.astype(np.int64)) >= MAX_REORDERING]] = False
    missing[connection[at] != np.roll(connection[at], 1)] = 0
    own = np.lexsort((np.arange(len(at)), connection[at]))
    at, advance = at[own], missing[own] + 1
    number = np.cumsum(advance)
    begins = _begins(connection[at])
    number -= np.repeat((number - advance)[begins], np.diff(np.flatnonzero(begins), append=len(at)))
    counted = counts_host[of_pair[own]]
    ip_id = segments.ip_id.copy()
    ip_id[at[counted]] = number[counted].astype(np.uint16)
    out = servers.copy()
    for name in ("ids_in_order", "ids_exclusive"):
        out[name][connection[at[counted]]] = True
    return segments._replace(ip_id=ip_id), out


def _begins(codes: np.ndarray) -> np.ndarray:
    """Return whether each of the sorted codes is the first of its group, bool[n]."""
    return np.concatenate(([True], codes[1:] != codes[:-1]))
