"""Options and window sizes that a connection used (INFOCOM II, Table I)."""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators.records import NO_SCALE
from spark_jobs.estimators.tcp import ACK, RST, SYN

NO, YES, NOT_KNOWN = 0, 1, -1
"""States of an option."""

MAX_WINDOW_SHIFT = 14
"""Maximum shift count of the window scale option (RFC 7323, 2.3)."""

OPTIONS = np.dtype([("sack", "i1"), ("timestamps", "i1"), ("max_window", "i8")], align=True)
"""A connection's options.

sack: SACK permitted in both SYNs (NO, YES, NOT_KNOWN)
timestamps: timestamps seen in both directions (NO, YES, NOT_KNOWN)
max_window: largest window that the mobile advertised (B, scaled; NOT_KNOWN without the scale)
"""


@compiled
def options(segments, connections, options_cut):
    """Return OPTIONS[C] of Segments and their Connections; options_cut: bool[N], of each segment.

    The window of a SYN is never scaled, and a scale counts only if both SYNs carried the option
    (RFC 7323, 2.2). If a SYN was not seen, or the capture may have cut off its option, the option
    is not known. There are two exceptions: the other SYN does not have the option, or the
    connection was never established.
    """
    first, flags, window = connections.first, segments.tcp_flags, segments.window
    out = np.zeros(len(first) - 1, OPTIONS)
    for c in range(len(first) - 1):
        syn_seen, scale, sack = np.zeros(2, np.bool_), np.full(2, NO_SCALE), np.zeros(2, np.bool_)
        has_timestamps, is_cut, cut_syn = np.zeros((3, 2), np.bool_)
        max_syn_window = max_other_window = np.int64(-1)
        has_other_packets = False
        for i in range(first[c], first[c + 1]):
            direction = 1 if segments.downlink[i] else 0
            has_timestamps[direction] |= segments.has_timestamps[i]
            is_cut[direction] |= options_cut[i]
            if flags[i] & SYN:
                cut_syn[direction] |= options_cut[i]
                syn_seen[direction] = True
                sack[direction] |= segments.sack_permitted[i]
                scale[direction] = max(scale[direction], segments.window_scale[i])
                if not direction:
                    max_syn_window = max(max_syn_window, np.int64(window[i]))
            elif not flags[i] & RST:
                has_other_packets = True
                if not direction and flags[i] & ACK:
                    max_other_window = max(max_other_window, np.int64(window[i]))
        out[c].timestamps = YES if has_timestamps[0] and has_timestamps[1] else NO
        for direction in range(2):
            if (
                is_cut[direction]
                and not has_timestamps[direction]
                and (has_timestamps[1 - direction] or is_cut[1 - direction])
            ):
                out[c].timestamps = NOT_KNOWN
        out[c].sack = _negotiated(syn_seen & (sack | ~cut_syn), sack, has_other_packets)
        has_scale = scale > NO_SCALE
        scaling = _negotiated(syn_seen & (has_scale | ~cut_syn), has_scale, has_other_packets)
        out[c].max_window = max_syn_window
        if max_other_window >= 0 and scaling == NOT_KNOWN:
            out[c].max_window = NOT_KNOWN
        elif max_other_window >= 0:
            shift = min(scale[0], MAX_WINDOW_SHIFT) if scaling == YES else 0
            out[c].max_window = max(max_syn_window, max_other_window << shift)
    return out


@compiled
def uses_sack(segments, first):
    """Return bool[C]: SACK is permitted in both directions, or used.

    first: int64[C + 1], index of each connection's first segment.
    """
    out = np.empty(len(first) - 1, np.bool_)
    for c in range(len(out)):
        permitted_up = permitted_down = used = False
        for i in range(first[c], first[c + 1]):
            permitted, downlink = segments.sack_permitted[i], segments.downlink[i]
            permitted_down |= permitted and downlink
            permitted_up |= permitted and not downlink
            used |= segments.sack_count[i] > 0
        out[c] = (permitted_up and permitted_down) or used
    return out


@inner
def _negotiated(syn_seen, has_option, has_other_packets):
    """Return whether both SYNs carried an option: NO, YES or NOT_KNOWN."""
    if (syn_seen[0] and not has_option[0]) or (syn_seen[1] and not has_option[1]):
        return NO
    if syn_seen[0] and syn_seen[1]:
        return YES
    if (syn_seen[0] or syn_seen[1]) and not has_other_packets:
        return NO
    return NOT_KNOWN


MSS_CLASSES = ("low", "high", "other")
"""Names of MSS classes (see `mss_class`)."""
WINDOW_CLASSES = ("low", "med", "high")
"""Names of window classes (see `window_class`)."""


def mss_class(max_ip_len):
    """Return indices in MSS_CLASSES by the largest IP packet (B): low 400-600, high 1400-1600."""
    low = (max_ip_len >= 400) & (max_ip_len <= 600)
    high = (max_ip_len >= 1400) & (max_ip_len <= 1600)
    return np.select([low, high], [0, 1], 2)


def window_class(max_window):
    """Return indices in WINDOW_CLASSES by the largest window (B): < 10 000, <= 20 000, above."""
    return np.select([max_window < 10_000, max_window <= 20_000], [0, 1], 2)
