"""Losses of downlink data packets on the access side (INFOCOM 2004, Section V).

`internet` finds the losses on the Internet side.

The paper cites Benkő and Veres (GLOBECOM 2002). They look at holes in the sequence space. A hole
that is filled later is a loss on the Internet side. Data that was seen and is retransmitted is a
loss on the access side, unless the retransmission was not needed. This module decides for each
transmission whether it reached the mobile:

1. A transmission arrived if no other overlaps it and it was acknowledged.
2. `order` proves fates from the order of packets on the access link alone.
3. For the rest, `search` finds the likeliest history of the receiver (`receiver`). It weighs all
   that the ACKs report: numbers, SACK blocks, D-SACKs, echoed timestamps and times. It also uses a
   model of the access link: a FIFO of a certain pace that drops packets when its queue is full
   (`link`). To compare histories with different numbers of losses, it adds a lower bound of the
   costs still to come (`lookahead`).
4. From the losses found, `queue` infers how much the user's queue holds and how fast it drains.
   With this, the fates that are still unproven are decided again.

Transmissions close to the end of the capture, whose ACK would come later, are undecided. They count
with the probability that the queue had no room. If the queue's limit is unknown, they count with
the share lost among the connection's other transmissions.
"""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import compiled, inner, making
from spark_jobs.compiled.arrays import true_indices
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
from spark_jobs.estimators.loss.queue_kind import drops_early
from spark_jobs.estimators.records import Connections
from spark_jobs.estimators.sequence import MAX_WORK, search_begin, search_end

PROVEN_PASS, FIRST_PASS, SECOND_PASS = range(3)
"""The three passes over a user's connections.

PROVEN_PASS: connections in which order proves every fate.
FIRST_PASS: the other connections.
SECOND_PASS: the other connections again, if the first pass found more losses for the queue's fit.
"""
MIN_QUEUE_LOSSES = 8
"""Minimum number of losses for conclusions about the queue.

With so many losses that order proves in a connection, its longest RTT is taken for that of a full
queue. With so many known losses of a user, the queue is fitted.
"""
REFIT_FACTOR = 1.25
"""The queue is fitted again when the number of known losses has grown by this factor."""
ACK_WAIT_RTTS = 2
"""Time within which the ACK for a transmission comes (multiple of the connection's longest RTT)."""
MIN_DELAYED_ACK_US = 40_000
"""Minimum time for which a delayed ACK waits for a second segment (Linux: TCP_DELACK_MIN; µs)."""


class UserState(NamedTuple):
    """A user's data while the passes go over the connections."""

    observation: UserObservation
    traffic: link.Traffic
    fate_known: np.ndarray
    """bool[n]: whether the fate of each packet of the traffic is known."""
    path: np.ndarray
    """PATH[1]: the path by the clean ACKs."""
    path_with_queue: np.ndarray
    """PATH[1]: the path with the queue inferred from the losses."""
    observed_until: np.ndarray
    """int64[connections]: the time until which the user was observed, for each connection (µs)."""


@compiled
def access_losses(segments, connections, packets, clean, paths):
    """Return the AccessLosses of Segments.

    Needs their Connections, all Packets, the CleanAcks and each user's path, PATH[U].
    """
    out = verdict.initial_losses(segments, paths)
    workspace = search.workspace()
    for user_number in range(len(packets.first) - 1):
        user_connections = _select_connections(connections, user_number)
        user_observation = read_user(segments, user_connections, packets, out.original)
        for connection in range(len(user_observation.summaries)):
            if user_observation.summaries[connection].both_directions:
                verdict.mark_measurable(
                    user_connections.first[connection],
                    user_connections.first[connection + 1],
                    segments,
                    out,
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
    """Return a user's Connections."""
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
    """Return, for each connection, the time until which its user was observed, int64[C] (µs).

    This is the time of the mobile's last uplink packet before the connection's idle timeout would
    have ended. A mobile that sends nothing any more may still receive.
    """
    begin, end = packets.first[connections.user[0]], packets.first[connections.user[0] + 1]
    ts = packets.ts[begin:end]
    uplink = true_indices(~packets.downlink[begin:end])
    observed_until = np.empty(len(connections.user), np.int64)
    for c in range(len(observed_until)):
        last = np.searchsorted(ts, connections.end_ts[c] + IDLE_TIMEOUT_US, "right") - 1
        at = np.searchsorted(uplink, last, "right") - 1
        observed_until[c] = ts[uplink[at]] if at >= 0 else ts[0]
    return observed_until


@making
def _prove_all(user_observation, connections, sack_edges, path):
    """Set the fates that order alone proves in a user's ambiguous connections.

    path: the user's PATH[1].
    """
    own_path = path.copy()  # a name of its own: a record does not keep its array alive
    for connection in range(len(user_observation.summaries)):
        summary = user_observation.summaries[connection]
        if not summary.ambiguous:
            continue
        observation = connection_observation(
            user_observation, connection, sack_edges, connections.sack[connection]
        )
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
    """Decide all fates of a user's connections in three passes and write them to AccessLosses."""
    sent, summaries = user.observation.transmissions, user.observation.summaries
    for k in range(len(sent)):
        tx = sent[k]
        user.traffic.lost[tx.packet] = tx.fate == LOST
        user.fate_known[tx.packet] = tx.has_data and (tx.fate != UNPROVEN or not tx.ambiguous)
    _fit_loss_costs(user)
    losses_fitted = np.int64(0)
    for current_pass in (PROVEN_PASS, FIRST_PASS, SECOND_PASS):
        if current_pass > PROVEN_PASS and user.path[0].pace > 0:
            previous, losses_fitted = losses_fitted, _fit_queue(user, losses_fitted)
            if current_pass == SECOND_PASS and losses_fitted == previous:
                break
            link.replay(user.traffic, user.path_with_queue[0])
        if current_pass == SECOND_PASS and user.path_with_queue[0].limit == 0:
            break
        for connection in range(len(summaries)):
            if summaries[connection].ambiguous and (current_pass == PROVEN_PASS) == (
                summaries[connection].unproven == 0
            ):
                _decide_connection(user, connection, connections, sack_edges, workspace, out)
        if not summaries["unproven"].any():
            break
    # Even if no search needs the queue, the table of links does.
    if user.path[0].pace > 0:
        if losses_fitted == 0:
            _fit_queue(user, losses_fitted)
        link.replay(user.traffic, user.path_with_queue[0])
        user.path_with_queue[0].drops_early = drops_early(
            user.path_with_queue[0], user.traffic, user.fate_known
        )
        if user.path_with_queue[0].limit > 0:
            verdict.write_overflow_probabilities(sent, user.traffic, user.path_with_queue[0], out)


@making
def _fit_loss_costs(user):
    """Set a loss's cost by the number of packets that have arrived since the last loss.

    The costs come from the packets whose fate is proven. For example, a full queue loses every
    second packet when two packets come for each packet that the link sends. A cost above the usual
    one is adopted only as far as the mobile delays its ACKs, because then arrivals may go
    unanswered without a loss.
    """
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
    """Return the share of a user's segments whose ACK waits for the next segment.

    The share is 0 if the next segment takes longer to come than the shortest delay of an ACK.
    """
    size, summaries = user.traffic.size, user.observation.summaries
    packet_count = byte_count = 0
    for p in range(len(size)):
        packet_count += size[p] > 0
        byte_count += size[p]
    if user.path[0].pace * byte_count > MIN_DELAYED_ACK_US * packet_count:
        return 0.0
    tx_count = delayed_count = 0.0
    for connection in range(len(summaries)):
        if summaries[connection].ambiguous:
            n = summaries[connection].tx_end - summaries[connection].tx_begin
            tx_count += n
            delayed_count += n * np.exp(-summaries[connection].delayed_ack_cost)
    return delayed_count / max(tx_count, 1.0)


@inner
def _prior_loss_cost(n):
    """Return the usual cost of a loss after n arrivals since the last loss."""
    return costs.CONSECUTIVE_LOSS if n == 0 else costs.LOSS


@making
def _fit_queue(user, losses_fitted):
    """Fit the queue to the known losses if there are many more than at the last fit.

    losses_fitted: the known losses at the last fit. Returns the known losses at the newest fit.
    """
    known_losses = int(np.count_nonzero(user.traffic.lost & user.fate_known))
    if known_losses < max(MIN_QUEUE_LOSSES, REFIT_FACTOR * losses_fitted):
        return losses_fitted
    user.path_with_queue[0] = user.path[0]
    queue.fit(user.path_with_queue, user.traffic, user.fate_known)
    return known_losses


@making
def _decide_connection(user, connection, connections, sack_edges, workspace, out):
    """Decide the fates in one connection; write them to AccessLosses and the user's traffic."""
    observation = connection_observation(
        user.observation, connection, sack_edges, connections.sack[connection]
    )
    sent, summary = observation.transmissions, user.observation.summaries[connection]
    if summary.unproven == 0:
        lost = sent["fate"] == LOST
    else:
        own_path = user.path_with_queue.copy()
        own_path[0].max_rtt = _full_queue_rtt(user.path_with_queue[0], summary)
        own_path[0].base_rtt = _connection_base_rtt(observation, user.path_with_queue[0].base_rtt)
        link.set_link_steps(sent, user.traffic, user.path_with_queue[0])
        max_rtt = _connection_max_rtt(observation, user.path[0], summary)
        _mark_observable(
            observation, max_rtt, summary.last_arrived, user.observed_until[connection]
        )
        lost = search.likeliest_losses(observation, own_path, max_rtt, workspace)
    distinguishable = observation.feedback.sack_permitted or user.path_with_queue[0].limit > 0
    verdict.write_verdicts(observation, lost, distinguishable, out)
    for k in range(len(sent)):
        user.traffic.lost[sent[k].packet] = lost[k]
        decided = out.evidence[sent[k].segment] < verdict.COUNTED
        user.fate_known[sent[k].packet] = sent[k].has_data and decided


@inner
def _mark_observable(observation, max_rtt, last_arrived, observed_until):
    """Set which transmissions have an ACK that Gi would have seen.

    max_rtt: the longest RTT (µs); last_arrived: see SUMMARY; observed_until: the time until which
    the user was observed (µs).
    """
    ack_wait = ACK_WAIT_RTTS * max_rtt
    last_ack_ts = observation.feedback.acks[-1].ts
    for k in range(len(observation.transmissions)):
        tx = observation.transmissions[k]
        in_time = tx.ts + ack_wait < observed_until or tx.ts + max_rtt < last_ack_ts
        tx.ack_observable = k < last_arrived or in_time


@inner
def _connection_max_rtt(observation, path, summary):
    """Return the longest RTT that is certain, of a connection or its user (µs).

    If none is certain, return the longest time from the last transmission that may have caused an
    ACK to this ACK.
    """
    sent, acks = observation.transmissions, observation.feedback.acks
    max_rtt = max(summary.max_rtt, np.int64(path.max_rtt))
    if max_rtt > 0:
        return max_rtt
    min_ack_delay = receiver.min_ack_delay(path)
    missing, first, end = acks[0].number, 0, 0
    steps_left = MAX_WORK * len(sent)
    for j in range(1, len(acks)):
        if acks[j].number <= missing:
            continue
        while first < len(sent) and observation.highest_sent[first] <= missing:
            first += 1
        while end < len(sent) and sent[end].ts + min_ack_delay <= acks[j].ts:
            end += 1
        for k in range(end - 1, search_begin(first, end, steps_left) - 1, -1):
            steps_left -= 1
            if sent[k].low <= missing < sent[k].high:
                max_rtt = max(max_rtt, acks[j].ts - sent[k].ts)
                break
        missing = acks[j].number
    return max_rtt


@inner
def _connection_base_rtt(observation, base_rtt):
    """Return the smallest RTT that a connection's ACKs allow, at most its user's base RTT (µs).

    The first ACK that reports a byte answers the first transmission of the byte that Gi saw and
    that is not known to be lost, or a later one. A time of less than half the user's base RTT is no
    RTT: then Gi missed a transmission.
    """
    sent, highest_sent, acks = (
        observation.transmissions,
        observation.highest_sent,
        observation.feedback.acks,
    )
    min_rtt = base_rtt
    first, missing = 0, acks[0].number
    steps_left = MAX_WORK * len(sent)
    for j in range(1, len(acks)):
        if acks[j].number <= missing:
            continue
        while first < len(sent) and highest_sent[first] <= missing:
            first += 1
        for k in range(first, search_end(first, len(sent), steps_left)):
            steps_left -= 1
            if sent[k].low <= missing < sent[k].high and sent[k].fate != LOST:
                if 2 * (acks[j].ts - sent[k].ts) > base_rtt:
                    min_rtt = min(min_rtt, float(acks[j].ts - sent[k].ts))
                break
        missing = acks[j].number
    return min_rtt


@inner
def _full_queue_rtt(path, summary):
    """Return the longest RTT if it can be taken for that of a full queue (µs; 0: it cannot).

    summary: the connection's SUMMARY. If the queue's limit is known, this RTT is not needed.
    """
    if path.limit > 0 or summary.lost < MIN_QUEUE_LOSSES:
        return 0.0
    return max(path.max_rtt, summary.max_rtt)
