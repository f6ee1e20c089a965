"""Which downlink data packets were lost on the access side (INFOCOM 2004, Section V); `internet` has those
lost before it.

The paper cites Benkő and Veres (GLOBECOM 2002): a hole in the sequence space that is filled later
is a loss before the monitor, data retransmitted though it was seen a loss behind it, unless the
retransmission was not needed. Here it is decided which copy reached the mobile:

1. A copy that no other overlaps and that was acknowledged arrived.
2. What the access link's order alone proves (`order`).
3. For what remains, the likeliest history of the receiver (`receiver`, `search`): all that the ACKs
   tell by number, SACK blocks, D-SACKs, echoed timestamps and times is weighed at once, with what
   is known of the link: a FIFO of a certain pace that loses what finds its queue full (`link`).
   Histories that have lost different numbers are compared by what is still to come (`lookahead`).
4. What was lost so far tells how much the user's queue holds and how fast it drains (`queue`); with
   that, what is still unproven is decided again.

Copies at the end of what was observed, whose ACK would come later, are undecided: they count with
the probability that the queue had no room, or, where its limit is unknown, with the share lost
among the connection's others.
"""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import compiled, inner, making
from spark_jobs.estimators.connections import IDLE_TIMEOUT_US
from spark_jobs.estimators.loss import costs, link, queue, receiver, search, verdict
from spark_jobs.estimators.loss.exchange import (
    LOST,
    UNPROVEN,
    UserExchanges,
    exchange_of,
    read_user,
)
from spark_jobs.estimators.loss.order import prove
from spark_jobs.estimators.records import Connections

PROVEN, FIRST, AGAIN = range(3)
"""A user's connections are gone through in three turns: those that are proven throughout; the
others; and, if these tell more of what the queue holds, the others again."""
OVERFLOWING = 8
"""Of a connection with so many losses for certain, the longest round trip tells of a full queue."""
MORE = 1.25
"""With so many times the losses that told what the queue holds, it is told anew."""
PATIENCE = 2
"""An ACK is awaited for this multiple of the connection's longest round trip."""
SHORTEST_WAIT_US = 40_000
"""An ACK waits no shorter for a second segment (Linux: TCP_DELACK_MIN)."""


class User(NamedTuple):
    """What is known of a user while the connections are gone through."""

    exchanges: UserExchanges
    traffic: link.Traffic
    known: np.ndarray
    """bool[n]: what became of a packet of the traffic is known."""
    path: np.ndarray
    """PATH[1]: as the clean ACKs tell it,"""
    limited: np.ndarray
    """PATH[1]: with what the losses tell of the queue."""
    until: np.ndarray
    """int64[connections]: to when the user was observed for the sake of each (µs)."""


@compiled
def access_losses(segments, connections, packets, clean, paths):
    """AccessLosses of Segments, their Connections, all Packets, the CleanAcks and each user's
    path, PATH[U]."""
    out = verdict.nothing_known(segments, paths)
    space = search.space()
    for number in range(len(packets.first) - 1):
        mine = _of_user(connections, number)
        exchanges = read_user(segments, mine, packets, out.original)
        for x in range(len(exchanges.seen)):
            if exchanges.seen[x].seen:
                verdict.may_be_decided(mine.first[x], mine.first[x + 1], segments, out)
        if len(exchanges.copies):
            path = paths[number : number + 1]
            _prove_all(exchanges, mine, segments.sack_edges, path)
            traffic = link.traffic_of(number, connections, packets, clean)
            known = np.zeros(len(traffic.ts), np.bool_)
            until = _observed_until(mine, packets)
            user = User(exchanges, traffic, known, path, path.copy(), until)
            _decide_all(user, mine, segments.sack_edges, space, out)
            out.paths[number] = user.limited[0]
    return out


@making
def _of_user(connections, user):
    """A user's Connections."""
    begin, end = connections.user_offsets[user], connections.user_offsets[user + 1]
    return Connections(
        connections.first[begin : end + 1],
        connections.user_offsets[user : user + 2],
        connections.user[begin:end],
        connections.user_port[begin:end],
        connections.server[begin:end],
        connections.server_port[begin:end],
        connections.start_ts[begin:end],
        connections.end_ts[begin:end],
        connections.sack[begin:end],
        connections.starts_in_window[begin:end],
    )


@making
def _observed_until(connections, packets):
    """int64[C]: the user's last packet from the mobile before a connection could have gone on for
    good (µs): a mobile that is heard no more may still receive."""
    until = np.empty(len(connections.user), np.int64)
    for c in range(len(until)):
        begin, end = packets.first[connections.user[c]], packets.first[connections.user[c] + 1]
        before = connections.end_ts[c] + IDLE_TIMEOUT_US
        last = begin + np.searchsorted(packets.ts[begin:end], before, "right") - 1
        while last > begin and packets.downlink[last]:
            last -= 1
        until[c] = packets.ts[last]
    return until


@making
def _prove_all(exchanges, connections, edges, path):
    """Sets what order alone proves of a user's connections with questions; path: its PATH[1]."""
    own = path.copy()  # kept to the loop's end: a record does not keep its array
    for x in range(len(exchanges.seen)):
        seen = exchanges.seen[x]
        if not seen.questions:
            continue
        exchange = exchange_of(exchanges, x, edges, connections.sack[x])
        own[0].base = _least_round_trip(exchange, path[0].base)
        seen.longest, seen.reached = prove(exchange, receiver.soonest(own[0]))
        for k in range(len(exchange.copies)):
            c = exchange.copies[k]
            seen.unproven += c.ambiguous and c.fate == UNPROVEN
            seen.lost += c.fate == LOST


@making
def _decide_all(user, connections, edges, space, out):
    """Decides about a user's connections in three turns, into AccessLosses."""
    copies, seen = user.exchanges.copies, user.exchanges.seen
    for k in range(len(copies)):
        c = copies[k]
        user.traffic.lost[c.place] = c.fate == LOST
        user.known[c.place] = c.data and (c.fate != UNPROVEN or not c.ambiguous)
    _set_habit(user)
    told = np.int64(0)
    for turn in (PROVEN, FIRST, AGAIN):
        if turn > PROVEN and user.path[0].pace > 0:
            before, told = told, _fit_queue(user, told)
            if turn == AGAIN and told == before:
                break
            link.replay(user.traffic, user.limited[0])
        if turn == AGAIN and user.limited[0].limit == 0:
            break
        for x in range(len(seen)):
            if seen[x].questions and (turn == PROVEN) == (seen[x].unproven == 0):
                _decide_one(user, x, connections, edges, space, out)
        if not seen["unproven"].any():
            break
    if told == 0 and user.path[0].pace > 0:  # nobody asked, but links are told of
        _fit_queue(user, told)
    elif user.limited[0].limit > 0:
        link.replay(user.traffic, user.limited[0])
        verdict.write_chances(copies, user.traffic, user.limited[0], out)


@making
def _set_habit(user):
    """Sets what a loss costs by how many packets have arrived since the last one, as far as the
    proven tell: a full queue of which the link takes one packet for two that come loses every
    second. That losses are rarer than usual is believed of a mobile whose ACKs wait: its arrivals
    may go unanswered without a loss."""
    lost, known = user.traffic.lost, user.known
    since = link.SINCE
    gone, seen = np.zeros(link.SINCE), np.zeros(link.SINCE)
    for p in range(len(lost)):
        if not known[p]:
            continue
        n = min(since, link.SINCE - 1)
        gone[n] += lost[p]
        seen[n] += 1
        since = 0 if lost[p] else since + 1
    waits = _waits(user)
    for n in range(link.SINCE):
        usual = _usual(n)
        weight = queue.USUAL_WEIGHT
        cost = -np.log((gone[n] + weight * np.exp(-usual)) / (seen[n] + weight))
        cost = min(cost, usual + (cost - usual) * waits)
        user.limited[0].again[n] = user.path[0].again[n] = cost


@inner
def _waits(user):
    """The share of a user's segments whose ACK waits for the next one: none if that takes longer to
    come than the shortest wait."""
    size, seen = user.traffic.size, user.exchanges.seen
    sent = volume = 0
    for p in range(len(size)):
        sent += size[p] > 0
        volume += size[p]
    if user.path[0].pace * volume > SHORTEST_WAIT_US * sent:
        return 0.0
    copies = share = 0.0
    for x in range(len(seen)):
        if seen[x].questions:
            n = seen[x].copy_end - seen[x].copy
            copies += n
            share += n * np.exp(-seen[x].waited)
    return share / max(copies, 1.0)


@inner
def _usual(n):
    """What a loss costs when nothing is known but that n packets have arrived since the last."""
    return costs.NEXT_LOSS if n == 0 else costs.LOSS


@making
def _fit_queue(user, told):
    """Tell what the queue holds from what was lost, if that has become many more than those that
    told it last; returns how many tell it now."""
    telling = int(np.count_nonzero(user.traffic.lost & user.known))
    if telling < max(OVERFLOWING, MORE * told):
        return told
    user.limited[0] = user.path[0]
    queue.fit(user.limited, user.traffic, user.known)
    return telling


@making
def _decide_one(user, x, connections, edges, space, out):
    """Decides about a user's connection x, writes it down and to the user's traffic."""
    exchange = exchange_of(user.exchanges, x, edges, connections.sack[x])
    copies, seen = exchange.copies, user.exchanges.seen[x]
    if seen.unproven == 0:
        lost = copies["fate"] == LOST
    else:
        mine = user.limited.copy()
        mine[0].longest = _longest(user.limited[0], seen)
        mine[0].base = _least_round_trip(exchange, user.limited[0].base)
        link.between(copies, user.traffic, user.limited[0])
        longest = _longest_round_trip(exchange, user.path[0], seen)
        _watch(exchange, longest, seen.reached, user.until[x])
        lost = search.decide(exchange, mine, longest, space)
    told_apart = exchange.heard.sack or user.limited[0].limit > 0
    verdict.write_down(exchange, lost, told_apart, out)
    for k in range(len(copies)):
        user.traffic.lost[copies[k].place] = lost[k]
        decided = out.evidence[copies[k].at] != verdict.UNDECIDED
        user.known[copies[k].place] = copies[k].data and decided


@inner
def _watch(exchange, longest, reached, until):
    """Sets which copies are watched: their ACKs would have been seen. longest: the longest round
    trip (µs); reached: see SEEN; until: to when the user was observed (µs)."""
    patience = PATIENCE * longest
    last_ack = exchange.heard.acks[-1].ts
    for k in range(len(exchange.copies)):
        c = exchange.copies[k]
        in_time = c.ts + patience < until or c.ts + longest < last_ack
        c.watched = k < reached or in_time


@inner
def _longest_round_trip(exchange, path, seen):
    """The longest round trip that is certain (µs), of a connection or its user; where none is, from
    the last copy that an ACK may be due to."""
    copies, acks = exchange.copies, exchange.heard.acks
    longest = max(seen.longest, np.int64(path.longest))
    if longest > 0:
        return longest
    soonest = receiver.soonest(path)
    missing, first = acks[0].value, 0
    for j in range(1, len(acks)):
        if acks[j].value <= missing:
            continue
        while first < len(copies) and exchange.top[first] <= missing:
            first += 1
        k, last = first, -1
        while k < len(copies) and copies[k].ts + soonest <= acks[j].ts:
            if copies[k].low <= missing < copies[k].high:
                last = k
            k += 1
        if last >= 0:
            longest = max(longest, acks[j].ts - copies[last].ts)
        missing = acks[j].value
    return longest


@inner
def _least_round_trip(exchange, base):
    """The least round trip that an Exchange's ACKs allow (µs), by its user's: what an ACK is the
    first to tell of came with no earlier copy than the first that Gi saw and that is not known to
    be lost. Less than half the user's is no round trip: then Gi missed a copy."""
    copies, top, acks = exchange.copies, exchange.top, exchange.heard.acks
    least = base
    first, missing = 0, acks[0].value
    for j in range(1, len(acks)):
        if acks[j].value <= missing:
            continue
        while first < len(copies) and top[first] <= missing:
            first += 1
        k = first
        while k < len(copies) and not (
            copies[k].low <= missing < copies[k].high and copies[k].fate != LOST
        ):
            k += 1
        if k < len(copies) and 2 * (acks[j].ts - copies[k].ts) > base:
            least = min(least, float(acks[j].ts - copies[k].ts))
        missing = acks[j].value
    return least


@inner
def _longest(path, seen):
    """The longest round trip, supposed to be that of a full queue (µs; 0: unknown); seen: SEEN of a
    connection. Where the queue's limit is known, that tells more."""
    if path.limit > 0 or seen.lost < OVERFLOWING:
        return 0.0
    return max(path.longest, seen.longest)
