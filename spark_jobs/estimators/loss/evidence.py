"""Losses on the Internet side: their records, and the evidence for each."""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import inner, making

EVIDENCE = ("hole", "tail", "skipped", "timeout", "ip_id", "undecided")
"""Names of the rules that decide a loss (see `internet`)."""
HOLE, TAIL, SKIPPED, TIMEOUT, IP_ID, UNDECIDED = np.arange(len(EVIDENCE))

NO_PACKET = np.int64(-1)
"""Index of a packet that does not exist."""

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
"""Data lost on the Internet side.

connection: index of the connection
low: number of its first byte in the stream
length: its length (B)
missed_at: when it was missed (µs)
packets: its length in segments of the connection's maximum size
filler: index of the segment that brought it in the end; or NO_PACKET
shown_by: index of the segment that showed that it was missing
shown_from: number in the stream from which on this segment showed it
evidence: into EVIDENCE
probability: probability that it was lost, not reordered
"""


class LossList(NamedTuple):
    """Losses found so far."""

    rows: np.ndarray
    """LOSS[..], with room for more."""
    size: np.ndarray
    """int64[1]: number of losses."""


class Detection(NamedTuple):
    """Detection of a loss, with the same fields as LOSS."""

    missed_at: np.int64
    """When it was missed (µs)."""
    shown_by: np.int64
    """Index of the segment that showed it."""
    shown_from: np.int64
    """Number in the stream from which on this segment showed it."""
    filler: np.int64
    """Index of the segment that brought it in the end, or NO_PACKET."""


@inner
def add_loss(losses, low, high, detection, evidence, probability):
    """Add the loss of [low, high) to a LossList; detection: Detection."""
    loss = losses.rows[losses.size[0]]
    loss.low, loss.length = low, high - low
    loss.missed_at, loss.filler = detection.missed_at, detection.filler
    loss.shown_by, loss.shown_from = detection.shown_by, detection.shown_from
    loss.evidence, loss.probability = evidence, probability
    losses.size[0] += 1


@making
def enlarged(losses):
    """Return the LossList with twice the room."""
    more = np.empty(len(losses.rows), LOSS)
    return LossList(np.concatenate((losses.rows, more)), losses.size)
