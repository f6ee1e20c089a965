"""Segments that arrived and were thrown away for their old timestamp (PAWS, RFC 7323, 5.3).

The mobile has nothing of them, so the retransmission was needed. The echoes tell: TS.Recent never goes
back, so an ACK that echoes a newer timestamp than an overtaken segment's says that this was refused
if the newer one came first: Gi saw none such after it, or the ACK is too soon for it. So does one
that lacks the first of its bytes, whenever it was sent: before it came, the same; after, it had not
been taken.
"""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators.loss.twice import is_settled
from spark_jobs.estimators.sequence import NONE

TAKEN, UNKNOWN, REFUSED = range(3)
REPLAY_WINDOW = 1
"""Ticks that a timestamp may be older and is taken all the same (Linux, TCP_PAWS_WINDOW)."""


@compiled
def refused(segments, connections, base_us, at, original):
    """uint8[K]: whether the originals of retransmissions at these Segments, int64[K] each, were REFUSED if
    they arrived; UNKNOWN: it depends on the stack. Of their Connections; base_us float64[C]: the
    user's least RTT on the access side (µs)."""
    out = np.zeros(len(at), np.uint8)
    for k in range(len(at)):
        if original[k] < 0 or not segments.has_timestamps[original[k]]:
            continue
        c = np.searchsorted(connections.first, at[k], "right") - 1
        begin, end = connections.first[c], connections.first[c + 1]
        found = _refusal(original[k], begin, end, segments, base_us[c])
        if found != TAKEN and not is_settled(at[k], begin, end, segments, base_us[c]):
            out[k] = found
    return out


@inner
def _refusal(original, begin, end, segments, base_us):
    """Whether an ACK of a connection, segments begin to end, says that this one was refused. after:
    by how much the least newer timestamp is newer that Gi saw after it."""
    ts, number, downlink = segments.ts, segments.number, segments.downlink
    low = number[original]
    high = low + np.int64(segments.payload_len[original])
    value = segments.ts_val[original]
    i = original - 1
    while i > begin and (downlink[i] or number[i] == NONE):
        i -= 1
    found, after = TAKEN, np.int64(2**31)
    for j in range(i, end):
        if number[j] == NONE or not segments.has_timestamps[j]:
            continue
        if downlink[j]:
            later = np.int64(np.int32(segments.ts_val[j] - value))
            after = min(after, later) if j > original and later > 0 else after
            continue
        if number[j] >= high:
            break
        newer = np.int64(np.int32(segments.ts_ecr[j] - value))
        before = ts[j] < ts[original] + base_us or newer < after or low <= number[j]
        if newer <= 0 or not before:
            continue
        found = max(found, REFUSED if newer > REPLAY_WINDOW else UNKNOWN)
        if found == REFUSED:
            break
    return found
