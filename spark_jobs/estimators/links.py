"""Each user's access link, hour by hour: round trips, rate, and what its queue holds.

The least round trip is that of an idle link, the rest is waiting (RFC 8085, 3.1.1 calls the two
base and queueing delay). The rate is the pace of ACKs between which the link was busy (see `path`).
What the queue holds is told by what it lost (see `queue`), of the whole day, for it takes many
losses to tell; so much takes as long as the link's rate says to drain, which is its limit where
what waits is dropped by age (Wennström, Brunstrom and Rendón, Electronics Letters 2004).
"""

import numpy as np

from spark_jobs.estimators.clean_acks import CleanAcks
from spark_jobs.estimators.loss.path import paths

HOUR_US = 3_600_000_000

LINK = np.dtype(
    [
        ("user", "i8"),
        ("hour", "i8"),
        ("round_trips", "i8"),
        ("base", "f8"),
        ("median", "f8"),
        ("longest", "f8"),
        ("rate", "f8"),
        ("queue_bytes", "f8"),
        ("queue_s", "f8"),
        ("lost_with_room", "f8"),
    ]
)
"""A user's link in an hour (its beginning, µs): how many round trips told of it; the least, the
median and the longest (s); the rate at the IP layer (bit/s); how many bytes its queue holds, and
for how long a packet waits when it is full (s); the share that is lost with room in it. NaN where
nothing tells it."""


def links(clean, connections, packets, limited):
    """LINK[L] by user and hour, from CleanAcks of Connections that are mine, and all Packets;
    limited: PATH[U] with what the losses of the day tell of the queue."""
    mine = connections.mine[clean.connection]
    hours = clean.ts // HOUR_US
    found = [
        _in_hour(hour, clean, mine & (hours == hour), connections, packets)
        for hour in np.unique(hours[mine])
    ]
    out = np.concatenate([np.zeros(0, LINK), *found])
    path = limited[out["user"]]
    seconds_a_byte = 8 / np.where(np.isnan(out["rate"]), np.nan, out["rate"])
    knows_queue = path["limit"] > 0
    out["queue_bytes"] = np.where(knows_queue, path["limit"], np.nan)
    out["queue_s"] = out["queue_bytes"] * seconds_a_byte
    out["lost_with_room"] = np.where(knows_queue, path["with_room"], np.nan)
    return out[np.lexsort((out["hour"], out["user"]))]


def _in_hour(hour, clean, chosen, connections, packets):
    """LINK of the users seen in an hour, but for their queues; chosen bool[K]: its CleanAcks."""
    acks = CleanAcks(*(field[chosen] for field in clean))
    rtt = (acks.ts - packets.ts[acks.packet]) / 1e6
    users, of = np.unique(connections.user[acks.connection], return_inverse=True)
    out = np.zeros(len(users), LINK)
    out["user"], out["hour"] = users, hour * HOUR_US
    order = np.lexsort((rtt, of))
    counts = np.bincount(of, minlength=len(users))
    last = np.cumsum(counts)
    first = last - counts
    sorted_rtt = rtt[order]
    out["round_trips"] = counts
    out["base"], out["longest"] = sorted_rtt[first], sorted_rtt[last - 1]
    out["median"] = sorted_rtt[(first + last - 1) // 2]
    pace = paths(acks, connections, packets)["pace"][users]
    with np.errstate(divide="ignore"):
        out["rate"] = np.where(pace > 0, 8e6 / pace, np.nan)
    return out
