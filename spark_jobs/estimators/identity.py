"""A connection's identifier: the same on every run, for any number of cores and user partitions."""

import numpy as np

from spark_jobs.compiled import compiled, inner


@inner
def _mix(h, value):
    """Return SplitMix64's finalizer over h and another value (Steele, Lea, Flood 2014)."""
    h = (h ^ value) + np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ h >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ h >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return h ^ h >> np.uint64(31)


@compiled
def flow_ids(user_hash, server_hash, segments, connections):
    """Return int64[C], not negative: the identifiers of Connections and their Segments.

    user_hash, server_hash: uint64, of the text of each user's key and of each server's address.
    """
    out = np.empty(len(connections.user), np.int64)
    for c in range(len(out)):
        user, server = user_hash[connections.user[c]], server_hash[connections.server[c]]
        user_port, server_port = connections.user_port[c], connections.server_port[c]
        ports = np.uint64(user_port) << np.uint64(16) | np.uint64(server_port)
        h = _mix(_mix(_mix(user, server), ports), np.uint64(connections.start_ts[c]))
        out[c] = np.int64(_mix(h, np.uint64(segments.seq[connections.first[c]])) >> np.uint64(1))
    return out
