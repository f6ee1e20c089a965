"""Losses on the Internet side, as they are found."""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import inner, making

EVIDENCE = ("hole", "tail", "skipped", "timeout", "ip_id", "undecided")
HOLE, TAIL, SKIPPED, TIMEOUT, IP_ID, UNDECIDED = np.arange(len(EVIDENCE))

NOTHING = np.int64(-1)
"""No packet brought what was lost."""

LOSS = np.dtype(
    [
        ("connection", "i8"),
        ("low", "i8"),
        ("length", "i8"),
        ("seen", "i8"),
        ("packets", "i8"),
        ("filler", "i8"),
        ("shown", "i8"),
        ("begin", "i8"),
        ("evidence", "u1"),
        ("probability", "f8"),
    ]
)
"""Data lost: of which connection, the stream's number of its first byte, its length (B), when it
was missed (µs), how many of the connection's largest segments it is, the packet that brought it in
the end or -1, the packet that showed that it was missing and the number from which on it did, what
tells of it (into EVIDENCE), the probability that it was lost, not overtaken."""


class Found(NamedTuple):
    """Losses found so far."""

    losses: np.ndarray
    """LOSS[..], the first of which are:"""
    n: np.ndarray
    """int64[1]: so many."""


class Shown(NamedTuple):
    """What shows a loss."""

    seen: np.int64
    """When it was missed (µs);"""
    shown: np.int64
    """the packet that showed it,"""
    begin: np.int64
    """the number from which on it did,"""
    filler: np.int64
    """and the one that brought it, or NOTHING."""


@inner
def lose(found, low, high, by, evidence, probability):
    """Add a loss; by: Shown."""
    loss = found.losses[found.n[0]]
    loss.low, loss.length = low, high - low
    loss.seen, loss.filler = by.seen, by.filler
    loss.shown, loss.begin = by.shown, by.begin
    loss.evidence, loss.probability = evidence, probability
    found.n[0] += 1


@making
def with_room(found):
    """Found with as much room again."""
    more = np.empty(len(found.losses), LOSS)
    return Found(np.concatenate((found.losses, more)), found.n)
