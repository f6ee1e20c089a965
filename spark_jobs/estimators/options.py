"""Which options and sizes a connection used (INFOCOM II, Table I)."""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators.records import NO_SCALE
from spark_jobs.estimators.tcp import ACK, RST, SYN

NO, YES, NOT_KNOWN = 0, 1, -1

LARGEST_SHIFT = 14
"""RFC 7323, 2.3."""

OPTIONS = np.dtype([("sack", "i1"), ("timestamps", "i1"), ("max_window", "i8")], align=True)
"""A connection's options: SACK permitted in both SYNs, timestamps seen in both directions (NO, YES,
NOT_KNOWN), largest window that the mobile advertised (B, scaled; NOT_KNOWN without the scale)."""


@compiled
def options(segments, connections, options_cut):
    """OPTIONS[C] of Segments and their Connections; options_cut: bool[N], of each segment.

    The window of a SYN is never scaled, and a scale counts only where both SYNs carried the
    option (RFC 7323, 2.2). An option of a SYN that was not seen, or that the capture may have cut
    off, is not known, unless the other SYN does without it or the connection never came about.
    """
    first, flags, window = connections.first, segments.tcp_flags, segments.window
    out = np.zeros(len(first) - 1, OPTIONS)
    for c in range(len(first) - 1):
        seen, scale, sack = np.zeros(2, np.bool_), np.full(2, NO_SCALE), np.zeros(2, np.bool_)
        stamped, cut, cut_syn = np.zeros((3, 2), np.bool_)
        in_syn = in_others = np.int64(-1)
        others = False
        for i in range(first[c], first[c + 1]):
            way = 1 if segments.downlink[i] else 0
            stamped[way] |= segments.has_timestamps[i]
            cut[way] |= options_cut[i]
            if flags[i] & SYN:
                cut_syn[way] |= options_cut[i]
                seen[way] = True
                sack[way] |= segments.sack_permitted[i]
                scale[way] = max(scale[way], segments.window_scale[i])
                if not way:
                    in_syn = max(in_syn, np.int64(window[i]))
            elif not flags[i] & RST:
                others = True
                if not way and flags[i] & ACK:
                    in_others = max(in_others, np.int64(window[i]))
        out[c].timestamps = YES if stamped[0] and stamped[1] else NO
        for way in range(2):
            if cut[way] and not stamped[way] and (stamped[1 - way] or cut[1 - way]):
                out[c].timestamps = NOT_KNOWN
        out[c].sack = _agreed(seen & (sack | ~cut_syn), sack, others)
        has_scale = scale > NO_SCALE
        scaled = _agreed(seen & (has_scale | ~cut_syn), has_scale, others)
        out[c].max_window = in_syn
        if in_others >= 0 and scaled == NOT_KNOWN:
            out[c].max_window = NOT_KNOWN
        elif in_others >= 0:
            shift = min(scale[0], LARGEST_SHIFT) if scaled == YES else 0
            out[c].max_window = max(in_syn, in_others << shift)
    return out


@compiled
def uses_sack(segments, first):
    """bool[C]: SACK permitted in both directions, or used; of Segments, and where each connection's
    begin, int64[C + 1]."""
    out = np.empty(len(first) - 1, np.bool_)
    for c in range(len(out)):
        up = down = used = False
        for i in range(first[c], first[c + 1]):
            permitted, downlink = segments.sack_permitted[i], segments.downlink[i]
            down |= permitted and downlink
            up |= permitted and not downlink
            used |= segments.sack_count[i] > 0
        out[c] = (up and down) or used
    return out


@inner
def _agreed(seen, has, others):
    """Whether both SYNs carried an option: NO, YES or NOT_KNOWN."""
    if (seen[0] and not has[0]) or (seen[1] and not has[1]):
        return NO
    if seen[0] and seen[1]:
        return YES
    if (seen[0] or seen[1]) and not others:
        return NO
    return NOT_KNOWN


MSS_CLASSES = ("low", "high", "other")
WINDOW_CLASSES = ("low", "med", "high")


def mss_class(max_ip_len):
    """Places in MSS_CLASSES by the largest IP packet (B): low 400-600, high 1400-1600."""
    low = (max_ip_len >= 400) & (max_ip_len <= 600)
    high = (max_ip_len >= 1400) & (max_ip_len <= 1600)
    return np.select([low, high], [0, 1], 2)


def window_class(max_window):
    """Places in WINDOW_CLASSES by the largest window (B): below 10 000, up to 20 000, above."""
    return np.select([max_window < 10_000, max_window <= 20_000], [0, 1], 2)
