"""Each user's access link, hour by hour: RTTs, rate, and queue size.

The base RTT is that of an idle link; the rest of an RTT is queueing delay (RFC 8085, 3.1.1). The
rate is the pace of ACKs between which the link was busy (see `path`). The losses of a whole day
show the queue size (see `queue`), because it takes many losses. The queue's delay follows from its
size and the link's rate. This delay is the limit if the queue drops packets by age (Wennström,
Brunstrom and Rendón, Electronics Letters 2004).
"""

import numpy as np

from spark_jobs.compiled import compiled
from spark_jobs.compiled.arrays import group_offsets, group_order
from spark_jobs.estimators.loss.path import NO_OWNER, ack_owners, owner_paths

HOUR_US = 3_600_000_000
"""One hour (µs)."""

LINK = np.dtype(
    [
        ("user", "i8"),
        ("hour", "i8"),
        ("rtt_samples", "i8"),
        ("rtt_min", "f8"),
        ("rtt_median", "f8"),
        ("rtt_max", "f8"),
        ("rate", "f8"),
        ("queue_bytes", "f8"),
        ("queue_s", "f8"),
        ("lost_with_room", "f8"),
    ]
)
"""A user's link in an hour; values are NaN if they are not known.

hour: beginning of the hour (µs)
rtt_samples: number of RTT samples
rtt_min, rtt_median, rtt_max: the smallest, median and largest RTT (s)
rate: rate at the IP layer (bit/s)
queue_bytes: size of the queue (B)
queue_s: time that a packet waits when the queue is full (s)
lost_with_room: share of packets that are lost while the queue has room
"""


def links(clean, connections, packets, day_paths):
    """Return LINK[L] by user and hour, from CleanAcks of Connections and all Packets.

    Only connections that start in the time window count. day_paths: PATH[U] with what the day's
    losses show of the queue.
    """
    owner, users, hours = _by_hour(clean, ack_owners(clean, connections))
    first = group_offsets(owner, len(users))
    out = np.zeros(len(users), LINK)
    out["user"], out["hour"], out["rtt_samples"] = users, hours * HOUR_US, np.diff(first)
    out["rtt_median"] = _medians(group_order(owner, first), first, clean, packets)
    path = owner_paths(clean, owner, len(users), packets)
    out["rtt_min"], out["rtt_max"] = path["base_rtt"] / 1e6, path["max_rtt"] / 1e6
    out["rate"] = 8e6 / np.where(path["pace_certain"], path["pace"], np.nan)
    day_path = day_paths[users]
    queue_known = day_path["limit"] > 0
    out["queue_bytes"] = np.where(queue_known, day_path["limit"], np.nan)
    out["queue_s"] = 8 * out["queue_bytes"] / out["rate"]
    out["lost_with_room"] = np.where(queue_known, day_path["random_loss"], np.nan)
    return out[np.lexsort((out["hour"], out["user"]))]


def raise_max_rtts(links, connections, max_rtts):
    """Raise the largest RTTs of LINK[L] to those of Connections that lie within an hour.

    max_rtts: float64[C], s (NaN: unknown). While losses are repaired, only SACK blocks give RTT
    samples.
    """
    hour = connections.start_ts // HOUR_US
    usable = (
        connections.starts_in_window & (hour == connections.end_ts // HOUR_US) & ~np.isnan(max_rtts)
    )
    index = _link_indices(links, connections.user[usable], connections.start_ts[usable])
    has_link = index >= 0
    np.fmax.at(links["rtt_max"], index[has_link], max_rtts[usable][has_link])


def rates_at(links, users, times):
    """Return float64[n], bit/s: the rates of users' links, LINK[L], in the hours of the times (µs).

    NaN if a rate is not known.
    """
    index = _link_indices(links, users, times)
    return np.where(index >= 0, np.append(links["rate"], np.nan)[index], np.nan)


def _link_indices(links, users, times):
    """Return int64[n]: index in LINK[L] of each user in the hour of a time (µs); -1 if none."""
    if not len(links):
        return np.full(len(users), -1)
    keys, wanted = _keys(links["user"], links["hour"]), _keys(users, times)
    order = np.argsort(keys)
    index = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(links) - 1)]
    return np.where(keys[index] == wanted, index, -1)


def _keys(users: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return int64[n]: a key for each pair of a user and an hour."""
    return users.astype(np.int64) << 32 | times // HOUR_US


@compiled
def _by_hour(clean, user):
    """Return (link of each CleanAck, user of each link, hour of each link).

    A link is a user in an hour. The first array is int64[K], NO_OWNER without a user; the others
    are int64[L]. user: int64[K], the user of each ACK. A user's ACKs are next to each other.
    """
    owner = np.full(len(user), NO_OWNER)
    users, hours = np.empty(len(user), np.int64), np.empty(len(user), np.int64)
    count = first_of_user = np.int64(0)
    for k in range(len(user)):
        if user[k] == NO_OWNER:
            continue
        hour = clean.ts[k] // HOUR_US
        if count and user[k] != users[count - 1]:
            first_of_user = count
        link = first_of_user
        while link < count and hours[link] != hour:
            link += 1
        if link == count:
            users[link], hours[link] = user[k], hour
            count += 1
        owner[k] = link
    return owner, users[:count], hours[:count]


@compiled
def _medians(order, first, clean, packets):
    """Return the median RTT (s) of each group of CleanAcks, order[first[g]:first[g + 1]]."""
    out = np.empty(len(first) - 1)
    for g in range(len(out)):
        acks = order[first[g] : first[g + 1]]
        out[g] = np.median(clean.ts[acks] - packets.ts[clean.packet[acks]]) / 1e6
    return out
