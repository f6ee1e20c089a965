"""A user's access link: a FIFO of one pace, with a queue that holds so much and no more.

Its clock tells when the ACK of what waits last is due: one idle round trip after the link is done
with it. What comes moves the clock on; what it finds waiting decides whether there is room:

    clock before      the packet finds      it arrives                 it is lost
    before its time   an idle link          clock = its time + size    (the radio lost it)
    later             the rest waiting      clock += size              the queue was full

So each packet tells of the clock, too: what arrived had room, what was lost, most likely, had not.
With that, the clock keeps time without the ACKs, which come late by their own jitter, and an error
of the pace does not add up. To all of a user's packets the link is the same: between two copies of
a connection, what was sent to the user's other connections moved the clock as well (`between`).
"""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import compiled
from spark_jobs.compiled.arrays import gather
from spark_jobs.estimators.sequence import first_above

ELSEWHERE = 0.02
"""An arrival without room in the queue; a loss with room, as long as its share is not known."""

SINCE = 8
"""A loss so many packets ago or more makes another no likelier."""

PATH = np.dtype(
    [
        ("base", "f8"),
        ("pace", "f8"),
        ("jitter", "f8"),
        ("longest", "f8"),
        ("limit", "f8"),
        ("spread", "f8"),
        ("with_room", "f8"),
        ("slack", "f8"),
        ("again", "f8", (SINCE,)),
    ]
)
"""A user's path on the access side: its round trip when idle (µs), the link's time a byte (µs), how far ACKs
stray from the link's pace (µs), the longest round trip, its queue full (µs); how many bytes its
queue holds, how sharply that is known (B), and the share lost with room in it (see `queue`; 0:
unknown); how late a certain ACK may be before it puts the clock right (µs); what a loss costs, by
how many packets have arrived since the last (see `costs`)."""


class Traffic(NamedTuple):
    """A user's packets of any protocol, of the one direction and the other, n in number."""

    ts: np.ndarray
    """int64[n]: when Gi saw them (µs)."""
    size: np.ndarray
    """int64[n]: IP bytes to the user; 0: from the user."""
    answered: np.ndarray
    """int64[n]: when they were acknowledged, where that is certain (µs; 0: it is not)."""
    lost: np.ndarray
    """bool[n]: whether they were lost on the access side, as far as it is known."""
    clock: np.ndarray
    """float64[n]: the link's clock before them (µs)."""
    waiting: np.ndarray
    """float64[n]: the bytes that waited when they came, themselves included."""


@compiled
def traffic_of(user, connections, packets, clean):
    """A user's Traffic, of Connections, Packets and CleanAcks. None is known to be lost."""
    begin, end = packets.first[user], packets.first[user + 1]
    n = end - begin
    answered = np.zeros(n, np.int64)
    k = first_above(clean.connection, 0, len(clean.ts), connections.user_offsets[user] - 1)
    while k < len(clean.ts) and clean.connection[k] < connections.user_offsets[user + 1]:
        answered[clean.packet[k] - begin] = clean.ts[k]
        k += 1
    return Traffic(
        packets.ts[begin:end],
        np.diff(packets.downlink_bytes_before[begin : end + 1]),
        answered,
        np.zeros(n, np.bool_),
        np.zeros(n),
        np.zeros(n),
    )


@compiled
def some(traffic, places):
    """The packets of a Traffic at these places, as a Traffic of their own."""
    n = len(places)
    return Traffic(
        gather(traffic.ts, places),
        gather(traffic.size, places),
        gather(traffic.answered, places),
        gather(traffic.lost, places),
        np.empty(n),
        np.empty(n),
    )


@compiled
def chance(backlog, path):
    """The probability that a packet is lost that finds so many bytes waiting, itself included."""
    full = 1 / (1 + np.exp((path.limit - backlog) / path.spread))
    return path.with_room + (1 - ELSEWHERE - path.with_room) * full


@compiled
def backlog(clock, ts, size, path):
    """The bytes that wait for the link when a packet comes, itself included."""
    return max(clock - ts - path.base, 0.0) / path.pace + size


@compiled
def overflows(backlog, path):
    """The probability that it was the queue that lost a packet."""
    return 1 - path.with_room / chance(backlog, path)


@compiled
def full_at(ts, size, path):
    """The clock that leaves just enough room for a packet."""
    return ts + path.base + max(path.limit - size, 0.0) * path.pace


@compiled
def arrived(clock, ts, size, answered, path):
    """The clock after a packet that had room: if it should have had none, the clock was fast. It
    was fast, too, if the packet was answered before its time, and slow if it was answered late."""
    clock = max(clock, ts + path.base)
    if path.limit > 0:
        clock = min(clock, full_at(ts, size, path))
    clock += size * path.pace
    if answered:
        clock = min(max(clock, answered - path.slack), answered)
    return clock


@compiled
def dropped(clock, ts, size, path):
    """The clock after a packet that was lost. If it was the queue that had no room, but should have
    had, the clock was slow; if it was the radio, the link had sent it."""
    if path.limit == 0:
        return clock
    clock = max(clock, ts + path.base)
    full = overflows(backlog(clock, ts, size, path), path)
    slow = max(full_at(ts, size, path) - clock, 0.0)
    return clock + full * slow + (1 - full) * size * path.pace


@compiled
def replay(traffic, path):
    """Sets the link's clock before each of a user's packets, and what waited when it came."""
    now = 0.0
    clock, waiting, lost, answered = traffic.clock, traffic.waiting, traffic.lost, traffic.answered
    for p in range(len(traffic.ts)):
        ts, size = traffic.ts[p], traffic.size[p]
        clock[p] = now
        if size == 0:
            continue
        waiting[p] = backlog(now, ts, size, path)
        if lost[p]:
            now = dropped(now, ts, size, path)
        else:
            now = arrived(now, ts, size, answered[p], path)


@compiled
def between(copies, traffic, path):
    """Sets what the link did between a connection's copies, COPY[n]: its clock when one comes, if
    the connection's last one left it at t, is min(max(t + work, floor), ceiling). `replay` has told
    the clock that each finds if all is as it is known, and why others' packets were lost."""
    for k in range(len(copies)):
        c = copies[k]
        c.clock, c.answered = traffic.clock[c.place], traffic.answered[c.place]
        c.work, c.floor, c.ceiling = 0.0, -np.inf, np.inf
        for p in range(copies[k - 1].place + 1 if k else c.place, c.place):
            ts, size = traffic.ts[p], traffic.size[p]
            if size == 0:
                continue
            if traffic.lost[p] and path.limit == 0:
                continue
            if traffic.lost[p] and overflows(traffic.waiting[p], path) > 0.5:
                full = full_at(ts, size, path)
                c.floor, c.ceiling = max(c.floor, full), max(c.ceiling, full)
                continue
            c.work += size * path.pace
            c.floor = arrived(c.floor, ts, size, traffic.answered[p], path)
            c.ceiling = arrived(c.ceiling, ts, size, traffic.answered[p], path)


@compiled
def meanwhile(clock, c):
    """The clock when a copy comes, from that after the connection's last one."""
    return min(max(clock + c.work, c.floor), c.ceiling)


@compiled
def clock_before(c):
    """The clock after a connection's last copy, with which this one finds what `replay` told."""
    return c.clock - c.work
