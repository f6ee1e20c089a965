"""Choice among several files of one capture, plain and compressed.

Several files exist while a capture is being compressed or unpacked. The complete one is read.
"""

from dataclasses import dataclass, field
from pathlib import Path

from spark_jobs.base.errors import UserError, in_a_line
from spark_jobs.capture.files import without_compression
from spark_jobs.capture.stream import TRUNCATED_STREAM, CaptureStream, is_compressed
from spark_jobs.capture.untrusted import parsing


@dataclass
class Choice:
    """The file of a capture that is read.

    chosen: the file
    notes: one line for each other file with the same content or its beginning
    errors: one line for each other file with other content, or that is damaged
    """

    chosen: Path
    notes: list[str] = field(default_factory=list)
    errors: dict[Path, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Extent:
    """Extent of a capture that one file holds.

    size: uncompressed bytes
    compressed: whether the file is compressed
    compression_error: why its compressed stream ends early, or empty
    """

    size: int
    compressed: bool
    compression_error: str = ""

    @property
    def rank(self) -> tuple[int, bool, bool]:
        """Return the rank of the file; the file with the highest rank is read.

        Of two files of one size, a compressed one that passes its checks is known to be complete.
        The space of a plain file may have been reserved before the file is written.
        """
        return self.size, not self.compression_error, self.compressed


def choose_file(paths: list[Path], ingested: Path | None = None) -> Choice:
    """Choose which of the files with a capture's name is read: the one that holds most of it.

    ingested: the file that is already in the warehouse unchanged. It stays if the others hold
        another capture. Only files at its place are considered; without it, at the first one's.
    """
    place = without_compression(ingested or paths[0])
    variants = [path for path in paths if without_compression(path) == place]
    choice = _choose_variant(variants, ingested)
    for path in paths:
        if path not in variants:
            choice.errors[path] = (
                f"{path}: has the same capture name as {choice.chosen}: rename one"
            )
    return choice


def _choose_variant(paths: list[Path], ingested: Path | None) -> Choice:
    """Choose among a capture's files, plain and compressed."""
    extents: dict[Path, _Extent] = {}
    errors: dict[Path, str] = {}
    for path in sorted(paths):
        try:
            extents[path] = _extent(path)
        except (UserError, OSError) as error:
            errors[path] = in_a_line(error)
    if not extents:
        chosen, *others = errors
        return Choice(chosen, errors={path: errors[path] for path in others})
    chosen = max(extents, key=lambda path: extents[path].rank)
    if ingested in extents and not _is_prefix(ingested, chosen):
        chosen = ingested
    choice = Choice(chosen, errors=errors)
    for path, extent in extents.items():
        if path == chosen:
            continue
        if extent.compression_error not in ("", TRUNCATED_STREAM):
            choice.errors[path] = (
                f"{path}: skipped: {chosen} is read instead; this file is damaged: "
                f"{extent.compression_error}"
            )
        elif _is_prefix(path, chosen):
            share = "all of it" if extent.size == extents[chosen].size else "its beginning"
            choice.notes.append(
                f"{path}: skipped: {chosen} is read instead; this file holds {share}"
            )
        else:
            choice.errors[path] = (
                f"{path}: has the same capture name as {chosen}, but other content: rename one"
            )
    return choice


def _extent(path: Path) -> _Extent:
    if not is_compressed(path):
        return _Extent(path.stat().st_size, False)
    with parsing(path), CaptureStream(path) as stream:
        for _ in stream.remaining():
            pass
        return _Extent(stream.position, True, stream.compression_error)


def _is_prefix(one: Path, other: Path) -> bool:
    """Return whether the shorter of two files is the beginning of the longer one, uncompressed."""
    if one == other:
        return True
    with parsing(one), CaptureStream(one) as a, CaptureStream(other) as b:
        # Both streams yield pieces of the same size.
        pairs = zip(a.remaining(), b.remaining(), strict=False)
        return all(x.startswith(y) or y.startswith(x) for x, y in pairs)
