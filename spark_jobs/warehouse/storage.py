"""Where a warehouse's files lie: in a folder, or in a bucket of an object store."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Protocol, cast

from spark_jobs.places import ObjectPath, in_bucket, remove_all
from spark_jobs.warehouse import versions
from spark_jobs.warehouse.disk import bytes_in, sync, told_if_full
from spark_jobs.warehouse.files import Staged
from spark_jobs.warehouse.staging import Staging, claim

STAGING, VERSIONS = "_staging", "_views"
VIEWS = "warehouse.duckdb"
DAY_NS = 86_400 * 1_000_000_000
"""A job that writes to a bucket publishes within a day."""
SEEN_S = 60
"""How long a bucket's list is believed."""


class Storage(Protocol):
    """What differs between a folder and a bucket."""

    def staging(self, alone: AbstractContextManager[None]) -> AbstractContextManager[Staging]:
        """A place to write files that nobody reads yet; what is not settled is removed. alone: so
        that one process at a time is at work."""

    def settle(self, files: Iterable[Staged]) -> None:
        """Let files be at their targets, and stay whatever happens."""

    def size(self, target: str) -> int | None:
        """How many bytes a file has; None: it is missing."""

    def files_below(self, folder: str) -> Iterator[str]:
        """The paths under the root of all files in a folder and those in it."""

    def strays(self, targets: Iterable[str]) -> Iterable[str]:
        """Which of these, of which nothing is known, no job is at work on."""

    def hold(self) -> IO[bytes] | None:
        """Keep what the views list until this is closed, where the storage can; see versions.py."""

    def keep_views(self, fresh: Path, since_ns: int) -> None:
        """Know the views that are about to be in place, as long as somebody reads by them."""

    def oldest_open(self, before_ns: int) -> int:
        """Since when somebody may have views open; before_ns at most."""

    def remove_begun(self, before_ns: int) -> None:
        """Remove what jobs began to write before beside the tables and did not end."""


def storage_of(root: Path) -> Storage:
    """What a warehouse's root is."""
    return Bucket(cast(ObjectPath, root)) if in_bucket(root) else Folder(root)


class Folder:
    """A folder of this machine, or of a network's file system."""

    def __init__(self, root: Path):
        self._root = root

    @contextmanager
    def staging(self, alone: AbstractContextManager[None]) -> Iterator[Staging]:
        """See Storage. Raises UserError where the disk is full."""
        folder = self._root / STAGING / uuid.uuid4().hex
        written = 0
        with self.hold() or nullcontext(), told_if_full(self._root, lambda: written):
            with alone:
                owner = claim(folder)
            with owner:
                try:
                    yield Staging(self._root, folder)
                finally:
                    written = bytes_in(folder)
                    shutil.rmtree(folder, ignore_errors=True)

    def settle(self, files: Iterable[Staged]) -> None:
        """See Storage."""
        for staged in files:
            sync(staged.path)
            final = self._root / staged.target
            final.parent.mkdir(parents=True, exist_ok=True)
            staged.path.replace(final)

    def size(self, target: str) -> int | None:
        """See Storage. A Path takes ten times as long, and a run asks for all."""
        try:
            return os.stat(f"{self._root}/{target}").st_size  # noqa: PTH116
        except FileNotFoundError:
            return None

    def files_below(self, folder: str) -> Iterator[str]:
        """See Storage."""
        begin = len(str(self._root)) + 1
        for below, _, names in os.walk(self._root / folder):
            yield from (f"{below[begin:]}/{name}" for name in names)

    def strays(self, targets: Iterable[str]) -> Iterable[str]:
        """See Storage: all, for the others are in STAGING."""
        return targets

    def hold(self) -> IO[bytes] | None:
        """See Storage."""
        return versions.hold(self._root / VIEWS)

    def keep_views(self, fresh: Path, since_ns: int) -> None:
        """See Storage."""
        versions.keep(fresh, self._root / VERSIONS, since_ns)

    def oldest_open(self, before_ns: int) -> int:
        """See Storage."""
        return versions.oldest_open(self._root / VERSIONS, before_ns)

    def remove_begun(self, before_ns: int) -> None:
        """See Storage and disk.replacing."""
        for begun in self._root.glob(".*"):
            if begun.is_file() and begun.stat().st_mtime_ns < before_ns:
                begun.unlink(missing_ok=True)


class Bucket:
    """What lies in a bucket below a key. Files are written where they will be, for nobody reads
    what the journal does not list; who reads is not known, so that only the grace time is left to
    them."""

    def __init__(self, root: ObjectPath):
        self._root = root
        self._settled: set[Staged] = set()
        self._sizes: dict[str, int] = {}
        self._seen_s: float | None = None

    @contextmanager
    def staging(self, alone: AbstractContextManager[None]) -> Iterator[Staging]:
        """See Storage."""
        with tempfile.TemporaryDirectory(prefix="giscope-") as folder:
            staging = Staging(cast(Path, self._root), Path(folder))
            try:
                yield staging
            except BaseException:
                remove_all([s.path for s in staging.given if s not in self._settled])
                raise

    def settle(self, files: Iterable[Staged]) -> None:
        """See Storage: they are there."""
        self._settled.update(files)

    def size(self, target: str) -> int | None:
        """See Storage: of all at once, as they were a little ago."""
        now_s = time.monotonic()
        if self._seen_s is None or now_s - self._seen_s > SEEN_S:
            self._sizes = {path: status.st_size for path, status in self._root.tree()}
            self._seen_s = now_s
        if target not in self._sizes:
            try:
                self._sizes[target] = (self._root / target).stat().st_size
            except FileNotFoundError:
                return None
        return self._sizes[target]

    def files_below(self, folder: str) -> Iterator[str]:
        """See Storage."""
        return (f"{folder}/{path}" for path, _ in (self._root / folder).tree())

    def strays(self, targets: Iterable[str]) -> Iterable[str]:
        """See Storage: those of yesterday."""
        asked, before_ns = set(targets), time.time_ns() - DAY_NS
        return [
            path
            for path, status in self._root.tree()
            if path in asked and status.st_mtime_ns < before_ns
        ]

    def hold(self) -> None:
        """See Storage."""

    def keep_views(self, fresh: Path, since_ns: int) -> None:
        """See Storage."""

    def oldest_open(self, before_ns: int) -> int:
        """See Storage."""
        return before_ns

    def remove_begun(self, before_ns: int) -> None:
        """See Storage: objects are there whole or not at all."""
