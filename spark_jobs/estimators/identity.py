"""A connection's number: the same on every run, whatever the cores and buckets."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _mix(h, value):
    """SplitMix64's finalizer over h and a further value (Steele, Lea, Flood 2014)."""
    h = (h ^ value) + np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ h >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ h >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return h ^ h >> np.uint64(31)


@njit(cache=True, nogil=True)
def flow_ids(user_hash, server_hash, user_port, server_port, start_ts, first_seq):
    """int64[connections], not negative.

    user_hash, server_hash: uint64, of the keys' texts; ports uint16; start_ts int64 µs;
    first_seq: uint32, sequence number of the first packet.
    """
    out = np.empty(len(user_hash), np.int64)
    for c in range(len(user_hash)):
        ports = np.uint64(user_port[c]) << np.uint64(16) | np.uint64(server_port[c])
        h = _mix(_mix(_mix(user_hash[c], server_hash[c]), ports), np.uint64(start_ts[c]))
        out[c] = np.int64(_mix(h, np.uint64(first_seq[c])) >> np.uint64(1))
    return out
