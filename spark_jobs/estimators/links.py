"""Each user's access link, hour by hour: round trips, rate, and what its queue holds.

The least round trip is that of an idle link, the rest is waiting (RFC 8085, 3.1.1 calls the two
base and queueing delay). The rate is the pace of ACKs between which the link was busy (see `path`).
What the queue holds is told by what it lost (see `queue`), of the whole day, for it takes many
losses to tell; so much takes as long as the link's rate says to drain, which is its limit where
what waits is dropped by age (Wennström, Brunstrom and Rendón, Electronics Letters 2004).
"""

import numpy as np

from spark_jobs.compiled import compiled
from spark_jobs.compiled.arrays import group_offsets, group_order
from spark_jobs.estimators.loss.path import NO_OWNER, ack_owners, owner_paths

HOUR_US = 3_600_000_000

LINK = np.dtype(
    [
        ("user", "i8"),
        ("hour", "i8"),
        ("rtt_samples", "i8"),
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
    owner, users, hours = _by_hour(clean, ack_owners(clean, connections))
    first = group_offsets(owner, len(users))
    out = np.zeros(len(users), LINK)
    out["user"], out["hour"], out["rtt_samples"] = users, hours * HOUR_US, np.diff(first)
    out["median"] = _medians(group_order(owner, first), first, clean, packets)
    path = owner_paths(clean, owner, len(users), packets)
    out["base"], out["longest"] = path["base_rtt"] / 1e6, path["max_rtt"] / 1e6
    out["rate"] = 8e6 / np.where(path["pace"] > 0, path["pace"], np.nan)
    of_day = limited[users]
    knows_queue = of_day["limit"] > 0
    out["queue_bytes"] = np.where(knows_queue, of_day["limit"], np.nan)
    out["queue_s"] = 8 * out["queue_bytes"] / out["rate"]
    out["lost_with_room"] = np.where(knows_queue, of_day["random_loss"], np.nan)
    return out[np.lexsort((out["hour"], out["user"]))]


def see_transfers(links, connections, longest):
    """Raises the longest round trips of LINK[L] to those of Connections that lie within an hour, s,
    float64[C] (NaN: unknown): while losses are repaired, only SACK blocks tell of round trips."""
    hour = connections.start_ts // HOUR_US
    told = connections.mine & (hour == connections.end_ts // HOUR_US) & ~np.isnan(longest)
    place = _places(links, connections.user[told], connections.start_ts[told])
    of_link = place >= 0
    np.fmax.at(links["longest"], place[of_link], longest[told][of_link])


def rates_at(links, users, times):
    """float64[n], bit/s: the rates of users' links, LINK[L], in the hours of these times (µs); NaN
    where they are not known."""
    place = _places(links, users, times)
    return np.where(place >= 0, np.append(links["rate"], np.nan)[place], np.nan)


def _places(links, users, times):
    """int64[n]: where in LINK[L] users are in the hours of these times (µs); -1: nowhere."""
    if not len(links):
        return np.full(len(users), -1)
    known, wanted = _keys(links["user"], links["hour"]), _keys(users, times)
    order = np.argsort(known)
    place = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(links) - 1)]
    return np.where(known[place] == wanted, place, -1)


def _keys(users: np.ndarray, times: np.ndarray) -> np.ndarray:
    """int64[n]: of a user and an hour."""
    return users.astype(np.int64) << 32 | times // HOUR_US


@compiled
def _by_hour(clean, user):
    """(whose each CleanAck is, int64[K]: a user's in an hour, NO_OWNER's without a user; the user and
    the hour of each, int64[L]); user int64[K]: the user of each. A user's ACKs stand together."""
    owner = np.full(len(user), NO_OWNER)
    users, hours = np.empty(len(user), np.int64), np.empty(len(user), np.int64)
    count = begun = np.int64(0)
    for k in range(len(user)):
        if user[k] == NO_OWNER:
            continue
        hour = clean.ts[k] // HOUR_US
        if count and user[k] != users[count - 1]:
            begun = count
        at = begun
        while at < count and hours[at] != hour:
            at += 1
        if at == count:
            users[at], hours[at] = user[k], hour
            count += 1
        owner[k] = at
    return owner, users[:count], hours[:count]


@compiled
def _medians(order, first, clean, packets):
    """The median round trip (s) of each group of CleanAcks: those that order names from first[g] to
    first[g + 1]."""
    out = np.empty(len(first) - 1)
    for g in range(len(out)):
        mine = order[first[g] : first[g + 1]]
        out[g] = np.median(clean.ts[mine] - packets.ts[clean.packet[mine]]) / 1e6
    return out
