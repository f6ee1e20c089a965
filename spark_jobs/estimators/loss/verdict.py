"""What became of each downlink packet, written down: probabilities, evidence, sums."""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import compiled, inner, making
from spark_jobs.estimators.loss import link, queue
from spark_jobs.estimators.loss.observation import LOST, UNPROVEN
from spark_jobs.estimators.sequence import NONE, unwrap
from spark_jobs.estimators.tcp import SYN

NO_LOSS, BY_ORDER, BY_SACK, BY_DUP_ACKS, BY_SILENCE, UNDECIDED = range(6)
EVIDENCE = ("none", "order", "sack", "dup_acks", "silence", "undecided")
"""What tells of a loss: order alone; the ACKs of a receiver with SACK, without SACK; that no ACK
came; nothing yet."""

BOTTLENECKS = ("none", "access", "internet", "equal")
"""On which side a connection lost more (INFOCOM V)."""


class AccessLosses(NamedTuple):
    """What became on the access side of N segments, in connection order."""

    probability: np.ndarray
    """float32[N]: of having been lost; NaN: no downlink data, or the mobile's direction was not
    seen."""
    evidence: np.ndarray
    """uint8[N]: into EVIDENCE, for those likely lost."""
    original: np.ndarray
    """int64[N]: the last segment before it that carried some of the same data, -1: none."""
    paths: np.ndarray
    """PATH[U]: each user's, with what the losses tell of the queue."""


class AccessTotals(NamedTuple):
    """What became on the access side of the downlink data of C connections."""

    has_data: np.ndarray
    """bool[C]: there is any."""
    measurable: np.ndarray
    """bool[C]: what became of all of it is known."""
    lost: np.ndarray
    """int64[C]: packets lost."""
    expected: np.ndarray
    """float64[C]: packets expected to be lost."""


@making
def initial_losses(segments, paths):
    """AccessLosses of Segments before anything was decided; paths: PATH[U]."""
    n = len(segments.ts)
    return AccessLosses(
        np.full(n, np.nan, np.float32),
        np.zeros(n, np.uint8),
        np.full(n, np.int64(-1)),
        paths.copy(),
    )


@inner
def mark_measurable(begin, end, segments, out):
    """Of segments begin to end, a connection that was seen both ways, data is not lost so far."""
    for i in range(begin, end):
        if segments.downlink[i] and segments.payload_len[i] and segments.number[i] != NONE:
            out.probability[i] = 0


@inner
def write_verdicts(observation, lost, distinguishable, out):
    """Probability and evidence of a connection's data packets, into AccessLosses.

    lost bool[n]: which copies the likeliest history lost. What is unproven, not acknowledged and
    not watched is undecided. It counts with the share lost of the others. So does what duplicate
    ACKs alone tell of, if they tell how many were lost and which is anybody's guess. told_apart:
    SACK tells which, or what waited.
    """
    sent, feedback = observation.transmissions, observation.feedback
    decided = decided_lost = unacked_count = unacked_lost = 0
    for k in range(len(sent)):
        tx = sent[k]
        if not tx.has_data:
            continue
        out.probability[tx.segment], out.evidence[tx.segment] = 0, NO_LOSS
        unacked = tx.fate == UNPROVEN and tx.high > feedback.highest_ack
        if unacked and not tx.ack_observable:
            out.evidence[tx.segment] = UNDECIDED
            continue
        if unacked:
            unacked_count += 1
            unacked_lost += lost[k]
        decided += 1
        if lost[k]:
            decided_lost += 1
            out.probability[tx.segment] = 1
            if tx.fate == LOST:
                out.evidence[tx.segment] = BY_ORDER
            elif unacked:
                out.evidence[tx.segment] = BY_SILENCE
            else:
                out.evidence[tx.segment] = BY_SACK if feedback.sack_permitted else BY_DUP_ACKS
    only_count_known = not distinguishable and 0 < unacked_lost < unacked_count
    share = queue.loss_share(decided_lost, decided)
    for k in range(len(sent)):
        tx = sent[k]
        if out.evidence[tx.segment] == UNDECIDED:
            out.probability[tx.segment] = share
        elif (
            only_count_known
            and tx.has_data
            and tx.fate == UNPROVEN
            and tx.high > feedback.highest_ack
        ):
            out.evidence[tx.segment] = UNDECIDED
            out.probability[tx.segment] = unacked_lost / unacked_count


@inner
def write_overflow_probabilities(sent, traffic, path, out):
    """What is undecided of a user's copies counts with the probability that the queue had no room:
    of what waited, by the user's Traffic and PATH."""
    for k in range(len(sent)):
        if out.evidence[sent[k].segment] == UNDECIDED:
            backlog = traffic.backlog[sent[k].packet]
            out.probability[sent[k].segment] = link.loss_probability(backlog, path)


@compiled
def access_totals(segments, connections, probability):
    """Totals of Segments and their Connections; probability: see AccessLosses."""
    first = connections.first
    count = len(first) - 1
    has_data, measurable = np.zeros(count, np.bool_), np.ones(count, np.bool_)
    lost, expected = np.zeros(count, np.int64), np.zeros(count)
    for c in range(count):
        for i in range(first[c], first[c + 1]):
            if not segments.downlink[i] or segments.payload_len[i] == 0:
                continue
            has_data[c] = True
            if not np.isnan(probability[i]):
                lost[c] += probability[i] > 0.5
                expected[c] += probability[i]
            elif segments.number[i] >= 0:
                measurable[c] = False
        measurable[c] &= not _begins_in_recovery(first[c], first[c + 1], segments)
    return AccessTotals(has_data, measurable, lost, expected)


@inner
def _begins_in_recovery(begin, end, segments):
    """Whether a connection, segments begin to end, of which the server's SYN was not seen, begins
    amid the repair of what was lost before: data comes that lies below the first seen, or the
    mobile reports data above all that was seen."""
    lowest = highest = NONE
    for i in range(begin, end):
        number = segments.number[i]
        if segments.downlink[i] and segments.tcp_flags[i] & SYN:
            return False
        if number == NONE:
            continue
        if not segments.downlink[i]:
            for k in range(1, np.int64(segments.sack_count[i]), 2):
                edge = unwrap(segments.sack_edges[segments.sack_at[i] + k], number)
                if lowest == NONE or edge > highest:
                    return True
        elif segments.payload_len[i]:
            lowest = number if lowest == NONE else lowest
            if number < lowest:
                return True
            highest = max(highest, number + np.int64(segments.payload_len[i]))
    return False


@compiled
def retransmissions(segments, access, cause):
    """bool[N]: which Segments were retransmitted: those of which AccessLosses know an earlier packet,
    and what had another cause, uint8[N], than to be new (0)."""
    is_retransmission = np.empty(len(cause), np.bool_)
    for i in range(len(cause)):
        is_retransmission[i] = cause[i] != 0 or access.original[i] >= 0
    return is_retransmission


def bottleneck(access, internet):
    """Places in BOTTLENECKS by the packets lost on either side, int64[C] each."""
    return np.select([access + internet == 0, access > internet, internet > access], [0, 1, 2], 3)


def were_needed(access, segments):
    """Whether retransmissions at these segments, int64[K], made good a loss, by AccessLosses: (bool[K]: the
    earlier copy was lost; bool[K]: whether that is decided, and Gi had seen one)."""
    original = access.original[segments]
    lost = access.probability[original]
    decided = ~np.isnan(lost) & (access.evidence[original] != UNDECIDED)
    return lost > 0.5, decided & (original >= 0)
