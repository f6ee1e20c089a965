"""Where a warehouse's files lie: in a folder, or in a bucket of an object store."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Protocol, cast

from spark_jobs.errors import UserError
from spark_jobs.places import (
    ConflictError,
    ObjectPath,
    in_object_store,
    remove_all,
    tag_of,
    write_if_unchanged,
)
from spark_jobs.warehouse import versions
from spark_jobs.warehouse.disk import folder_size, replacing, report_full_disk, sync
from spark_jobs.warehouse.files import Staged
from spark_jobs.warehouse.staging import Staging, claim_folder

STAGING, VERSIONS = "_staging", "_views"
VIEWS = "warehouse.duckdb"
LISTING_TTL_S = 60
"""How long a bucket's list is believed."""


class Storage(Protocol):
    """What differs between a folder and a bucket."""

    def staging(self, lock: AbstractContextManager[None]) -> AbstractContextManager[Staging]:
        """A place to write files that nobody reads yet; what is not settled is removed. alone: so
        that one process at a time is at work."""

    def leave_to_catalog(self, files: Iterable[Staged]) -> None:
        """Leave files to the catalog, which is about to name them: from now on they are removed
        only as it says. Whether it names them is not certain if its answer is lost."""

    def remove_staged(self, files: Iterable[Staged]) -> None:
        """Remove staged files, but for those that are entrusted to the catalog."""

    def move_to_targets(self, files: Iterable[Staged]) -> None:
        """Let files be at their targets, and stay whatever happens."""

    def size(self, target: str) -> int | None:
        """How many bytes a file has; None: it is missing."""

    def files_below(self, folder: str) -> Iterator[str]:
        """The paths under the root of all files in a folder and those in it."""

    def changed_before(self, targets: Iterable[str], ns: int) -> set[str]:
        """Which of these files were last written before a time (ns since 1970)."""

    def lock_version(self) -> IO[bytes] | None:
        """Keep what the views list until this is closed, where the storage can; see versions.py."""

    def views_tag(self) -> str | None:
        """What tells the views that are in place from others."""

    def replace_views(self, new: Path, since_ns: int, tag: str | None) -> None:
        """Put views in place, and know them as long as somebody reads by them; seen: which they
        replace. Raises UserError if others are in place by now."""

    def oldest_open_ns(self, before_ns: int) -> int:
        """Since when somebody may have views open; before_ns at most."""

    def remove_temporary_files(self, before_ns: int) -> None:
        """Remove what jobs began to write before beside the tables and did not end."""


def storage_of(root: Path) -> Storage:
    """What a warehouse's root is."""
    return ObjectStore(cast(ObjectPath, root)) if in_object_store(root) else Folder(root)


class Folder:
    """A folder of this machine, or of a network's file system."""

    def __init__(self, root: Path):
        self._root = root

    @contextmanager
    def staging(self, lock: AbstractContextManager[None]) -> Iterator[Staging]:
        """See Storage. Raises UserError where the disk is full."""
        folder = self._root / STAGING / uuid.uuid4().hex
        written = 0
        with self.lock_version() or nullcontext(), report_full_disk(self._root, lambda: written):
            with lock:
                owner = claim_folder(folder)
            with owner:
                try:
                    yield Staging(self._root, folder)
                finally:
                    written = folder_size(folder)
                    shutil.rmtree(folder, ignore_errors=True)

    def leave_to_catalog(self, files: Iterable[Staged]) -> None:
        """See Storage: what the catalog names lies elsewhere."""

    def remove_staged(self, files: Iterable[Staged]) -> None:
        """See Storage."""
        remove_all(staged.path for staged in files)

    def move_to_targets(self, files: Iterable[Staged]) -> None:
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

    def changed_before(self, targets: Iterable[str], ns: int) -> set[str]:
        """See Storage."""
        found = set()
        for target in targets:
            with suppress(FileNotFoundError):
                if (self._root / target).stat().st_mtime_ns < ns:
                    found.add(target)
        return found

    def lock_version(self) -> IO[bytes] | None:
        """See Storage."""
        return versions.lock(self._root / VIEWS)

    def views_tag(self) -> None:
        """See Storage: a lock holds until its holder ends."""

    def replace_views(self, new: Path, since_ns: int, tag: str | None) -> None:
        """See Storage."""
        with replacing(self._root / VIEWS, new.stat().st_size) as temporary:
            shutil.copyfile(new, temporary)
            versions.link(temporary, self._root / VERSIONS, since_ns)

    def oldest_open_ns(self, before_ns: int) -> int:
        """See Storage."""
        return versions.oldest_open_ns(self._root / VERSIONS, before_ns)

    def remove_temporary_files(self, before_ns: int) -> None:
        """See Storage and disk.replacing."""
        for temporary in self._root.glob(".*"):
            if temporary.is_file() and temporary.stat().st_mtime_ns < before_ns:
                temporary.unlink(missing_ok=True)


class ObjectStore:
    """What lies in a bucket below a key. Files are written where they will be, for nobody reads
    what the journal does not list; who reads is not known, so that only the grace time is left to
    them."""

    def __init__(self, root: ObjectPath):
        self._root = root
        self._left_to_catalog: set[Staged] = set()
        self._sizes: dict[str, int] = {}
        self._listed_s: float | None = None

    @contextmanager
    def staging(self, lock: AbstractContextManager[None]) -> Iterator[Staging]:
        """See Storage."""
        with tempfile.TemporaryDirectory(prefix="giscope-") as folder:
            staging = Staging(cast(Path, self._root), Path(folder))
            try:
                yield staging
            except BaseException:
                self.remove_staged(staging.assigned)
                raise

    def leave_to_catalog(self, files: Iterable[Staged]) -> None:
        """See Storage."""
        self._left_to_catalog.update(files)

    def remove_staged(self, files: Iterable[Staged]) -> None:
        """See Storage."""
        remove_all([staged.path for staged in files if staged not in self._left_to_catalog])

    def move_to_targets(self, files: Iterable[Staged]) -> None:
        """See Storage: they are there."""

    def size(self, target: str) -> int | None:
        """See Storage: of all at once, as they were a little ago."""
        now_s = time.monotonic()
        if self._listed_s is None or now_s - self._listed_s > LISTING_TTL_S:
            self._sizes = {path: status.st_size for path, status in self._root.walk()}
            self._listed_s = now_s
        if target not in self._sizes:
            try:
                self._sizes[target] = (self._root / target).stat().st_size
            except FileNotFoundError:
                return None
        return self._sizes[target]

    def files_below(self, folder: str) -> Iterator[str]:
        """See Storage."""
        return (f"{folder}/{path}" for path, _ in (self._root / folder).walk())

    def changed_before(self, targets: Iterable[str], ns: int) -> set[str]:
        """See Storage."""
        wanted = set(targets)
        return {p for p, status in self._root.walk() if p in wanted and status.st_mtime_ns < ns}

    def lock_version(self) -> None:
        """See Storage."""

    def views_tag(self) -> str | None:
        """See Storage."""
        return tag_of(cast(Path, self._root / VIEWS))

    def replace_views(self, new: Path, since_ns: int, tag: str | None) -> None:
        """See Storage."""
        views = cast(Path, self._root / VIEWS)
        try:
            write_if_unchanged(views, new.read_bytes(), tag)
        except ConflictError as error:
            raise UserError(f"{views}: another job replaced it meanwhile; run again") from error

    def oldest_open_ns(self, before_ns: int) -> int:
        """See Storage."""
        return before_ns

    def remove_temporary_files(self, before_ns: int) -> None:
        """See Storage: objects are there whole or not at all."""
