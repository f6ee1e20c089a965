"""Segments that arrived and that the mobile dropped for their old timestamp (PAWS, RFC 7323, 5.3).

The mobile has no data of such a segment, so its retransmission was needed. Echoed timestamps show
this, because TS.Recent never goes back. An ACK that echoes a newer timestamp than that of a
reordered segment shows that the mobile dropped the segment, if the packet with the newer timestamp
arrived first. That is so if Gi saw no such packet after the segment, or if the ACK is too early to
answer one. An ACK that does not acknowledge the segment's first byte shows the same, whenever the
mobile sent it. If it was sent before the segment arrived, the newer timestamp came first. If it was
sent after, the mobile had not taken the segment.
"""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators.loss.missing_d_sacks import has_earlier_transmission_arrived
from spark_jobs.estimators.sequence import NONE, search_begin, search_end, search_steps

ACCEPTED, UNKNOWN, DROPPED = range(3)
PAWS_WINDOW = 1
"""Maximum age of a timestamp that the mobile may accept, in ticks (Linux, TCP_PAWS_WINDOW)."""


@compiled
def dropped_by_paws(segments, connections, base_us, retransmissions, originals):
    """Return uint8[K]: whether the mobile DROPPED or ACCEPTED the original of each retransmission.

    The original is assumed to have arrived. UNKNOWN: it depends on the TCP stack, or the searches
    of the connection took too many steps. segments,
    connections: Segments and their Connections; base_us: float64[C], the user's base RTT on the
    access side (µs); retransmissions, originals: int64[K], indexes of Segments (-1: no original).
    """
    out = np.zeros(len(retransmissions), np.uint8)
    steps_by_connection = search_steps(connections.first)
    for k in range(len(retransmissions)):
        if originals[k] < 0 or not segments.has_timestamps[originals[k]]:
            continue
        c = np.searchsorted(connections.first, retransmissions[k], "right") - 1
        steps_left = steps_by_connection[c : c + 1]
        begin, end = connections.first[c], connections.first[c + 1]
        verdict = _paws_verdict(originals[k], begin, end, segments, base_us[c], steps_left)
        if verdict != ACCEPTED and not has_earlier_transmission_arrived(
            retransmissions[k], begin, end, segments, base_us[c], steps_left
        ):
            out[k] = verdict
        if steps_left[0] < 0:
            out[k] = UNKNOWN
    return out


@inner
def _paws_verdict(original, begin, end, segments, base_us, steps_left):
    """Return whether an ACK shows that an original was DROPPED.

    The segments of its connection are begin to end; steps_left: see `search_steps`. In the loop,
    min_newer is the least difference to a newer timestamp that Gi saw after the original.
    """
    begin = search_begin(begin, original, steps_left[0])
    ts, number, downlink = segments.ts, segments.number, segments.downlink
    low = number[original]
    high = low + np.int64(segments.payload_len[original])
    ts_val = segments.ts_val[original]
    previous_ack = original - 1
    while previous_ack > begin and (downlink[previous_ack] or number[previous_ack] == NONE):
        previous_ack -= 1
    verdict, min_newer = ACCEPTED, np.int64(2**31)
    steps_left[0] -= original - previous_ack
    for i in range(previous_ack, search_end(original, end, steps_left[0])):
        steps_left[0] -= 1
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
