"""Units, which are published as a whole, and the files and facts of each published unit."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import xxhash


@dataclass(frozen=True)
class Unit:
    """The key of what one transaction publishes as a whole.

    kind: one of

    - network: a network's row of the table of networks
    - capture: the packets and logs of one capture
    - day: the flows of one day, and the tables that are made with them
    - leases, marts, quality: the tables of these names, of one day
    - file: a file beside the tables, such as the views; the name is its path below the root
    - made: a record of the warehouse itself
    - others that only one job knows: forgotten, purged, removal

    network: the network's name, or "all". name: the capture's name, the day, or a name of its own.
    """

    kind: str
    network: str
    name: str = "all"

    @classmethod
    def of_day(cls, kind: str, network: str, day: datetime.date) -> Unit:
        """Return the unit of a network's day."""
        return cls(kind, network, day.isoformat())

    @classmethod
    def of_file(cls, name: str) -> Unit:
        """Return the unit of a file beside the tables."""
        return cls("file", "all", name)

    @property
    def day(self) -> datetime.date:
        """The day of a unit that is published by day."""
        return datetime.date.fromisoformat(self.name)


class Content(NamedTuple):
    """A file's size (bytes) and the XXH3 hash of its bytes (hex), which distinguish it."""

    size: int
    xxh3: str


@dataclass(frozen=True)
class PublishedUnit:
    """A unit as it was last published.

    All paths are below the warehouse's root.

    - contents: the unit's own files as they were published: path -> content
    - facts: what the job recorded about how it made the unit (JSON)
    - stored_in: the files that hold the unit's rows now: path -> content. Such a file may also hold
      rows of other units, if small files were merged (see compaction.py).
    """

    unit: Unit
    contents: Mapping[str, Content] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    stored_in: Mapping[str, Content] = field(default_factory=dict)

    @property
    def files(self) -> tuple[str, ...]:
        """The sorted paths of the files that hold the unit's rows now."""
        return tuple(sorted(self.stored_in))


def fingerprint(*inputs: Any) -> str:
    """Return a hash of inputs, which differs if any of them has changed."""
    return xxhash.xxh3_64_hexdigest(repr(inputs).encode())


def content_of(path: Path) -> Content:
    """Return a file's size and the hash of its bytes."""
    digest = xxhash.xxh3_64()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
        return Content(file.tell(), digest.hexdigest())
