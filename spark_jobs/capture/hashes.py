"""Hash functions for compiled loops.

Hashes of connection IDs are stored (packets.quic_dcid), so fnv1a must not change.
"""

import numpy as np

from spark_jobs.compiled import inner

FIRST_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
SECOND_MULTIPLIER = np.uint64(0xD6E8FEB86659FD93)


def address_hashes(addresses: np.ndarray) -> np.ndarray:
    """Return hashes of addresses: uint64[n].

    addresses: uint64[n, 2 or more], their halves. Hashes serve where address numbers do not,
        because the numbers differ from batch to batch.
    """
    high, low = addresses[:, 0], addresses[:, 1]
    hashed = (high * FIRST_MULTIPLIER ^ low) * SECOND_MULTIPLIER
    return (hashed ^ hashed >> np.uint64(32)) * FIRST_MULTIPLIER


@inner
def hash_combine(h, value):
    """Return a hash of the earlier hash `h` and of one more 64-bit value."""
    h = (h ^ np.uint64(value)) * FIRST_MULTIPLIER
    return h ^ h >> np.uint64(32)


@inner
def pack_pair(high, low):
    """Return two 32-bit values as one 64-bit value."""
    return np.uint64(high) << np.uint64(32) | np.uint64(low)


@inner
def fnv1a(data, pos, end):
    """Return the 32-bit FNV-1a hash of data[pos:end], uint8 (RFC 9923)."""
    value = np.uint64(0x811C9DC5)
    for i in range(pos, end):
        value = (value ^ np.uint64(data[i])) * np.uint64(0x01000193) & np.uint64(0xFFFFFFFF)
    return np.uint32(value)
