"""TCP's flag bits, a threshold, and sequence arithmetic (RFC 9293, 3.1 and 3.4)."""

import numpy as np

from spark_jobs.compiled import inlined

FIN, SYN, RST, PSH, ACK, ECE, CWR = 1, 2, 4, 8, 16, 64, 128
DUP_THRESH = 3
"""Number of duplicate ACKs that indicate a loss (RFC 5681, 3.2)."""


@inlined
def seq_diff(a, b):
    """Return a - b in sequence space, -2^31 <= result < 2^31; a, b: uint32."""
    return np.int64(np.int32(np.uint32(a) - np.uint32(b)))
