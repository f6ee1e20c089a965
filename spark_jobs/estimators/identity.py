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
def flow_ids(user_hash, server_hash, user_port, server_port, start_ts, first_number):
    """Return int64[C], not negative: the identifiers of connections.

    user_hash, server_hash: uint64[C], of the texts of the user's key and of the server's address.
    first_number: uint32[C], the sequence number or the connection ID of the first packet.
    """
    out = np.empty(len(user_hash), np.int64)
    for c in range(len(out)):
        ports = np.uint64(user_port[c]) << np.uint64(16) | np.uint64(server_port[c])
        h = _mix(_mix(_mix(user_hash[c], server_hash[c]), ports), np.uint64(start_ts[c]))
        out[c] = np.int64(_mix(h, np.uint64(first_number[c])) >> np.uint64(1))
    return out
