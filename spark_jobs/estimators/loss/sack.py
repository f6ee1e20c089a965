"""SACK blocks (RFC 2018) and what came again (D-SACK, RFC 2883)."""

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.sequence import unwrap


@inner
def is_d_sack(edges, ack):
    """Whether the first block tells of data that came again (RFC 2883, 4): it lies below the number
    acknowledged or within the second block. edges uint32: an ACK's, two or more."""
    if unwrap(edges[1], ack) <= ack:
        return True
    if len(edges) < 4:
        return False
    return np.int32(edges[0] - edges[2]) >= 0 and np.int32(edges[3] - edges[1]) >= 0
