"""A user's access link: a FIFO of one pace, whose queue holds a limited number of bytes.

The link's clock says when the ACK for the last packet in the queue is due. This is one base RTT
after the link has sent the packet. Each packet that enters the link moves the clock on. The backlog
that the packet finds decides whether there is room:

    the clock is               the packet finds    if it arrives          if it is lost
    earlier than the packet    an idle link        clock = time + size    it was lost on the radio
    later than the packet      other packets       clock += size          the queue was full

So the fate of each packet also corrects the clock: a packet that arrived had room, and most lost
packets had none. Thus the clock keeps time without the ACKs, which have a jitter of their own, and
an error of the pace does not add up. All of a user's packets share the link. Packets of the user's
other connections that pass between two transmissions of a connection move the clock, too
(`set_link_steps`).
"""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import compiled
from spark_jobs.compiled.arrays import gather
from spark_jobs.estimators.sequence import first_above

RANDOM_LOSS = 0.02
"""Probability of an arrival without room in the queue.

Also the probability of a loss with room, as long as its share is unknown.
"""

LOSS_MEMORY = 8
"""Number of packets since a loss from which on the loss makes another no likelier."""

MAX_LINK_STEPS = 1024
"""Maximum number of packets between two transmissions for which the clock is moved again."""

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
        ("drops_early", "?"),
        ("pace_certain", "?"),
    ],
    align=True,
)
"""A user's path on the access side.

base_rtt: the base RTT (µs).
pace: time that the link needs for a byte (µs).
jitter: mean deviation of the ACKs from the link's pace (µs).
max_rtt: the longest RTT, that of a full queue (µs).
limit: bytes that the queue holds (0: unknown; see `queue`).
spread: uncertainty of the limit (B).
random_loss: share of packets lost although the queue had room.
slack: how late a certain ACK may be before it corrects the clock (µs).
loss_cost: cost of a loss, by the number of packets that have arrived since the last (see `costs`).
drops_early: whether the queue drops packets though it has room (see `queue_kind`).
pace_certain: whether the link was certainly busy when the pace was measured.
"""


class Traffic(NamedTuple):
    """A user's n packets of any protocol and of both directions."""

    ts: np.ndarray
    """int64[n]: time at Gi (µs)."""
    size: np.ndarray
    """int64[n]: IP bytes of a downlink packet; 0 for an uplink packet."""
    ack_ts: np.ndarray
    """int64[n]: time of the packet's ACK, if that is certain, else 0 (µs)."""
    lost: np.ndarray
    """bool[n]: whether the packet was lost on the access side, as far as known."""
    clock: np.ndarray
    """float64[n]: the link's clock before the packet (µs)."""
    backlog: np.ndarray
    """float64[n]: bytes in the queue when the packet entered, with the packet."""


@compiled
def user_traffic(user, connections, packets, clean):
    """Return a user's Traffic, from Connections, Packets and CleanAcks, without any loss."""
    begin, end = packets.first[user], packets.first[user + 1]
    n = end - begin
    ack_ts = np.zeros(n, np.int64)
    k = first_above(clean.connection, 0, len(clean.ts), connections.user_offsets[user] - 1)
    while k < len(clean.ts) and clean.connection[k] < connections.user_offsets[user + 1]:
        ack_ts[clean.packet[k] - begin] = clean.ts[k]
        k += 1
    return Traffic(
        packets.ts[begin:end],
        np.diff(packets.downlink_bytes_before[begin : end + 1]),
        ack_ts,
        np.zeros(n, np.bool_),
        np.zeros(n),
        np.zeros(n),
    )


@compiled
def select_packets(traffic, indices):
    """Return the packets of a Traffic at these indices, as a Traffic of their own."""
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
    """Return the probability that a packet is lost if it brings the backlog to so many bytes."""
    overflow = 1 / (1 + np.exp((path.limit - backlog) / path.spread))
    return path.random_loss + (1 - RANDOM_LOSS - path.random_loss) * overflow


@compiled
def backlog(clock, ts, size, path):
    """Return the bytes in the queue when a packet has entered, with the packet."""
    return max(clock - ts - path.base_rtt, 0.0) / path.pace + size


@compiled
def overflow_probability(backlog, path):
    """Return the probability that a lost packet was lost by the queue, and not elsewhere."""
    return 1 - path.random_loss / loss_probability(backlog, path)


@compiled
def full_clock(ts, size, path):
    """Return the clock that leaves just enough room for a packet."""
    return ts + path.base_rtt + max(path.limit - size, 0.0) * path.pace


@compiled
def clock_after_arrival(clock, ts, size, ack_ts, path):
    """Return the clock after a packet that arrived.

    The packet had room. If the clock leaves no room for it, the clock was fast. The clock was also
    fast if the packet's ACK came before its time, and slow if the ACK came late.
    """
    clock = max(clock, ts + path.base_rtt)
    if path.limit > 0:
        clock = min(clock, full_clock(ts, size, path))
    clock += size * path.pace
    if ack_ts:
        clock = min(max(clock, ack_ts - path.slack), ack_ts)
    return clock


@compiled
def clock_after_loss(clock, ts, size, path):
    """Return the clock after a packet that was lost.

    If the queue dropped the packet though the clock leaves room for it, the clock was slow. If the
    packet was lost on the radio, the link had sent it.
    """
    if path.limit == 0:
        return clock
    clock = max(clock, ts + path.base_rtt)
    overflow = overflow_probability(backlog(clock, ts, size, path), path)
    lag = max(full_clock(ts, size, path) - clock, 0.0)
    return clock + overflow * lag + (1 - overflow) * size * path.pace


@compiled
def replay(traffic, path):
    """Set the link's clock and the backlog for each packet of a user's Traffic."""
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
    """Set what the link did between a connection's transmissions, TRANSMISSION[n].

    If the clock after the connection's previous transmission is t, its value before this one is
    min(max(t + work, floor), ceiling). Call `replay` first: it sets the clock before each packet,
    under the fates known so far, and the backlogs that show why other packets were lost.
    """
    for k in range(len(sent)):
        tx = sent[k]
        tx.clock, tx.ack_ts = traffic.clock[tx.packet], traffic.ack_ts[tx.packet]
        tx.work, tx.floor, tx.ceiling = 0.0, -np.inf, np.inf
        begin = sent[k - 1].packet + 1 if k else tx.packet
        if tx.packet - begin > MAX_LINK_STEPS:
            begin = tx.packet - MAX_LINK_STEPS
            tx.floor = tx.ceiling = traffic.clock[begin]
        for p in range(begin, tx.packet):
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
    """Return the clock before a transmission.

    clock: the clock after the connection's previous transmission.
    """
    return min(max(clock + tx.work, tx.floor), tx.ceiling)


@compiled
def start_clock(tx):
    """Return the clock with which to start at a connection's transmission.

    It stands for the clock after the previous transmission. `clock_on_entry` makes of it the clock
    that `replay` set.
    """
    return tx.clock - tx.work
