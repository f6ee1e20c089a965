"""Losses on the Internet side, as they are found."""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import inner, making

EVIDENCE = ("hole", "tail", "skipped", "timeout", "ip_id", "undecided")
HOLE, TAIL, SKIPPED, TIMEOUT, IP_ID, UNDECIDED = np.arange(len(EVIDENCE))

NO_PACKET = np.int64(-1)
"""No packet brought what was lost."""

LOSS = np.dtype(
    [
        ("connection", "i8"),
        ("low", "i8"),
        ("length", "i8"),
        ("missed_at", "i8"),
        ("packets", "i8"),
        ("filler", "i8"),
        ("shown_by", "i8"),
        ("shown_from", "i8"),
        ("evidence", "u1"),
        ("probability", "f8"),
    ]
)
"""Data lost: of which connection, the stream's number of its first byte, its length (B), when it
was missed (µs), how many of the connection's largest segments it is, the packet that brought it in
the end or -1, the packet that showed that it was missing and the number from which on it did, what
tells of it (into EVIDENCE), the probability that it was lost, not overtaken."""


class LossList(NamedTuple):
    """Losses found so far."""

    losses: np.ndarray
    """LOSS[..], the first of which are:"""
    count: np.ndarray
    """int64[1]: so many."""


class Detection(NamedTuple):
    """What shows a loss."""

    missed_at: np.int64
    """When it was missed (µs);"""
    shown_by: np.int64
    """the packet that showed it,"""
    shown_from: np.int64
    """the number from which on it did,"""
    filler: np.int64
    """and the one that brought it, or NOTHING."""


@inner
def add_loss(losses, low, high, detection, evidence, probability):
    """Add a loss; by: Shown."""
    loss = losses.losses[losses.count[0]]
    loss.low, loss.length = low, high - low
    loss.missed_at, loss.filler = detection.missed_at, detection.filler
    loss.shown_by, loss.shown_from = detection.shown_by, detection.shown_from
    loss.evidence, loss.probability = evidence, probability
    losses.count[0] += 1


@making
def enlarged(losses):
    """Found with as much room again."""
    more = np.empty(len(losses.losses), LOSS)
    return LossList(np.concatenate((losses.losses, more)), losses.count)
