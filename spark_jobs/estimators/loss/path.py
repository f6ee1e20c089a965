"""A user's path on the access side: its idle round trip, the access link's pace, the longest queue."""

import numpy as np

from spark_jobs.compiled import compiled, inner, making
from spark_jobs.estimators.loss.link import PATH

NOBODY = np.int64(-1)
STRETCH = 15_000
"""The link's pace is that of the median stretch of so many bytes, and of a base round trip, without
a gap (B)."""
MARGINS = (0.5, 0.0)
"""A gap is where a packet came later than so many base round trips before the link would run dry;
the second is for users who never had so much waiting."""


@compiled
def paths(clean, connections, packets):
    """Each user's path on the access side, PATH[U], from CleanAcks in Connections that are mine, and all
    Packets."""
    return paths_of(clean, owners(clean, connections), len(packets.first) - 1, packets)


@compiled
def owners(clean, connections):
    """int64[K]: whose each CleanAck is, the user's; NOBODY's if the connection is not mine."""
    out = np.empty(len(clean.ts), np.int64)
    for k in range(len(out)):
        c = clean.connection[k]
        out[k] = connections.user[c] if connections.starts_in_window[c] else NOBODY
    return out


@compiled
def paths_of(clean, owner, count, packets):
    """The path on the access side of each of so many owners, PATH[count], from CleanAcks, all Packets, and
    whose each ACK is, int64[K]; those of one owner and connection stand together.

    The pace is told by ACKs between which the link was busy: the later one's packet had passed Gi
    before the earlier one's arrived.
    """
    out = np.zeros(count, PATH)
    sent = packets.downlink_bytes_before[clean.packet + 1]
    _set_round_trips(out, clean, owner, packets)
    for margin in MARGINS:
        busy = _busy(out, margin, clean, owner, packets)
        _set_paces(out, busy, sent, clean, owner)
    _set_jitter(out, busy, sent, clean, owner)
    return out


@inner
def _set_round_trips(out, clean, owner, packets):
    """The least and the longest of each PATH."""
    for k in range(len(clean.ts)):
        if owner[k] != NOBODY:
            path = out[owner[k]]
            round_trip = float(clean.ts[k] - packets.ts[clean.packet[k]])
            path.base = min(path.base, round_trip) if path.base > 0 else round_trip
            path.longest = max(path.longest, round_trip)


@making
def _busy(out, margin, clean, owner, packets):
    """bool[K]: whether the link was busy since the ACK before; margin: see MARGINS."""
    busy = np.zeros(len(clean.ts), np.bool_)
    for k in range(1, len(clean.ts)):
        if owner[k] != NOBODY and owner[k] == owner[k - 1] and clean.undisturbed[k]:
            arrives = packets.ts[clean.packet[k]] + (1 + margin) * out[owner[k]].base
            busy[k] = arrives <= clean.ts[k - 1]
    return busy


@making
def _set_paces(out, busy, sent, clean, owner):
    """The median of the paces of each user's stretches, where none is known yet; sent int64[K]: the
    IP bytes sent to users up to and including each ACK's packet."""
    acks = np.zeros(len(out) + 1, np.int64)
    for k in range(len(clean.ts)):
        if owner[k] != NOBODY:
            acks[owner[k] + 1] += 1
    place = np.cumsum(acks)
    pace = np.empty(place[-1])
    end = place[:-1].copy()
    time = size = 0
    for k in range(1, len(clean.ts)):
        if not busy[k]:
            time = size = 0
            continue
        time += clean.ts[k] - clean.ts[k - 1]
        size += sent[k] - sent[k - 1]
        u = owner[k]
        if size >= STRETCH and time >= out[u].base:
            pace[end[u]] = time / size
            end[u] += 1
            time = size = 0
    for u in range(len(out)):
        if out[u].pace == 0 and end[u] > place[u]:
            out[u].pace = np.median(pace[place[u] : end[u]])


@making
def _set_jitter(out, busy, sent, clean, owner):
    """How far ACKs stray from the pace on average; sent: see `_set_paces`."""
    pairs = np.zeros(len(out))
    for k in range(1, len(clean.ts)):
        if busy[k]:
            u = owner[k]
            pairs[u] += 1
            late = clean.ts[k] - clean.ts[k - 1] - (sent[k] - sent[k - 1]) * out[u].pace
            out[u].jitter += (abs(late) - out[u].jitter) / pairs[u]
