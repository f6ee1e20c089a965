"""Valid SACK blocks: within the data that the other end sent, and not across the acknowledged data.

See RFC 2018, 3. A firewall that changes sequence numbers, but not those in SACK options, makes
blocks with arbitrary numbers. Senders ignore them (RFC 2018, 5), and so do the estimators.
"""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators.sequence import NONE, search_end, search_steps, sequence_length, unwrap
from spark_jobs.estimators.tcp import RST, SYN
from spark_jobs.estimators.window import FAR, NEAR


@compiled
def filter_sack_blocks(segments, first):
    """Remove invalid SACK blocks from segments.sack_edges, in place.

    Returns (uint8[N]: number of valid SACK edges of each of the Segments; bool[C]: connections that
    have blocks, but no valid one). first: int64[C + 1], index of each connection's first segment.
    In segments.sack_edges, valid blocks are moved to the front, and the other edges become 0.
    """
    count = segments.sack_count.copy()
    invalid = np.zeros(len(first) - 1, np.bool_)
    lowest, highest = np.empty(2, np.int64), np.empty(2, np.int64)
    syn_seen = np.empty(2, np.bool_)
    steps_by_connection = search_steps(first)
    for c in range(len(invalid)):
        if not segments.sack_count[first[c] : first[c + 1]].any():
            continue
        lowest[:], highest[:], syn_seen[:] = NONE, NONE, False
        any_valid, steps_left = False, steps_by_connection[c : c + 1]
        for i in range(first[c], first[c + 1]):
            if segments.tcp_flags[i] & RST:
                continue
            direction = 1 if segments.downlink[i] else 0
            own = segments.number[i] if direction else segments.up_number[i]
            other = segments.up_number[i] if direction else segments.number[i]
            if own != NONE:
                length = sequence_length(segments.tcp_flags[i], segments.payload_len[i])
                highest[direction] = max(highest[direction], own + length)
                lowest[direction] = (
                    own if lowest[direction] == NONE else min(lowest[direction], own)
                )
                syn_seen[direction] |= segments.tcp_flags[i] & SYN != 0
            if other != NONE:
                highest[1 - direction] = max(highest[1 - direction], other)
                if segments.sack_count[i]:
                    low = lowest[1 - direction] if syn_seen[1 - direction] else other - FAR
                    span = i, first[c + 1]
                    high = highest[1 - direction]
                    count[i] = _filter_blocks(segments, span, other, low, high, steps_left)
                    any_valid |= count[i] > 0
                    invalid[c] |= count[i] < segments.sack_count[i]
        invalid[c] &= not any_valid
    return count, invalid


@inner
def _filter_blocks(segments, span, acked, lowest, highest, steps_left):
    """Return the number of valid edges of segment span[0]; span[1]: its connection's end."""
    offset, edges = segments.sack_at[span[0]], segments.sack_edges
    count = np.int64(0)
    for k in range(offset, offset + np.int64(segments.sack_count[span[0]]) - 1, 2):
        left, right = unwrap(edges[k], acked), unwrap(edges[k + 1], acked)
        is_block = lowest <= left < right and not left < acked < right
        if is_block and (
            right <= highest or _may_be_unseen_data(segments, span, right, highest, steps_left)
        ):
            edges[offset + count], edges[offset + count + 1] = edges[k], edges[k + 1]
            count += 2
    for k in range(offset + count, offset + np.int64(segments.sack_count[span[0]])):
        edges[k] = 0
    return np.uint8(count)


@inner
def _may_be_unseen_data(segments, span, right, highest, steps_left):
    """Return whether data up to `right`, above all data seen, can have been sent unseen.

    highest: end of the data seen. The data cannot have been sent if the sender continues below it.
    """
    if right - highest > NEAR:
        return False
    down = segments.downlink[span[0]]
    for j in range(span[0] + 1, search_end(span[0] + 1, span[1], steps_left[0])):
        steps_left[0] -= 1
        if segments.downlink[j] != down and segments.payload_len[j]:
            low = segments.up_number[j] if down else segments.number[j]
            if low != NONE and low + np.int64(segments.payload_len[j]) > highest:
                return low >= right
    return True
