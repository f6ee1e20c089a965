"""Hashes of what packets say, for compiled loops. Some are kept on disk (see sketch.py)."""

import numpy as np

from spark_jobs.compiled import inner

FIRST_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
SECOND_MULTIPLIER = np.uint64(0xD6E8FEB86659FD93)


def address_hashes(addresses: np.ndarray) -> np.ndarray:
    """uint64[n]: of addresses, uint64[n, 2 or more], whose numbers are others in every run."""
    high, low = addresses[:, 0], addresses[:, 1]
    hashed = (high * FIRST_MULTIPLIER ^ low) * SECOND_MULTIPLIER
    return (hashed ^ hashed >> np.uint64(32)) * FIRST_MULTIPLIER


@inner
def hash_combine(h, value):
    """The hash h of what came before, and of a further 64-bit value."""
    h = (h ^ np.uint64(value)) * FIRST_MULTIPLIER
    return h ^ h >> np.uint64(32)


@inner
def pack_pair(high, low):
    """Two 32-bit values as one."""
    return np.uint64(high) << np.uint64(32) | np.uint64(low)
