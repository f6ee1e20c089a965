"""Kind of the queue of a user's access link.

Three kinds show in what they do to packets:

- FIFO: one queue that keeps the order of all of a user's packets and drops a packet only if it has
  no room (drop tail). Seen if a limit explains the losses (`queue`), or if the packets of several
  connections keep their order while they wait.
- EARLY_DROP: one that drops packets although it has room, to keep itself short: CoDel (RFC 8289),
  PIE (RFC 8033), RED. Seen if packets with room are lost more often when others wait before them
  than when none do. The radio loses both alike.
- FAIR: one with a queue for each connection (FQ-CoDel, RFC 8290; fq). Seen if a packet leaves
  before a packet of another connection that entered earlier. Such a queue may drop early, too.
"""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators.clean_acks import CleanAcks
from spark_jobs.estimators.loss.path import JITTER_MARGIN, NO_OWNER
from spark_jobs.estimators.loss.queue import CLEAR_SPREADS, MIN_EVIDENCE

UNKNOWN, FIFO, EARLY_DROP, FAIR = range(4)
"""The kinds of queues; UNKNOWN: not known."""
KIND_NAMES = ("unknown", "fifo", "early_drop", "fair")
"""Their names in the tables; unknown is null there."""
QUEUED_PACKETS = 2
"""Number of full-size packets in the queue from which on a packet certainly waits."""
FULL_SIZE = 1500
"""IP bytes of a full-size packet."""
MIN_ORDERED = 20
"""Minimum number of waiting packets that kept the order of connections, to know that it is kept."""
MIN_OVERTAKING = 3
"""Minimum number of packets that overtook those of another connection."""
OVERTAKING_SHARE = 0.05
"""Minimum share of the waiting packets that overtook; below, clocks or ACKs are at fault."""


@inner
def _log_likelihood(lost, total):
    """Return the log likelihood of so many losses, with the share that makes it largest."""
    if lost == 0 or lost == total:
        return 0.0
    share = lost / total
    return lost * np.log(share) + (total - lost) * np.log(1 - share)


@compiled
def drops_early(path, traffic, known):
    """Return whether packets with room are lost more often when others wait before them.

    These must be at least half of all losses, because a limit may be wrong for some. Losses in a
    row count once: the radio fails for a while, and the longer the queue, the more packets this
    hits.

    path: a record of PATH; traffic: the user's Traffic with its backlogs by `link.replay`; known
    bool[n]: whether the fate of each packet is known.
    """
    lost = lost_idle = total_idle = lost_queued = total_queued = 0
    after_loss = False
    for p in range(len(traffic.ts)):
        size = traffic.size[p]
        if not known[p] or size == 0:
            continue
        is_repeated = after_loss and traffic.lost[p]
        after_loss = traffic.lost[p]
        if is_repeated:
            continue
        lost += traffic.lost[p]
        if path.limit > 0 and traffic.backlog[p] > path.limit - CLEAR_SPREADS * path.spread:
            continue
        if traffic.backlog[p] - size >= QUEUED_PACKETS * FULL_SIZE:
            lost_queued += traffic.lost[p]
            total_queued += 1
        else:
            lost_idle += traffic.lost[p]
            total_idle += 1
    if 2 * lost_queued < lost:
        return False
    if total_idle == 0 or lost_queued * total_idle <= lost_idle * total_queued:
        return False
    gain = (
        _log_likelihood(lost_idle, total_idle)
        + _log_likelihood(lost_queued, total_queued)
        - _log_likelihood(lost_idle + lost_queued, total_idle + total_queued)
    )
    return gain > MIN_EVIDENCE


@compiled
def queue_kinds(clean, owner, packets, paths):
    """Return the kind of queue of each user, int8[U].

    Needs CleanAcks, the user of each, int64[K] (see `path.ack_owners`), Packets, and PATH[U] with
    what the losses show.
    """
    kinds = np.zeros(len(paths), np.int8)
    order = np.argsort(clean.packet)
    latest = second = np.int64(0)  # the latest of the ACKs so far, and of other connections
    latest_of = user = np.int64(-1)
    waiting = overtaking = 0
    for at in range(len(order) + 1):
        k = order[at] if at < len(order) else np.int64(-1)
        next_user = owner[k] if k >= 0 else NO_OWNER
        if k >= 0 and next_user == NO_OWNER:
            continue
        if next_user != user:
            if user != NO_OWNER:
                kinds[user] = _kind(paths[user], waiting, overtaking)
            user, waiting, overtaking = next_user, 0, 0
            latest = second = np.int64(0)
            latest_of = np.int64(-1)
        if k < 0:
            break
        path, connection, ts = paths[user], clean.connection[k], clean.ts[k]
        before = second if connection == latest_of else latest
        time = max(QUEUED_PACKETS * FULL_SIZE * path.pace, JITTER_MARGIN * path.jitter)
        if before > packets.ts[clean.packet[k]] + path.base_rtt + 2 * time:
            waiting += 1
            overtaking += before > ts + time
        if clean.maybe_delayed[k] or clean.flight[k] == 0:
            continue  # its packet may have left long before
        if connection == latest_of:
            latest = max(latest, ts)
        elif ts > latest:
            latest, second, latest_of = ts, latest, connection
        else:
            second = max(second, ts)
    for u in range(len(paths)):
        if kinds[u] == UNKNOWN:
            kinds[u] = _kind(paths[u], 0, 0)
    return kinds


@compiled
def in_order(clean, connections, packets, kinds, paths):
    """Return the CleanAcks without those that a queue for each connection makes useless.

    Such a queue does not serve a user's packets in order. So an ACK counts as disturbed if packets
    of the user's other connections may have been in their queues since the ACK before it: if they
    passed Gi no earlier than the longest RTT before. kinds: int8[U]; paths: PATH[U].
    """
    undisturbed = clean.undisturbed.copy()
    other_ts = np.int64(0)
    p = np.int64(0)
    for k in range(1, len(undisturbed)):
        c, answered = clean.connection[k], clean.packet[k]
        user = connections.user[c]
        if kinds[user] != FAIR:
            continue
        if c != clean.connection[k - 1]:
            other_ts = np.int64(0)
            begin = packets.first[user]
            since = packets.ts[answered] - np.int64(paths[user].max_rtt)
            p = begin + np.searchsorted(packets.ts[begin:answered], since)
        while p <= answered:
            own = (
                packets.server[p] == packets.server[answered]
                and packets.user_port[p] == packets.user_port[answered]
                and packets.server_port[p] == packets.server_port[answered]
            )
            if packets.downlink[p] and not own:
                other_ts = packets.ts[p]
            p += 1
        undisturbed[k] &= clean.ts[k - 1] - other_ts >= paths[user].max_rtt
    return CleanAcks(
        clean.connection, clean.ts, clean.packet, clean.flight, undisturbed, clean.maybe_delayed
    )


@inner
def _kind(path, waiting, overtaking):
    """Return the kind of queue of a user's path.

    waiting: packets that came while an earlier one of another connection was in the queue;
    overtaking: those of them that left before it.
    """
    if path.pace == 0:
        return UNKNOWN
    if overtaking >= max(MIN_OVERTAKING, OVERTAKING_SHARE * waiting):
        return FAIR
    if path.drops_early and path.pace_certain:
        return EARLY_DROP
    if path.limit > 0 or waiting >= MIN_ORDERED:
        return FIFO
    return UNKNOWN
