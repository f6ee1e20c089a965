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
from spark_jobs.estimators.loss.observation import (
    LOST,
    UNPROVEN,
    UserObservation,
    connection_observation,
    read_user,
)
from spark_jobs.estimators.loss.order import prove_fates
from spark_jobs.estimators.records import Connections

PROVEN_PASS, FIRST_PASS, SECOND_PASS = range(3)
"""A user's connections are gone through in three turns: those that are proven throughout; the
others; and, if these tell more of what the queue holds, the others again."""
MIN_QUEUE_LOSSES = 8
"""Of a connection with so many losses for certain, the longest round trip tells of a full queue."""
REFIT_FACTOR = 1.25
"""With so many times the losses that told what the queue holds, it is told anew."""
ACK_WAIT_RTTS = 2
"""An ACK is awaited for this multiple of the connection's longest round trip."""
MIN_DELAYED_ACK_US = 40_000
"""An ACK waits no shorter for a second segment (Linux: TCP_DELACK_MIN)."""


class UserState(NamedTuple):
    """What is known of a user while the connections are gone through."""

    observation: UserObservation
    traffic: link.Traffic
    fate_known: np.ndarray
    """bool[n]: what became of a packet of the traffic is known."""
    path: np.ndarray
    """PATH[1]: as the clean ACKs tell it,"""
    path_with_queue: np.ndarray
    """PATH[1]: with what the losses tell of the queue."""
    observed_until: np.ndarray
    """int64[connections]: to when the user was observed for the sake of each (µs)."""


@compiled
def access_losses(segments, connections, packets, clean, paths):
    """AccessLosses of Segments, their Connections, all Packets, the CleanAcks and each user's
    path, PATH[U]."""
    out = verdict.initial_losses(segments, paths)
    workspace = search.workspace()
    for user_number in range(len(packets.first) - 1):
        user_connections = _select_connections(connections, user_number)
        user_observation = read_user(segments, user_connections, packets, out.original)
        for x in range(len(user_observation.summaries)):
            if user_observation.summaries[x].both_directions:
                verdict.mark_measurable(
                    user_connections.first[x], user_connections.first[x + 1], segments, out
                )
        if len(user_observation.transmissions):
            path = paths[user_number : user_number + 1]
            _prove_all(user_observation, user_connections, segments.sack_edges, path)
            traffic = link.user_traffic(user_number, connections, packets, clean)
            fate_known = np.zeros(len(traffic.ts), np.bool_)
            observed_until = _observed_until(user_connections, packets)
            user = UserState(
                user_observation, traffic, fate_known, path, path.copy(), observed_until
            )
            _decide_all(user, user_connections, segments.sack_edges, workspace, out)
            out.paths[user_number] = user.path_with_queue[0]
    return out


@making
def _select_connections(connections, user):
    """A user's Connections."""
    begin, end = connections.of_user[user], connections.of_user[user + 1]
    return Connections(
        connections.first[begin : end + 1],
        connections.of_user[user : user + 2],
        connections.user[begin:end],
        connections.user_port[begin:end],
        connections.server[begin:end],
        connections.server_port[begin:end],
        connections.start_ts[begin:end],
        connections.end_ts[begin:end],
        connections.sack[begin:end],
        connections.mine[begin:end],
    )


@making
def _observed_until(connections, packets):
    """int64[C]: the user's last packet from the mobile before a connection could have gone on for
    good (µs): a mobile that is heard no more may still receive."""
    observed_until = np.empty(len(connections.user), np.int64)
    for c in range(len(observed_until)):
        begin, end = packets.first[connections.user[c]], packets.first[connections.user[c] + 1]
        latest = connections.end_ts[c] + IDLE_TIMEOUT_US
        last = begin + np.searchsorted(packets.ts[begin:end], latest, "right") - 1
        while last > begin and packets.downlink[last]:
            last -= 1
        observed_until[c] = packets.ts[last]
    return observed_until


@making
def _prove_all(user_observation, connections, sack_edges, path):
    """Sets what order alone proves of a user's connections with questions; path: its PATH[1]."""
    own_path = path.copy()  # kept to the loop's end: a record does not keep its array
    for x in range(len(user_observation.summaries)):
        summary = user_observation.summaries[x]
        if not summary.ambiguous:
            continue
        observation = connection_observation(user_observation, x, sack_edges, connections.sack[x])
        own_path[0].base_rtt = _connection_base_rtt(observation, path[0].base_rtt)
        summary.max_rtt, summary.last_arrived = prove_fates(
            observation, receiver.min_ack_delay(own_path[0])
        )
        for k in range(len(observation.transmissions)):
            tx = observation.transmissions[k]
            summary.unproven += tx.ambiguous and tx.fate == UNPROVEN
            summary.lost += tx.fate == LOST


@making
def _decide_all(user, connections, sack_edges, workspace, out):
    """Decides about a user's connections in three turns, into AccessLosses."""
    sent, summaries = user.observation.transmissions, user.observation.summaries
    for k in range(len(sent)):
        tx = sent[k]
        user.traffic.lost[tx.packet] = tx.fate == LOST
        user.fate_known[tx.packet] = tx.has_data and (tx.fate != UNPROVEN or not tx.ambiguous)
    _fit_loss_costs(user)
    losses_fitted = np.int64(0)
    for turn in (PROVEN_PASS, FIRST_PASS, SECOND_PASS):
        if turn > PROVEN_PASS and user.path[0].pace > 0:
            previous, losses_fitted = losses_fitted, _fit_queue(user, losses_fitted)
            if turn == SECOND_PASS and losses_fitted == previous:
                break
            link.replay(user.traffic, user.path_with_queue[0])
        if turn == SECOND_PASS and user.path_with_queue[0].limit == 0:
            break
        for x in range(len(summaries)):
            if summaries[x].ambiguous and (turn == PROVEN_PASS) == (summaries[x].unproven == 0):
                _decide_connection(user, x, connections, sack_edges, workspace, out)
        if not summaries["unproven"].any():
            break
    if losses_fitted == 0 and user.path[0].pace > 0:  # nobody asked, but links are told of
        _fit_queue(user, losses_fitted)
    elif user.path_with_queue[0].limit > 0:
        link.replay(user.traffic, user.path_with_queue[0])
        verdict.write_overflow_probabilities(sent, user.traffic, user.path_with_queue[0], out)


@making
def _fit_loss_costs(user):
    """Sets what a loss costs by how many packets have arrived since the last one, as far as the
    proven tell: a full queue of which the link takes one packet for two that come loses every
    second. That losses are rarer than usual is believed of a mobile whose ACKs wait: its arrivals
    may go unanswered without a loss."""
    lost, fate_known = user.traffic.lost, user.fate_known
    since_loss = link.LOSS_MEMORY
    lost_count, known_count = np.zeros(link.LOSS_MEMORY), np.zeros(link.LOSS_MEMORY)
    for p in range(len(lost)):
        if not fate_known[p]:
            continue
        n = min(since_loss, link.LOSS_MEMORY - 1)
        lost_count[n] += lost[p]
        known_count[n] += 1
        since_loss = 0 if lost[p] else since_loss + 1
    delayed_share = _delayed_ack_share(user)
    for n in range(link.LOSS_MEMORY):
        prior_cost = _prior_loss_cost(n)
        weight = queue.PRIOR_WEIGHT
        cost = -np.log((lost_count[n] + weight * np.exp(-prior_cost)) / (known_count[n] + weight))
        cost = min(cost, prior_cost + (cost - prior_cost) * delayed_share)
        user.path_with_queue[0].loss_cost[n] = user.path[0].loss_cost[n] = cost


@inner
def _delayed_ack_share(user):
    """The share of a user's segments whose ACK waits for the next one: none if that takes longer to
    come than the shortest wait."""
    size, summaries = user.traffic.size, user.observation.summaries
    packet_count = byte_count = 0
    for p in range(len(size)):
        packet_count += size[p] > 0
        byte_count += size[p]
    if user.path[0].pace * byte_count > MIN_DELAYED_ACK_US * packet_count:
        return 0.0
    tx_count = delayed_count = 0.0
    for x in range(len(summaries)):
        if summaries[x].ambiguous:
            n = summaries[x].tx_end - summaries[x].tx_begin
            tx_count += n
            delayed_count += n * np.exp(-summaries[x].delayed_ack_cost)
    return delayed_count / max(tx_count, 1.0)


@inner
def _prior_loss_cost(n):
    """What a loss costs when nothing is known but that n packets have arrived since the last."""
    return costs.CONSECUTIVE_LOSS if n == 0 else costs.LOSS


@making
def _fit_queue(user, losses_fitted):
    """Tell what the queue holds from what was lost, if that has become many more than those that
    told it last; returns how many tell it now."""
    known_losses = int(np.count_nonzero(user.traffic.lost & user.fate_known))
    if known_losses < max(MIN_QUEUE_LOSSES, REFIT_FACTOR * losses_fitted):
        return losses_fitted
    user.path_with_queue[0] = user.path[0]
    queue.fit(user.path_with_queue, user.traffic, user.fate_known)
    return known_losses


@making
def _decide_connection(user, x, connections, sack_edges, workspace, out):
    """Decides about a user's connection x, writes it down and to the user's traffic."""
    observation = connection_observation(user.observation, x, sack_edges, connections.sack[x])
    sent, summary = observation.transmissions, user.observation.summaries[x]
    if summary.unproven == 0:
        lost = sent["fate"] == LOST
    else:
        own_path = user.path_with_queue.copy()
        own_path[0].max_rtt = _full_queue_rtt(user.path_with_queue[0], summary)
        own_path[0].base_rtt = _connection_base_rtt(observation, user.path_with_queue[0].base_rtt)
        link.set_link_steps(sent, user.traffic, user.path_with_queue[0])
        max_rtt = _connection_max_rtt(observation, user.path[0], summary)
        _mark_observable(observation, max_rtt, summary.last_arrived, user.observed_until[x])
        lost = search.likeliest_losses(observation, own_path, max_rtt, workspace)
    distinguishable = observation.feedback.sack_permitted or user.path_with_queue[0].limit > 0
    verdict.write_verdicts(observation, lost, distinguishable, out)
    for k in range(len(sent)):
        user.traffic.lost[sent[k].packet] = lost[k]
        decided = out.evidence[sent[k].segment] != verdict.UNDECIDED
        user.fate_known[sent[k].packet] = sent[k].has_data and decided


@inner
def _mark_observable(observation, max_rtt, last_arrived, observed_until):
    """Sets which copies are watched: their ACKs would have been seen. longest: the longest round
    trip (µs); reached: see SEEN; until: to when the user was observed (µs)."""
    ack_wait = ACK_WAIT_RTTS * max_rtt
    last_ack_ts = observation.feedback.acks[-1].ts
    for k in range(len(observation.transmissions)):
        tx = observation.transmissions[k]
        in_time = tx.ts + ack_wait < observed_until or tx.ts + max_rtt < last_ack_ts
        tx.ack_observable = k < last_arrived or in_time


@inner
def _connection_max_rtt(observation, path, summary):
    """The longest round trip that is certain (µs), of a connection or its user; where none is, from
    the last copy that an ACK may be due to."""
    sent, acks = observation.transmissions, observation.feedback.acks
    max_rtt = max(summary.max_rtt, np.int64(path.max_rtt))
    if max_rtt > 0:
        return max_rtt
    min_ack_delay = receiver.min_ack_delay(path)
    missing, first = acks[0].number, 0
    for j in range(1, len(acks)):
        if acks[j].number <= missing:
            continue
        while first < len(sent) and observation.highest_sent[first] <= missing:
            first += 1
        k, last = first, -1
        while k < len(sent) and sent[k].ts + min_ack_delay <= acks[j].ts:
            if sent[k].low <= missing < sent[k].high:
                last = k
            k += 1
        if last >= 0:
            max_rtt = max(max_rtt, acks[j].ts - sent[last].ts)
        missing = acks[j].number
    return max_rtt


@inner
def _connection_base_rtt(observation, base_rtt):
    """The least round trip that an Exchange's ACKs allow (µs), by its user's: what an ACK is the
    first to tell of came with no earlier copy than the first that Gi saw and that is not known to
    be lost. Less than half the user's is no round trip: then Gi missed a copy."""
    sent, highest_sent, acks = (
        observation.transmissions,
        observation.highest_sent,
        observation.feedback.acks,
    )
    min_rtt = base_rtt
    first, missing = 0, acks[0].number
    for j in range(1, len(acks)):
        if acks[j].number <= missing:
            continue
        while first < len(sent) and highest_sent[first] <= missing:
            first += 1
        k = first
        while k < len(sent) and not (
            sent[k].low <= missing < sent[k].high and sent[k].fate != LOST
        ):
            k += 1
        if k < len(sent) and 2 * (acks[j].ts - sent[k].ts) > base_rtt:
            min_rtt = min(min_rtt, float(acks[j].ts - sent[k].ts))
        missing = acks[j].number
    return min_rtt


@inner
def _full_queue_rtt(path, summary):
    """The longest round trip, supposed to be that of a full queue (µs; 0: unknown); seen: SEEN of a
    connection. Where the queue's limit is known, that tells more."""
    if path.limit > 0 or summary.lost < MIN_QUEUE_LOSSES:
        return 0.0
    return max(path.max_rtt, summary.max_rtt)
