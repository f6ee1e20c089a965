"""Segments that arrived and were thrown away for their old timestamp (PAWS, RFC 7323, 5.3).

The mobile has nothing of them, so the retransmission was needed. The echoes tell: TS.Recent never goes
back, so an ACK that echoes a newer timestamp than an overtaken segment's says that this was refused
if the newer one came first: Gi saw none such after it, or the ACK is too soon for it. So does one
that lacks the first of its bytes, whenever it was sent: before it came, the same; after, it had not
been taken.
"""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators.loss.missing_d_sacks import has_earlier_copy_arrived
from spark_jobs.estimators.sequence import NONE

ACCEPTED, UNKNOWN, DROPPED = range(3)
PAWS_WINDOW = 1
"""Ticks that a timestamp may be older and is taken all the same (Linux, TCP_PAWS_WINDOW)."""


@compiled
def dropped_by_paws(segments, connections, base_us, retransmissions, originals):
    """uint8[K]: whether the originals of retransmissions at these Segments, int64[K] each, were REFUSED if
    they arrived; UNKNOWN: it depends on the stack. Of their Connections; base_us float64[C]: the
    user's least RTT on the access side (µs)."""
    out = np.zeros(len(retransmissions), np.uint8)
    for k in range(len(retransmissions)):
        if originals[k] < 0 or not segments.has_timestamps[originals[k]]:
            continue
        c = np.searchsorted(connections.first, retransmissions[k], "right") - 1
        begin, end = connections.first[c], connections.first[c + 1]
        verdict = _paws_verdict(originals[k], begin, end, segments, base_us[c])
        if verdict != ACCEPTED and not has_earlier_copy_arrived(
            retransmissions[k], begin, end, segments, base_us[c]
        ):
            out[k] = verdict
    return out


@inner
def _paws_verdict(original, begin, end, segments, base_us):
    """Whether an ACK of a connection, segments begin to end, says that this one was refused. after:
    by how much the least newer timestamp is newer that Gi saw after it."""
    ts, number, downlink = segments.ts, segments.number, segments.downlink
    low = number[original]
    high = low + np.int64(segments.payload_len[original])
    ts_val = segments.ts_val[original]
    previous_ack = original - 1
    while previous_ack > begin and (downlink[previous_ack] or number[previous_ack] == NONE):
        previous_ack -= 1
    verdict, min_newer = ACCEPTED, np.int64(2**31)
    for i in range(previous_ack, end):
        if number[i] == NONE or not segments.has_timestamps[i]:
            continue
        if downlink[i]:
            newer_by = np.int64(np.int32(segments.ts_val[i] - ts_val))
            min_newer = min(min_newer, newer_by) if i > original and newer_by > 0 else min_newer
            continue
        if number[i] >= high:
            break
        echo_newer_by = np.int64(np.int32(segments.ts_ecr[i] - ts_val))
        came_first = ts[i] < ts[original] + base_us or echo_newer_by < min_newer or low <= number[i]
        if echo_newer_by <= 0 or not came_first:
            continue
        verdict = max(verdict, DROPPED if echo_newer_by > PAWS_WINDOW else UNKNOWN)
        if verdict == DROPPED:
            break
    return verdict
