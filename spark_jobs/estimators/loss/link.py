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

RANDOM_LOSS = 0.02
"""An arrival without room in the queue; a loss with room, as long as its share is not known."""

LOSS_MEMORY = 8
"""A loss so many packets ago or more makes another no likelier."""

PATH = np.dtype(
    [
        ("base_rtt", "f8"),
        ("pace", "f8"),
        ("jitter", "f8"),
        ("max_rtt", "f8"),
        ("limit", "f8"),
        ("spread", "f8"),
        ("random_loss", "f8"),
        ("slack", "f8"),
        ("loss_cost", "f8", (LOSS_MEMORY,)),
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
    ack_ts: np.ndarray
    """int64[n]: when they were acknowledged, where that is certain (µs; 0: it is not)."""
    lost: np.ndarray
    """bool[n]: whether they were lost on the access side, as far as it is known."""
    clock: np.ndarray
    """float64[n]: the link's clock before them (µs)."""
    backlog: np.ndarray
    """float64[n]: the bytes that waited when they came, themselves included."""


@compiled
def user_traffic(user, connections, packets, clean):
    """A user's Traffic, of Connections, Packets and CleanAcks. None is known to be lost."""
    begin, end = packets.first[user], packets.first[user + 1]
    n = end - begin
    ack_ts = np.zeros(n, np.int64)
    k = first_above(clean.connection, 0, len(clean.ts), connections.of_user[user] - 1)
    while k < len(clean.ts) and clean.connection[k] < connections.of_user[user + 1]:
        ack_ts[clean.packet[k] - begin] = clean.ts[k]
        k += 1
    return Traffic(
        packets.ts[begin:end],
        np.diff(packets.sent_before[begin : end + 1]),
        ack_ts,
        np.zeros(n, np.bool_),
        np.zeros(n),
        np.zeros(n),
    )


@compiled
def select_packets(traffic, indices):
    """The packets of a Traffic at these places, as a Traffic of their own."""
    n = len(indices)
    return Traffic(
        gather(traffic.ts, indices),
        gather(traffic.size, indices),
        gather(traffic.ack_ts, indices),
        gather(traffic.lost, indices),
        np.empty(n),
        np.empty(n),
    )


@compiled
def loss_probability(backlog, path):
    """The probability that a packet is lost that finds so many bytes waiting, itself included."""
    overflow = 1 / (1 + np.exp((path.limit - backlog) / path.spread))
    return path.random_loss + (1 - RANDOM_LOSS - path.random_loss) * overflow


@compiled
def backlog(clock, ts, size, path):
    """The bytes that wait for the link when a packet comes, itself included."""
    return max(clock - ts - path.base_rtt, 0.0) / path.pace + size


@compiled
def overflow_probability(backlog, path):
    """The probability that it was the queue that lost a packet."""
    return 1 - path.random_loss / loss_probability(backlog, path)


@compiled
def full_clock(ts, size, path):
    """The clock that leaves just enough room for a packet."""
    return ts + path.base_rtt + max(path.limit - size, 0.0) * path.pace


@compiled
def clock_after_arrival(clock, ts, size, ack_ts, path):
    """The clock after a packet that had room: if it should have had none, the clock was fast. It
    was fast, too, if the packet was answered before its time, and slow if it was answered late."""
    clock = max(clock, ts + path.base_rtt)
    if path.limit > 0:
        clock = min(clock, full_clock(ts, size, path))
    clock += size * path.pace
    if ack_ts:
        clock = min(max(clock, ack_ts - path.slack), ack_ts)
    return clock


@compiled
def clock_after_loss(clock, ts, size, path):
    """The clock after a packet that was lost. If it was the queue that had no room, but should have
    had, the clock was slow; if it was the radio, the link had sent it."""
    if path.limit == 0:
        return clock
    clock = max(clock, ts + path.base_rtt)
    overflow = overflow_probability(backlog(clock, ts, size, path), path)
    lag = max(full_clock(ts, size, path) - clock, 0.0)
    return clock + overflow * lag + (1 - overflow) * size * path.pace


@compiled
def replay(traffic, path):
    """Sets the link's clock before each of a user's packets, and what waited when it came."""
    now = 0.0
    clock, backlogs, lost, ack_ts = traffic.clock, traffic.backlog, traffic.lost, traffic.ack_ts
    for p in range(len(traffic.ts)):
        ts, size = traffic.ts[p], traffic.size[p]
        clock[p] = now
        if size == 0:
            continue
        backlogs[p] = backlog(now, ts, size, path)
        if lost[p]:
            now = clock_after_loss(now, ts, size, path)
        else:
            now = clock_after_arrival(now, ts, size, ack_ts[p], path)


@compiled
def set_link_steps(sent, traffic, path):
    """Sets what the link did between a connection's copies, COPY[n]: its clock when one comes, if
    the connection's last one left it at t, is min(max(t + work, floor), ceiling). `replay` has told
    the clock that each finds if all is as it is known, and why others' packets were lost."""
    for k in range(len(sent)):
        tx = sent[k]
        tx.clock, tx.ack_ts = traffic.clock[tx.packet], traffic.ack_ts[tx.packet]
        tx.work, tx.floor, tx.ceiling = 0.0, -np.inf, np.inf
        for p in range(sent[k - 1].packet + 1 if k else tx.packet, tx.packet):
            ts, size = traffic.ts[p], traffic.size[p]
            if size == 0:
                continue
            if traffic.lost[p] and path.limit == 0:
                continue
            if traffic.lost[p] and overflow_probability(traffic.backlog[p], path) > 0.5:
                when_full = full_clock(ts, size, path)
                tx.floor, tx.ceiling = (
                    max(tx.floor, when_full),
                    max(tx.ceiling, when_full),
                )
                continue
            tx.work += size * path.pace
            tx.floor = clock_after_arrival(tx.floor, ts, size, traffic.ack_ts[p], path)
            tx.ceiling = clock_after_arrival(tx.ceiling, ts, size, traffic.ack_ts[p], path)


@compiled
def clock_on_entry(clock, tx):
    """The clock when a copy comes, from that after the connection's last one."""
    return min(max(clock + tx.work, tx.floor), tx.ceiling)


@compiled
def start_clock(tx):
    """The clock after a connection's last copy, with which this one finds what `replay` told."""
    return tx.clock - tx.work
