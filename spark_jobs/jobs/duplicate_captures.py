"""Detection of captures that hold the same packets, so that each packet counts once.

The job compares two captures of a network if they overlap in time. It compares their samples (see
capture/packet_sample.py), or all packets if the smaller capture has too few for a sample. If the
other capture has most packets of the smaller one, one capture is a duplicate of the other, or of a
part of it. A smaller overlap is legitimate: captures that follow each other overlap by a few
seconds. Packets that two mirrored ports both captured have different times, so this job does not
match them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas import INGEST_LOG, PACKETS
from spark_jobs.capture import FrontEnd
from spark_jobs.errors import UserError
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import PublishedUnit

if TYPE_CHECKING:
    import numpy as np

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
    facts: the facts of its unit in the catalog
    paths: the files with its packets
    sample: its sample (see capture/sketch.py)
    """

    name: str
    facts: dict[str, Any]
    paths: list[Path]
    sample: np.ndarray


@dataclass(frozen=True)
class Overlap:
    """An older capture, and which shares of its packets and of the new capture's both have."""

    commit: PublishedUnit
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
    overlaps = []
    for commit in _overlapping_in_time(others, new):
        old = _capture_packets(warehouse, commit)
        old_share, new_share = _shared_shares(old, new)
        if _is_packet_log(old) != _is_packet_log(new) and old_share:
            raise DuplicateCaptureError(
                f"{path}: holds packets of {commit.unit.name}, which is ingested already; "
                "a capture and a log of the same packets would count them twice",
                commit.unit.name,
                new_share,
            )
        if max(old_share, new_share) > DUPLICATE_SHARE:
            overlaps.append(Overlap(commit, old_share, new_share))
    if not overlaps:
        return []
    if all(overlap.old_share >= NEARLY_ALL for overlap in overlaps):
        if _has_more_values(new.facts, [overlap.commit.facts for overlap in overlaps]):
            return [overlap.commit for overlap in overlaps]
    names = [overlap.commit.unit.name for overlap in overlaps]
    share = min(1.0, sum(overlap.new_share for overlap in overlaps))
    raise DuplicateCaptureError(
        f"{path}: {share:.0%} of its packets are in {', '.join(names)}, ingested already",
        names[0],
        share,
    )


def _overlapping_in_time(
    others: list[PublishedUnit], new: CapturePackets
) -> Iterator[PublishedUnit]:
    """Yield the captures and packet logs that overlap in time with a new one."""
    for commit in others:
        facts = commit.facts
        if not facts["packets"] or "first_us" not in facts or not new.facts["packets"]:
            continue
        if facts["first_us"] <= new.facts["last_us"] and new.facts["first_us"] <= facts["last_us"]:
            yield commit


def _is_packet_log(capture: CapturePackets) -> bool:
    return capture.facts.get("front_end") == FrontEnd.ZEEK_LOG


def _has_more_values(new: dict[str, Any], old: list[dict[str, Any]]) -> bool:
    """Return whether a capture has more values than some other captures together.

    A capture has more values if it has more packets, or more values of each packet. Earlier
    versions did not count values. If one of them ingested a capture, the numbers of packets are
    compared instead.
    """
    unit = "values" if all("values" in facts for facts in old) else "packets"
    return new[unit] > sum(facts[unit] for facts in old)


def _capture_packets(warehouse: Warehouse, commit: PublishedUnit) -> CapturePackets:
    from spark_jobs.capture.packet_sample import METADATA_KEY, decode_sample, make_sample
    from spark_jobs.warehouse.compaction import capture_metadata

    paths = warehouse.unit_files(commit, PACKETS)
    (log,) = warehouse.unit_files(commit, INGEST_LOG)
    name = commit.unit.name
    stored_sample = capture_metadata(log, name).get(METADATA_KEY)
    # Earlier versions did not store samples.
    sample = (
        make_sample(_read_packet_keys(name, paths, commit.facts))
        if stored_sample is None
        else decode_sample(stored_sample)
    )
    return CapturePackets(name, commit.facts, paths, sample)


def _shared_shares(a: CapturePackets, b: CapturePackets) -> tuple[float, float]:
    """Return the shares of a's packets and of b's packets that both captures have."""
    import numpy as np

    smaller, larger = sorted((a, b), key=lambda capture: capture.facts["packets"])
    if len(smaller.sample) >= MIN_SAMPLE_PACKETS:
        sizes = len(smaller.sample), len(larger.sample)
        shared = len(np.intersect1d(a.sample, b.sample, assume_unique=True))
    else:
        sizes = smaller.facts["packets"], larger.facts["packets"]
        shared = _count_shared(smaller, larger)
    shares = shared / sizes[0], shared / sizes[1]
    return shares if smaller is a else shares[::-1]


def _count_shared(smaller: CapturePackets, larger: CapturePackets) -> int:
    """Return how many packets of the smaller capture the larger one has."""
    import numpy as np

    limits = smaller.facts
    smaller_keys = np.concatenate(list(_read_packet_keys(smaller.name, smaller.paths, limits)))
    larger_keys = _read_packet_keys(larger.name, larger.paths, limits)
    return sum(int(np.isin(keys, smaller_keys).sum()) for keys in larger_keys)


def _read_packet_keys(
    capture: str, paths: list[Path], limits: dict[str, Any]
) -> Iterator[np.ndarray]:
    """Yield the keys of a capture's packets, row group by row group.

    limits: facts whose first_us and last_us bound the packets' times.
    """
    from spark_jobs.capture.packet_sample import KEY_COLUMNS, packet_keys
    from spark_jobs.warehouse.row_groups import read_between

    rows = read_between(paths, capture, [*KEY_COLUMNS], limits["first_us"], limits["last_us"])
    return map(packet_keys, rows)
