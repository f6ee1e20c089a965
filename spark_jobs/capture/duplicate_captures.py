"""Detection of captures that hold the same packets, so that each packet counts once.

Two captures of a network are compared if they overlap in time. Their samples are compared (see
packet_sample.py), or all packets if the smaller capture has too few for a sample. If the other
capture has most packets of the smaller one, one capture is a duplicate of the other, or of a part
of it. A smaller overlap is legitimate: captures that follow each other overlap by a few seconds.
Packets that two mirrored ports both captured have different times, so they do not match.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from schemas import PACKETS
from spark_jobs.base.errors import UserError
from spark_jobs.capture import FrontEnd
from spark_jobs.capture.ingest_log import stored_sample
from spark_jobs.warehouse.facts import CaptureFacts
from spark_jobs.warehouse.row_groups import read_between
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import PublishedUnit

DUPLICATE_SHARE = 0.5
"""Share of the smaller capture's packets above which one capture is a duplicate of the other."""
NEARLY_ALL = 0.95
"""Minimum share of a capture's packets that another capture needs to take its place."""
MIN_SAMPLE_PACKETS = 64
"""Minimum number of sampled packets to estimate the share of a capture that another one has."""


class DuplicateCaptureError(UserError):
    """Error of a file whose packets are in other captures already.

    duplicate_of: the name of the first of these captures; None if it lacks more than a few of the
        packets
    """

    def __init__(self, message: str, duplicate_of: str, share: float = 1):
        super().__init__(message)
        self.duplicate_of = duplicate_of if share >= NEARLY_ALL else None


@dataclass(frozen=True)
class CapturePackets:
    """The data of a capture that are compared with another capture's.

    name: the capture's name
    facts: the capture's facts
    paths: the files with its packets
    sample: its sample (see packet_sample.py)
    """

    name: str
    facts: CaptureFacts
    paths: list[Path]
    sample: np.ndarray

    @property
    def is_packet_log(self) -> bool:
        """Return whether the packets come from a log of Zeek."""
        return self.facts.front_end == FrontEnd.ZEEK_LOG


@dataclass(frozen=True)
class Overlap:
    """An older capture, and which shares of its packets and of the new capture's both have."""

    old: PublishedUnit
    old_share: float
    new_share: float


def find_replaced_captures(
    warehouse: Warehouse, others: list[PublishedUnit], path: Path, new: CapturePackets
) -> list[PublishedUnit]:
    """Return the captures whose place a new one takes, which was read from `path`.

    others: the network's other captures. The new capture takes their place if it has nearly all of
    their packets and more values than they have.

    Raises DuplicateCaptureError if the new capture is the duplicate.
    """
    _reject_same_content(others, path, new.facts.content)
    overlaps = []
    for published in others:
        if not _overlap_in_time(CaptureFacts.of(published), new.facts):
            continue
        old = _capture_packets(warehouse, published)
        old_share, new_share = _shared_shares(old, new)
        if old.is_packet_log != new.is_packet_log and old_share:
            raise DuplicateCaptureError(
                f"{path}: holds packets of {old.name}, which is ingested already; "
                "a capture and a log of the same packets would count them twice",
                old.name,
                new_share,
            )
        if max(old_share, new_share) > DUPLICATE_SHARE:
            overlaps.append(Overlap(published, old_share, new_share))
    if not overlaps:
        return []
    replaced = [overlap.old for overlap in overlaps]
    if all(overlap.old_share >= NEARLY_ALL for overlap in overlaps):
        if _has_more_values(new.facts, [CaptureFacts.of(old) for old in replaced]):
            return replaced
    names = [old.unit.name for old in replaced]
    share = min(1.0, sum(overlap.new_share for overlap in overlaps))
    raise DuplicateCaptureError(
        f"{path}: {share:.0%} of its packets are in {', '.join(names)}, ingested already",
        names[0],
        share,
    )


def _reject_same_content(others: list[PublishedUnit], path: Path, content: str) -> None:
    """Raise DuplicateCaptureError if a capture with rows was read from the same bytes."""
    for published in others:
        facts = CaptureFacts.of(published)
        if facts.rows and facts.content == content:
            raise DuplicateCaptureError(
                f"{path}: holds the same packets as {published.unit.name}, "
                "which is ingested already",
                published.unit.name,
            )


def _overlap_in_time(old: CaptureFacts, new: CaptureFacts) -> bool:
    """Return whether two captures have packets, and the spans of these overlap."""
    if not (old.packets and new.packets and old.span_us and new.span_us):
        return False
    (old_first, old_last), (new_first, new_last) = old.span_us, new.span_us
    return old_first <= new_last and new_first <= old_last


def _has_more_values(new: CaptureFacts, old: list[CaptureFacts]) -> bool:
    """Return whether a capture has more values than some other captures together.

    A capture has more values if it has more packets, or more values of each packet.
    """
    return new.values > sum(facts.values for facts in old)


def _capture_packets(warehouse: Warehouse, published: PublishedUnit) -> CapturePackets:
    name, facts = published.unit.name, CaptureFacts.of(published)
    paths, sample = warehouse.unit_files(published, PACKETS), stored_sample(warehouse, published)
    return CapturePackets(name, facts, paths, sample)


def _shared_shares(a: CapturePackets, b: CapturePackets) -> tuple[float, float]:
    """Return the shares of a's packets and of b's packets that both captures have."""
    smaller, larger = sorted((a, b), key=lambda capture: capture.facts.packets)
    if min(len(a.sample), len(b.sample)) >= MIN_SAMPLE_PACKETS:
        sizes = len(smaller.sample), len(larger.sample)
        shared = len(np.intersect1d(a.sample, b.sample, assume_unique=True))
    else:
        sizes = smaller.facts.packets, larger.facts.packets
        shared = _count_shared(smaller, larger)
    shares = shared / sizes[0], shared / sizes[1]
    return shares if smaller is a else shares[::-1]


def _count_shared(smaller: CapturePackets, larger: CapturePackets) -> int:
    """Return how many packets of the smaller capture the larger one has."""
    limits = smaller.facts
    smaller_keys = np.concatenate([*_read_packet_keys(smaller.name, smaller.paths, limits)])
    larger_keys = _read_packet_keys(larger.name, larger.paths, limits)
    return sum(int(np.isin(keys, smaller_keys).sum()) for keys in larger_keys)


def _read_packet_keys(
    capture: str, paths: list[Path], limits: CaptureFacts
) -> Iterator[np.ndarray]:
    """Yield the keys of a capture's packets, row group by row group.

    limits: facts whose span bounds the packets' times.
    """
    from spark_jobs.capture.packet_sample import KEY_COLUMNS, packet_keys

    assert limits.span_us
    return map(packet_keys, read_between(paths, capture, [*KEY_COLUMNS], *limits.span_us))
