"""A user's path on the access side: its base RTT, the access link's pace, and the longest RTT."""

import numpy as np

from spark_jobs.compiled import compiled, inner, making
from spark_jobs.estimators.loss.link import PATH

NO_OWNER = np.int64(-1)
"""The owner of an ACK that belongs to no user."""
STRETCH_BYTES = 15_000
"""Minimum length of a stretch of packets without a gap whose pace is measured (B).

The link's pace is the median of the stretches' paces.
"""
STRETCH_JITTERS = 20.0
"""Minimum duration of a stretch, beside a base RTT (multiple of the ACKs' jitter)."""
BUSY_MARGIN = 0.5
"""Margin of a link that is certainly busy (multiple of the base RTT).

A packet passes Gi at least so long before the link would run empty.
"""
JITTER_MARGIN = 2.0
"""Margin of users in whose queue there was never so much (multiple of the ACKs' jitter)."""


@compiled
def user_paths(clean, connections, packets):
    """Return each user's path on the access side, PATH[U].

    The paths come from all Packets and from the CleanAcks of Connections that start in the time
    asked for.
    """
    return owner_paths(clean, ack_owners(clean, connections), len(packets.first) - 1, packets)


@compiled
def ack_owners(clean, connections):
    """Return the user of each CleanAck, int64[K].

    The owner is NO_OWNER if the connection does not start in the time asked for.
    """
    out = np.empty(len(clean.ts), np.int64)
    for k in range(len(out)):
        c = clean.connection[k]
        out[k] = connections.user[c] if connections.starts_in_window[c] else NO_OWNER
    return out


@compiled
def owner_paths(clean, owner, count, packets):
    """Return the path on the access side of each of `count` owners, PATH[count].

    Needs CleanAcks, the owner of each ACK, int64[K], and all Packets. The ACKs of an owner and
    connection stand together.

    The pace comes from ACKs between which the link was busy: the later ACK's packet had passed Gi
    before the earlier ACK's packet arrived.
    """
    out = np.zeros(count, PATH)
    bytes_sent = packets.downlink_bytes_before[clean.packet + 1]
    _set_rtts(out, clean, owner, packets)
    busy = _busy_acks(out, np.zeros(count), clean, owner, packets)
    _set_paces(out, busy, bytes_sent, clean, owner)
    _set_jitter(out, busy, bytes_sent, clean, owner)
    # These paces count only where no better ones are found: a late ACK looks like a queue.
    certain = out.copy()
    certain["pace"][:] = 0
    margin = BUSY_MARGIN * out["base_rtt"]
    for most in (margin, np.minimum(margin, JITTER_MARGIN * out["jitter"])):
        busy = _busy_acks(out, most, clean, owner, packets)
        _set_paces(certain, busy, bytes_sent, clean, owner)
    for u in range(count):
        if certain[u].pace > 0:
            out[u].pace, out[u].pace_certain = certain[u].pace, True
    return out


@inner
def _set_rtts(out, clean, owner, packets):
    """Set the smallest and the longest RTT of each PATH."""
    for k in range(len(clean.ts)):
        if owner[k] != NO_OWNER:
            path = out[owner[k]]
            rtt = float(clean.ts[k] - packets.ts[clean.packet[k]])
            path.base_rtt = min(path.base_rtt, rtt) if path.base_rtt > 0 else rtt
            path.max_rtt = max(path.max_rtt, rtt)


@making
def _busy_acks(out, margin, clean, owner, packets):
    """Return whether the link was busy since the previous ACK, bool[K].

    margin: float64[U], µs: see BUSY_MARGIN. A delayed ACK is late by up to half a second, and the
    ACK before it is not if it answered two segments. Such a pair counts only if the next segment
    was in the queue, too: it ends the delay.
    """
    busy = np.zeros(len(clean.ts), np.bool_)
    for k in range(1, len(clean.ts)):
        if owner[k] != NO_OWNER and owner[k] == owner[k - 1] and clean.undisturbed[k]:
            last = k
            if clean.maybe_delayed[k] and not clean.maybe_delayed[k - 1]:
                last = k + 1
                if last == len(clean.ts) or not clean.undisturbed[last]:
                    continue
            u = owner[k]
            arrival = packets.ts[clean.packet[last]] + out[u].base_rtt + margin[u]
            busy[k] = arrival <= clean.ts[k - 1]
    return busy


@making
def _set_paces(out, busy, bytes_sent, clean, owner):
    """Set the pace of each user without one to the median of the paces of the user's stretches.

    bytes_sent int64[K]: IP bytes sent to users up to and including each ACK's packet.
    """
    ack_count = np.zeros(len(out) + 1, np.int64)
    for k in range(len(clean.ts)):
        if owner[k] != NO_OWNER:
            ack_count[owner[k] + 1] += 1
    begin = np.cumsum(ack_count)
    paces = np.empty(begin[-1])
    end = begin[:-1].copy()
    time = size = 0
    for k in range(1, len(clean.ts)):
        if not busy[k]:
            time = size = 0
            continue
        time += clean.ts[k] - clean.ts[k - 1]
        size += bytes_sent[k] - bytes_sent[k - 1]
        u = owner[k]
        min_time = max(out[u].base_rtt, STRETCH_JITTERS * out[u].jitter)
        if size >= STRETCH_BYTES and time >= min_time:
            paces[end[u]] = time / size
            end[u] += 1
            time = size = 0
    for u in range(len(out)):
        if out[u].pace == 0 and end[u] > begin[u]:
            out[u].pace = np.median(paces[begin[u] : end[u]])


@making
def _set_jitter(out, busy, bytes_sent, clean, owner):
    """Set the mean deviation of the ACKs from the pace; bytes_sent: see `_set_paces`."""
    pairs = np.zeros(len(out))
    for k in range(1, len(clean.ts)):
        if busy[k]:
            u = owner[k]
            pairs[u] += 1
            deviation = (
                clean.ts[k] - clean.ts[k - 1] - (bytes_sent[k] - bytes_sent[k - 1]) * out[u].pace
            )
            out[u].jitter += (abs(deviation) - out[u].jitter) / pairs[u]
