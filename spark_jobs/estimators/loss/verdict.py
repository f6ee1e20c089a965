"""Results for each downlink packet on the access side: loss probabilities, evidence, sums."""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import compiled, inner, making
from spark_jobs.estimators.loss import link, queue
from spark_jobs.estimators.loss.observation import LOST, UNPROVEN
from spark_jobs.estimators.sequence import NONE, unwrap
from spark_jobs.estimators.tcp import SYN

NO_LOSS, BY_ORDER, BY_SACK, BY_DUP_ACKS, BY_SILENCE, COUNTED, UNDECIDED = range(7)
EVIDENCE = ("none", "order", "sack", "dup_acks", "silence", "counted", "undecided")
"""The names of the evidence for a loss.

order: order alone; sack, dup_acks: the ACKs of a receiver with SACK, without SACK; silence: no ACK
came; counted: ACKs show how many of several were lost, but not which; undecided: there is none yet.
"""

BOTTLENECKS = ("none", "access", "internet", "equal")
"""The side on which a connection lost more packets (INFOCOM V)."""


class AccessLosses(NamedTuple):
    """Losses on the access side among N segments, in connection order."""

    probability: np.ndarray
    """float32[N]: probability of a loss (NaN: no downlink data, or Gi saw no uplink packets)."""
    evidence: np.ndarray
    """uint8[N]: index into EVIDENCE, for likely losses."""
    original: np.ndarray
    """int64[N]: the previous segment that carried some of the same data (-1: none)."""
    paths: np.ndarray
    """PATH[U]: each user's path, with the queue inferred from the losses."""


class AccessTotals(NamedTuple):
    """Losses on the access side among the downlink data of C connections."""

    has_data: np.ndarray
    """bool[C]: whether there is downlink data."""
    measurable: np.ndarray
    """bool[C]: whether the loss probability of all downlink data is known."""
    lost: np.ndarray
    """int64[C]: packets lost."""
    expected: np.ndarray
    """float64[C]: expected losses."""
    undecided: np.ndarray
    """int64[C]: packets whose loss nothing decides."""
    undecided_expected: np.ndarray
    """float64[C]: expected losses among these."""


@making
def initial_losses(segments, paths):
    """Return the AccessLosses of Segments before any decision; paths: PATH[U]."""
    n = len(segments.ts)
    return AccessLosses(
        np.full(n, np.nan, np.float32),
        np.zeros(n, np.uint8),
        np.full(n, np.int64(-1)),
        paths.copy(),
    )


@inner
def mark_measurable(begin, end, segments, out):
    """Set the loss probability of a connection's downlink data to 0, until a loss is found.

    The segments are [begin, end). Gi saw both directions of the connection.
    """
    for i in range(begin, end):
        if segments.downlink[i] and segments.payload_len[i] and segments.number[i] != NONE:
            out.probability[i] = 0


@inner
def write_verdicts(observation, lost, distinguishable, out):
    """Write the loss probability and the evidence of a connection's data packets to AccessLosses.

    lost bool[n]: which transmissions the likeliest history lost. distinguishable: SACK or the
    backlog shows which ones these are.

    A transmission is undecided if its fate is unproven, its data is not acknowledged, and its ACK
    would come too late to be seen. It counts with the share lost among the others. Transmissions
    are counted if duplicate ACKs show how many of them were lost, but nothing shows which.
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
            out.evidence[tx.segment] = COUNTED
            out.probability[tx.segment] = unacked_lost / unacked_count


@inner
def write_overflow_probabilities(sent, traffic, path, out):
    """Set the loss probability of a user's undecided transmissions to that of a full queue.

    The probability depends on the backlog in the user's Traffic and on the user's PATH.
    """
    for k in range(len(sent)):
        if out.evidence[sent[k].segment] == UNDECIDED:
            backlog = traffic.backlog[sent[k].packet]
            out.probability[sent[k].segment] = link.loss_probability(backlog, path)


@compiled
def access_totals(segments, connections, access):
    """Return the AccessTotals of Segments and their Connections, from AccessLosses."""
    first = connections.first
    count = len(first) - 1
    has_data, measurable = np.zeros(count, np.bool_), np.ones(count, np.bool_)
    lost, expected = np.zeros(count, np.int64), np.zeros(count)
    undecided, undecided_expected = np.zeros(count, np.int64), np.zeros(count)
    for c in range(count):
        for i in range(first[c], first[c + 1]):
            if not segments.downlink[i] or segments.payload_len[i] == 0:
                continue
            has_data[c] = True
            probability = access.probability[i]
            if not np.isnan(probability):
                lost[c] += probability > 0.5
                expected[c] += probability
                if access.evidence[i] == UNDECIDED:
                    undecided[c] += 1
                    undecided_expected[c] += probability
            elif segments.number[i] >= 0:
                measurable[c] = False
        measurable[c] &= not _begins_in_recovery(first[c], first[c + 1], segments)
    return AccessTotals(has_data, measurable, lost, expected, undecided, undecided_expected)


@inner
def _begins_in_recovery(begin, end, segments):
    """Return whether a connection begins amid a recovery from earlier losses.

    Its segments are [begin, end). This is possible if Gi did not see the server's SYN. It is so if
    data comes that lies below the first data seen, or if the mobile reports data above all data
    seen.
    """
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
    """Return which Segments are retransmissions, bool[N].

    These are the segments for which AccessLosses has an earlier packet, and those with a cause,
    uint8[N], other than 0 (new data).
    """
    is_retransmission = np.empty(len(cause), np.bool_)
    for i in range(len(cause)):
        is_retransmission[i] = cause[i] != 0 or access.original[i] >= 0
    return is_retransmission


def bottleneck(access, internet):
    """Return indices into BOTTLENECKS, by the packets lost on either side, int64[C] each."""
    return np.select([access + internet == 0, access > internet, internet > access], [0, 1, 2], 3)


def were_needed(access, segments):
    """Return whether retransmissions repaired a loss, by AccessLosses.

    segments int64[K]: the retransmissions. Returns two bool[K]: whether the earlier transmission
    was lost, and whether that is decided (and Gi saw an earlier transmission).
    """
    original = access.original[segments]
    lost = access.probability[original]
    decided = ~np.isnan(lost) & (access.evidence[original] < COUNTED)
    return lost > 0.5, decided & (original >= 0)
