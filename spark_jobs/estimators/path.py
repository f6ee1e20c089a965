"""A user's path behind Gi: its idle round trip, the access link's pace, the longest queue."""

import numpy as np
from numba import njit

from spark_jobs.estimators.link import PATH

STRETCH = 15_000
"""The link's pace is that of the median stretch of so many bytes without a gap (B)."""


@njit(cache=True, nogil=True)
def paths(users, user, considered, connection, at, packet, joined, user_ts, sent):
    """Each user's path behind Gi, PATH[users], from clean ACKs (see `channel_rate.clean_acks`; all
    in user's connections that are `considered`).

    The pace is told by ACKs between which the link was busy: the later one's packet had passed Gi
    before the earlier one's arrived. sent int64: the IP bytes sent to the user up to and including
    each ACK's packet.
    """
    out = np.zeros(users, PATH)
    count = np.zeros(users + 1, np.int64)
    for k in range(len(at)):
        if considered[connection[k]]:
            path = out[user[connection[k]]]
            round_trip = float(at[k] - user_ts[packet[k]])
            path.base = min(path.base, round_trip) if path.base > 0 else round_trip
            path.longest = max(path.longest, round_trip)
            count[user[connection[k]] + 1] += 1
    place = np.cumsum(count)
    pace = np.empty(place[-1])
    end = place[:-1].copy()
    busy = np.zeros(len(at), np.bool_)
    time = size = 0
    for k in range(1, len(at)):
        u = user[connection[k]]
        busy[k] = considered[connection[k]] and joined[k]
        busy[k] &= user_ts[packet[k]] + out[u].base <= at[k - 1]
        if not busy[k]:
            time = size = 0
            continue
        time += at[k] - at[k - 1]
        size += sent[k] - sent[k - 1]
        if size >= STRETCH:
            pace[end[u]] = time / size
            end[u] += 1
            time = size = 0
    for u in range(users):
        if end[u] > place[u]:
            out[u].pace = np.median(pace[place[u] : end[u]])
    pairs = np.zeros(users)
    for k in range(1, len(at)):
        if busy[k]:
            u = user[connection[k]]
            pairs[u] += 1
            off = abs(at[k] - at[k - 1] - (sent[k] - sent[k - 1]) * out[u].pace)
            out[u].jitter += (off - out[u].jitter) / pairs[u]
    return out
