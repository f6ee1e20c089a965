"""SACK blocks that tell of data: those within what the other end has sent, and not across what is
acknowledged (RFC 2018, 3).

A firewall that changes sequence numbers, and not those in SACK options, makes blocks of anything;
senders ignore them (RFC 2018, 5), and so does what is estimated of the connection.
"""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators.sequence import NONE, sequence_length, unwrap
from spark_jobs.estimators.tcp import RST, SYN
from spark_jobs.estimators.window import FAR, NEAR


@compiled
def sack_blocks(segments, first):
    """(uint8[N]: how many SACK edges of each of the Segments are left; bool[C]: connections that
    have blocks, of which none tells of data). first int64[C + 1]: where each connection's segments
    begin. segments.sack_edges is changed: blocks that are left stand first, the others are empty.
    """
    count = segments.sack_count.copy()
    lies = np.zeros(len(first) - 1, np.bool_)
    lows, tops = np.empty(2, np.int64), np.empty(2, np.int64)
    opened = np.empty(2, np.bool_)
    for c in range(len(lies)):
        if not segments.sack_count[first[c] : first[c + 1]].any():
            continue
        lows[:], tops[:], opened[:] = NONE, NONE, False
        told = False
        for i in range(first[c], first[c + 1]):
            if segments.tcp_flags[i] & RST:
                continue
            way = 1 if segments.downlink[i] else 0
            own = segments.number[i] if way else segments.up_number[i]
            other = segments.up_number[i] if way else segments.number[i]
            if own != NONE:
                length = sequence_length(segments.tcp_flags[i], segments.payload_len[i])
                tops[way] = max(tops[way], own + length)
                lows[way] = own if lows[way] == NONE else min(lows[way], own)
                opened[way] |= segments.tcp_flags[i] & SYN != 0
            if other != NONE:
                tops[1 - way] = max(tops[1 - way], other)
                if segments.sack_count[i]:
                    low = lows[1 - way] if opened[1 - way] else other - FAR
                    span = i, first[c + 1]
                    count[i] = _keep(segments, span, other, low, tops[1 - way])
                    told |= count[i] > 0
                    lies[c] |= count[i] < segments.sack_count[i]
        lies[c] &= not told
    return count, lies


@inner
def _keep(segments, span, acked, low, top):
    """How many edges of segment span[0] are left; span[1]: where its connection ends."""
    at, edges = segments.sack_at[span[0]], segments.sack_edges
    kept = np.int64(0)
    for k in range(at, at + np.int64(segments.sack_count[span[0]]) - 1, 2):
        left, right = unwrap(edges[k], acked), unwrap(edges[k + 1], acked)
        is_one = low <= left < right and not left < acked < right
        if is_one and (right <= top or _was_unseen(segments, span, right, top)):
            edges[at + kept], edges[at + kept + 1] = edges[k], edges[k + 1]
            kept += 2
    for k in range(at + kept, at + np.int64(segments.sack_count[span[0]])):
        edges[k] = 0
    return np.uint8(kept)


@inner
def _was_unseen(segments, span, right, top):
    """Whether data up to `right`, above all that was seen, `top`, can have been sent unseen: the
    sender does not go on below it."""
    if right - top > NEAR:
        return False
    down = segments.downlink[span[0]]
    for j in range(span[0] + 1, span[1]):
        if segments.downlink[j] != down and segments.payload_len[j]:
            low = segments.up_number[j] if down else segments.number[j]
            if low != NONE and low + np.int64(segments.payload_len[j]) > top:
                return low >= right
    return True
