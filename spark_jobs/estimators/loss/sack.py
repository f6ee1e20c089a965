"""SACK blocks (RFC 2018), and D-SACK blocks for data that arrived twice (RFC 2883)."""

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.sequence import unwrap


@inner
def is_d_sack(edges, ack):
    """Return whether the first SACK block of an ACK reports data that arrived twice (RFC 2883, 4).

    This is so if the block lies below the acknowledgment number `ack` or within the second block.
    edges uint32: the edges of the ACK's blocks, two or more.
    """
    if unwrap(edges[1], ack) <= ack:
        return True
    if len(edges) < 4:
        return False
    return np.int32(edges[0] - edges[2]) >= 0 and np.int32(edges[3] - edges[1]) >= 0
