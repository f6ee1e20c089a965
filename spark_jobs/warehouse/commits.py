"""What is published together, and what is known of it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import xxhash


@dataclass(frozen=True)
class Unit:
    """What is published together: kind is network, capture, made (a file beside the tables, as the
    views), or what is published by day: day (the flows and the tables beside them), leases, marts,
    quality."""

    kind: str
    network: str
    name: str = "all"

    @classmethod
    def of_day(cls, kind: str, network: str, day: datetime.date) -> Unit:
        """A network's day."""
        return cls(kind, network, day.isoformat())

    @property
    def day(self) -> datetime.date:
        """The day of a unit of a day."""
        return datetime.date.fromisoformat(self.name)


class Content(NamedTuple):
    """What tells a file from another: bytes, and their XXH3 in hex."""

    size: int
    xxh3: str


@dataclass(frozen=True)
class Commit:
    """A unit as it was last published: its files (paths under the warehouse's root) with what they
    hold, facts about their making; stored: the files that its rows are in now, which may have those
    of other units, too (see compaction.py)."""

    unit: Unit
    contents: Mapping[str, Content] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    stored: Mapping[str, Content] = field(default_factory=dict)

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of the files to be read, sorted."""
        return tuple(sorted(self.stored))


def content_of(path: Path) -> Content:
    """A file's size and its bytes' hash."""
    digest = xxhash.xxh3_64()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
        return Content(file.tell(), digest.hexdigest())
