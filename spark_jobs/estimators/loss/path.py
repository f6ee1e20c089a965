"""A user's path on the access side: its idle round trip, the access link's pace, the longest queue."""

import numpy as np

from spark_jobs.compiled import compiled, inner, making
from spark_jobs.estimators.loss.link import PATH

NO_OWNER = np.int64(-1)
STRETCH_BYTES = 15_000
"""The link's pace is that of the median stretch of so many bytes, and of a base round trip, without
a gap (B)."""
BUSY_MARGINS = (0.5, 0.0)
"""A gap is where a packet came later than so many base round trips before the link would run dry;
the second is for users who never had so much waiting."""


@compiled
def user_paths(clean, connections, packets):
    """Each user's path on the access side, PATH[U], from CleanAcks in Connections that are mine, and all
    Packets."""
    return owner_paths(clean, ack_owners(clean, connections), len(packets.first) - 1, packets)


@compiled
def ack_owners(clean, connections):
    """int64[K]: whose each CleanAck is, the user's; NOBODY's if the connection is not mine."""
    out = np.empty(len(clean.ts), np.int64)
    for k in range(len(out)):
        c = clean.connection[k]
        out[k] = connections.user[c] if connections.mine[c] else NO_OWNER
    return out


@compiled
def owner_paths(clean, owner, count, packets):
    """The path on the access side of each of so many owners, PATH[count], from CleanAcks, all Packets, and
    whose each ACK is, int64[K]; those of one owner and connection stand together.

    The pace is told by ACKs between which the link was busy: the later one's packet had passed Gi
    before the earlier one's arrived.
    """
    out = np.zeros(count, PATH)
    bytes_sent = packets.sent_before[clean.packet + 1]
    _set_rtts(out, clean, owner, packets)
    for margin in BUSY_MARGINS:
        busy = _busy_acks(out, margin, clean, owner, packets)
        _set_paces(out, busy, bytes_sent, clean, owner)
    _set_jitter(out, busy, bytes_sent, clean, owner)
    return out


@inner
def _set_rtts(out, clean, owner, packets):
    """The least and the longest of each PATH."""
    for k in range(len(clean.ts)):
        if owner[k] != NO_OWNER:
            path = out[owner[k]]
            rtt = float(clean.ts[k] - packets.ts[clean.packet[k]])
            path.base_rtt = min(path.base_rtt, rtt) if path.base_rtt > 0 else rtt
            path.max_rtt = max(path.max_rtt, rtt)


@making
def _busy_acks(out, margin, clean, owner, packets):
    """bool[K]: whether the link was busy since the ACK before; margin: see MARGINS."""
    busy = np.zeros(len(clean.ts), np.bool_)
    for k in range(1, len(clean.ts)):
        if owner[k] != NO_OWNER and owner[k] == owner[k - 1] and clean.joined[k]:
            arrival = packets.ts[clean.packet[k]] + (1 + margin) * out[owner[k]].base_rtt
            busy[k] = arrival <= clean.ts[k - 1]
    return busy


@making
def _set_paces(out, busy, bytes_sent, clean, owner):
    """The median of the paces of each user's stretches, where none is known yet; sent int64[K]: the
    IP bytes sent to users up to and including each ACK's packet."""
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
        if size >= STRETCH_BYTES and time >= out[u].base_rtt:
            paces[end[u]] = time / size
            end[u] += 1
            time = size = 0
    for u in range(len(out)):
        if out[u].pace == 0 and end[u] > begin[u]:
            out[u].pace = np.median(paces[begin[u] : end[u]])


@making
def _set_jitter(out, busy, bytes_sent, clean, owner):
    """How far ACKs stray from the pace on average; sent: see `_set_paces`."""
    pairs = np.zeros(len(out))
    for k in range(1, len(clean.ts)):
        if busy[k]:
            u = owner[k]
            pairs[u] += 1
            deviation = (
                clean.ts[k] - clean.ts[k - 1] - (bytes_sent[k] - bytes_sent[k - 1]) * out[u].pace
            )
            out[u].jitter += (abs(deviation) - out[u].jitter) / pairs[u]
