"""Captures that hold the same packets: one of them counts.

Two captures of a network that overlap in time are compared by their samples (see capture/packet_sample.py)
or, where the smaller one has too few packets for that, by all of its packets. Where most packets of
the smaller one are in the other, one is a copy of the other, or of a part of it. What is shared
less is another matter: captures that follow each other overlap by a few seconds, and what two
mirrored ports copy has other times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas import INGEST_LOG, PACKETS
from spark_jobs.capture import FrontEnd
from spark_jobs.errors import UserError
from spark_jobs.warehouse import PublishedUnit, Warehouse

if TYPE_CHECKING:
    import numpy as np

MOST = 0.5
"""Of the smaller capture's packets: from there on it is a copy."""
NEARLY_ALL = 0.95
"""Of a capture's packets: without these, another one does not stand for it."""
ENOUGH = 64
"""Sampled packets that tell which share of a capture is in another one."""


class CopyError(UserError):
    """Packets of the file are in other captures already; of: the first of these, where they have
    nearly all of its packets."""

    def __init__(self, message: str, of: str, share: float = 1):
        super().__init__(message)
        self.of = of if share >= NEARLY_ALL else None


@dataclass(frozen=True)
class Packets:
    """What is compared of a capture: its name, what its commit says, the files that its packets are
    in, its sample."""

    name: str
    facts: dict[str, Any]
    paths: list[Path]
    sample: np.ndarray


@dataclass(frozen=True)
class Overlap:
    """An older capture, and which shares of its packets and of the new one's both have."""

    commit: PublishedUnit
    of_old: float
    of_new: float


def captures_replaced(
    warehouse: Warehouse, others: list[PublishedUnit], path: Path, new: Packets
) -> list[PublishedUnit]:
    """Those of the network's other captures whose place a new one takes, read from `path`: it has
    nearly all of their packets, and says more than they do.

    Raises CopyError where it is the new one that is left out.
    """
    overlaps = []
    for commit in _of_the_same_time(others, new):
        old = _packets_of(warehouse, commit)
        of_old, of_new = _shared(old, new)
        if _is_log(old) != _is_log(new) and of_old:
            raise CopyError(
                f"{path}: holds packets of {commit.unit.name}, which is ingested already; "
                "a capture and a log of the same packets would count them twice",
                commit.unit.name,
                of_new,
            )
        if max(of_old, of_new) > MOST:
            overlaps.append(Overlap(commit, of_old, of_new))
    if not overlaps:
        return []
    if all(overlap.of_old >= NEARLY_ALL for overlap in overlaps):
        if _says_more(new.facts, [overlap.commit.facts for overlap in overlaps]):
            return [overlap.commit for overlap in overlaps]
    names = [overlap.commit.unit.name for overlap in overlaps]
    share = min(1.0, sum(overlap.of_new for overlap in overlaps))
    raise CopyError(
        f"{path}: {share:.0%} of its packets are in {', '.join(names)}, ingested already",
        names[0],
        share,
    )


def _of_the_same_time(others: list[PublishedUnit], new: Packets) -> Iterator[PublishedUnit]:
    """The captures and packet logs that overlap in time with a new one."""
    for commit in others:
        facts = commit.facts
        if not facts["packets"] or "first_us" not in facts or not new.facts["packets"]:
            continue
        if facts["first_us"] <= new.facts["last_us"] and new.facts["first_us"] <= facts["last_us"]:
            yield commit


def _is_log(capture: Packets) -> bool:
    return capture.facts.get("front_end") == FrontEnd.ZEEK_LOG


def _says_more(new: dict[str, Any], old: list[dict[str, Any]]) -> bool:
    """Whether a capture has more values than some others together: more packets, or more of each.
    Captures ingested before values were counted are compared by packets."""
    what = "values" if all("values" in facts for facts in old) else "packets"
    return new[what] > sum(facts[what] for facts in old)


def _packets_of(warehouse: Warehouse, commit: PublishedUnit) -> Packets:
    from spark_jobs.capture.packet_sample import METADATA_KEY, decode_sample, make_sample
    from spark_jobs.warehouse.compaction import capture_metadata

    paths = warehouse.unit_files(commit, PACKETS)
    (log,) = warehouse.unit_files(commit, INGEST_LOG)
    name = commit.unit.name
    kept = capture_metadata(log, name).get(METADATA_KEY)
    # Captures that were ingested before samples were kept have none.
    sample = make_sample(_keys(name, paths, commit.facts)) if kept is None else decode_sample(kept)
    return Packets(name, commit.facts, paths, sample)


def _shared(a: Packets, b: Packets) -> tuple[float, float]:
    """Which share of either one's packets both have."""
    import numpy as np

    smaller, larger = sorted((a, b), key=lambda capture: capture.facts["packets"])
    if len(smaller.sample) >= ENOUGH:
        sizes = len(smaller.sample), len(larger.sample)
        both = len(np.intersect1d(a.sample, b.sample, assume_unique=True))
    else:
        sizes = smaller.facts["packets"], larger.facts["packets"]
        both = _count_shared(smaller, larger)
    shares = both / sizes[0], both / sizes[1]
    return shares if smaller is a else shares[::-1]


def _count_shared(smaller: Packets, larger: Packets) -> int:
    """How many packets of the smaller capture the larger one has."""
    import numpy as np

    times = smaller.facts
    mine = np.concatenate(list(_keys(smaller.name, smaller.paths, times)))
    theirs = _keys(larger.name, larger.paths, times)
    return sum(int(np.isin(keys, mine).sum()) for keys in theirs)


def _keys(capture: str, paths: list[Path], times: dict[str, Any]) -> Iterator[np.ndarray]:
    """The keys of a capture's packets between the first and last of one, a row group at a time."""
    from spark_jobs.capture.packet_sample import KEY_COLUMNS, packet_keys
    from spark_jobs.warehouse.files import read_between

    rows = read_between(paths, capture, [*KEY_COLUMNS], times["first_us"], times["last_us"])
    return map(packet_keys, rows)
