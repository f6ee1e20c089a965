"""One capture in several files, plain and compressed, as there are while it is being compressed or
unpacked: the one that has all of it is read."""

from dataclasses import dataclass, field
from pathlib import Path

from spark_jobs.capture.stream import ENDS_WITHIN, CaptureStream, is_compressed
from spark_jobs.capture.untrusted import parsing
from spark_jobs.errors import UserError, in_a_line


@dataclass
class Choice:
    """Which of a capture's files is read. notes: a line for each other one that holds the same, or
    the begin of it; errors: one for each that does not, or that is damaged."""

    taken: Path
    notes: list[str] = field(default_factory=list)
    errors: dict[Path, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Extent:
    """How much of a capture a file has, in bytes that are not compressed; broken: why its
    compressed stream ends too early, if it does."""

    size: int
    compressed: bool
    broken: str = ""

    @property
    def rank(self) -> tuple[int, bool, bool]:
        """The highest is read. Of two of a size a compressed one that passes its checks is known to
        be whole; room for a plain one may have been reserved before it is written."""
        return self.size, not self.broken, self.compressed


def choose(paths: list[Path], ingested: Path | None = None) -> Choice:
    """Which of a capture's files is read: the one that has most of it. ingested: the one that is in
    the warehouse as it is; it stays where the others hold another capture."""
    extents: dict[Path, _Extent] = {}
    errors: dict[Path, str] = {}
    for path in sorted(paths):
        try:
            extents[path] = _extent(path)
        except (UserError, OSError) as error:
            errors[path] = in_a_line(error)
    if not extents:
        taken, *others = errors
        return Choice(taken, errors={path: errors[path] for path in others})
    taken = max(extents, key=lambda path: extents[path].rank)
    if ingested in extents and not _begin_alike(ingested, taken):
        taken = ingested
    choice = Choice(taken, errors=errors)
    for path, extent in extents.items():
        if path == taken:
            continue
        if extent.broken not in ("", ENDS_WITHIN):
            choice.errors[path] = f"{path}: left out, for {taken} is there: {extent.broken}"
        elif _begin_alike(path, taken):
            has = "all" if extent.size == extents[taken].size else "the begin"
            choice.notes.append(f"{path}: left out: {taken} is read, of which it holds {has}")
        else:
            choice.errors[path] = (
                f"{path}: has the same capture name as {taken}, and other content: rename one"
            )
    return choice


def _extent(path: Path) -> _Extent:
    if not is_compressed(path):
        return _Extent(path.stat().st_size, False)
    with parsing(path), CaptureStream(path) as stream:
        for _ in stream.rest():
            pass
        return _Extent(stream.place, True, stream.broken)


def _begin_alike(one: Path, other: Path) -> bool:
    """Whether the shorter of two files is the begin of the longer one, both uncompressed."""
    if one == other:
        return True
    with parsing(one), CaptureStream(one) as a, CaptureStream(other) as b:
        pairs = zip(a.rest(), b.rest(), strict=False)  # the ends of both are pieces of one size
        return all(x.startswith(y) or y.startswith(x) for x, y in pairs)
