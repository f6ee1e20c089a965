"""Data that the mobile reported by SACK and dropped again (reneging, RFC 2018, 8).

A mobile may do so as long as it has not acknowledged the data. If a SACK block covers data, and a
later ACK advances to this data and no further, the mobile has dropped it. Otherwise that ACK would
have acknowledged the block, too.
"""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators.sequence import NONE, search_end, search_steps, unwrap


@compiled
def reneged(segments, connections, retransmissions, originals):
    """Return whether the mobile reneged on the original of each retransmission.

    Returns two bool[K]. The second is whether this is known: that the connection's searches did not
    take too many steps.
    segments, connections: Segments and their Connections; retransmissions, originals: int64[K],
    indexes of Segments (-1: no original).
    """
    out, known = np.zeros((2, len(retransmissions)), np.bool_)
    steps_by_connection = search_steps(connections.first)
    for k in range(len(retransmissions)):
        c = np.searchsorted(connections.first, retransmissions[k], "right") - 1
        steps_left = steps_by_connection[c : c + 1]
        if originals[k] >= 0 and connections.sack[c]:
            out[k] = _is_reneged(originals[k], connections.first[c + 1], segments, steps_left)
        known[k] = out[k] or steps_left[0] >= 0
    return out, known


@inner
def _is_reneged(original, end, segments, steps_left):
    number = segments.number
    low = number[original]
    high = low + np.int64(segments.payload_len[original])
    sacked_by = NONE
    for i in range(original + 1, search_end(original + 1, end, steps_left[0])):
        steps_left[0] -= 1
        if segments.downlink[i] or number[i] == NONE:
            continue
        if number[i] >= high:
            return False
        if sacked_by != NONE and number[i] > sacked_by and number[i] >= low:
            return True
        if sacked_by == NONE and _covers(i, low, high, segments):
            sacked_by = number[i]
    return False


@inner
def _covers(i, low, high, segments):
    """Return whether a SACK block of segment i covers [low, high)."""
    at, number = segments.sack_at[i], segments.number[i]
    for k in range(at, at + np.int64(segments.sack_count[i]) - 1, 2):
        left = unwrap(segments.sack_edges[k], number)
        if left <= low and high <= unwrap(segments.sack_edges[k + 1], number):
            return True
    return False
