"""What is published together, and what its commit file says of it."""

from __future__ import annotations

import datetime
import json
from dataclasses import asdict, dataclass, field
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
    """A unit as it was last published: its files (relative paths), what they hold (not known of
    those of early versions), facts about their making."""

    unit: Unit
    files: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    contents: dict[str, Content] = field(default_factory=dict)

    def to_json(self) -> str:
        """As its commit file holds it."""
        files = self.contents or self.files
        return json.dumps(
            {"unit": asdict(self.unit), "files": files, "facts": self.facts}, indent=1
        )

    @classmethod
    def from_json(cls, text: str) -> Commit:
        """What to_json wrote, now or in an early version."""
        read = json.loads(text)
        files, known = read["files"], isinstance(read["files"], dict)
        contents = {name: Content(*content) for name, content in files.items()} if known else {}
        return cls(Unit(**read["unit"]), tuple(files), read["facts"], contents)


def content_of(path: Path) -> Content:
    """A file's size and its bytes' hash."""
    digest = xxhash.xxh3_64()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
        return Content(file.tell(), digest.hexdigest())
