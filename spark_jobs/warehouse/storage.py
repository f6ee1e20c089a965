"""The place of a warehouse's files: a folder, or a prefix in an object store."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, cast

from spark_jobs.base.errors import UserError
from spark_jobs.base.places import (
    ConflictError,
    ObjectPath,
    in_object_store,
    remove_all,
    tag_of,
    write_if_unchanged,
)
from spark_jobs.warehouse import versions
from spark_jobs.warehouse.disk import CHANGE_BYTES, folder_size, replacing, report_full_disk, sync
from spark_jobs.warehouse.files import Staged
from spark_jobs.warehouse.staging import Staging, claim_folder

STAGING, VERSIONS = "_staging", "_views"
VIEWS = "warehouse.duckdb"
LISTING_TTL_S = 60
"""Time for which an object store's listing counts as current (s)."""


def storage_of(root: Path) -> Folder:
    """Return the storage of a warehouse's root."""
    return ObjectStore(root) if in_object_store(root) else Folder(root)


class Folder:
    """A folder of this machine, or of a network file system.

    A target is a file's path below the root.
    """

    def __init__(self, root: Path):
        self._root = root

    @contextmanager
    def staging(self, lock: AbstractContextManager[None]) -> Iterator[Staging]:
        """Return a context with a place to write files that nobody reads yet.

        At its end, files that were not moved to their targets are removed. lock: a context that one
        process at a time enters.
        """
        folder = self._root / STAGING / uuid.uuid4().hex
        written = 0
        with (
            self.lock_version() or nullcontext(),
            report_full_disk(self._root, lambda: written + CHANGE_BYTES),
        ):
            with lock:
                owner = claim_folder(folder)
            with owner:
                try:
                    yield Staging(self._root, folder)
                finally:
                    written = folder_size(folder)
                    shutil.rmtree(folder, ignore_errors=True)

    def leave_to_catalog(self, files: Iterable[Staged]) -> None:
        """Leave it to the catalog alone to decide about files, which it is about to register.

        From now on remove_staged() leaves them. If the answer of the catalog's database is lost, it
        is not certain whether the catalog knows them.
        """

    def remove_staged(self, files: Iterable[Staged]) -> None:
        """Remove staged files, except those that were left to the catalog."""
        remove_all(staged.path for staged in files)

    def move_to_targets(self, files: Iterable[Staged]) -> None:
        """Move staged files to their targets, where they stay."""
        for staged in files:
            sync(staged.path)
            final = self._root / staged.target
            final.parent.mkdir(parents=True, exist_ok=True)
            staged.path.replace(final)

    def size(self, target: str) -> int | None:
        """Return a file's size in bytes; None if it is missing."""
        try:  # pathlib takes ten times as long, and a run asks for all files
            return os.stat(f"{self._root}/{target}").st_size  # noqa: PTH116
        except FileNotFoundError:
            return None

    def files_below(self, folder: str) -> Iterator[str]:
        """Yield the targets of all files in a folder and its subfolders."""
        prefix_length = len(str(self._root)) + 1
        for subfolder, _, names in os.walk(self._root / folder):
            yield from (f"{subfolder[prefix_length:]}/{name}" for name in names)

    def changed_before(self, targets: Iterable[str], ns: int) -> set[str]:
        """Return those of the files that were last written before a time (ns since 1970)."""
        found = set()
        for target in targets:
            with suppress(FileNotFoundError):
                if (self._root / target).stat().st_mtime_ns < ns:
                    found.add(target)
        return found

    def lock_version(self) -> IO[bytes] | None:
        """Lock the present version of the views, if the storage can do that; see versions.lock."""
        return versions.lock(self._root / VIEWS)

    def views_tag(self) -> str | None:
        """Return a tag that distinguishes the present views from others; None: a lock does."""
        return None

    def replace_views(self, new: Path, since_ns: int, tag: str | None) -> None:
        """Replace the views, and keep track of the new version as long as somebody reads it.

        tag: that of the views to replace. Raises UserError if others were put there meanwhile.
        """
        with replacing(self._root / VIEWS, new.stat().st_size) as temporary:
            shutil.copyfile(new, temporary)
            versions.link(temporary, self._root / VERSIONS, since_ns)

    def oldest_open_ns(self, before_ns: int) -> int:
        """Return when the oldest version that somebody may have open was published.

        Returns before_ns if that is earlier.
        """
        return versions.oldest_open_ns(self._root / VERSIONS, before_ns)

    def remove_temporary_files(self, before_ns: int) -> None:
        """Remove files beside the tables that jobs began to write before a time and left."""
        for temporary in self._root.glob(".*"):
            if temporary.is_file() and temporary.stat().st_mtime_ns < before_ns:
                temporary.unlink(missing_ok=True)


class ObjectStore(Folder):
    """A prefix in an object store.

    Files are written to their targets, for nobody reads what the catalog does not list. Readers are
    not known, so they only have the grace time.
    """

    def __init__(self, root: Path):
        super().__init__(root)
        self._objects = cast(ObjectPath, root)
        self._left_to_catalog: set[Staged] = set()
        self._sizes: dict[str, int] = {}
        self._listed_s: float | None = None

    @contextmanager
    def staging(self, lock: AbstractContextManager[None]) -> Iterator[Staging]:
        """Implement Folder.staging."""
        with tempfile.TemporaryDirectory(prefix="giscope-") as folder:
            staging = Staging(self._root, Path(folder))
            try:
                yield staging
            except BaseException:
                self.remove_staged(staging.assigned)
                raise

    def leave_to_catalog(self, files: Iterable[Staged]) -> None:
        """Implement Folder.leave_to_catalog."""
        self._left_to_catalog.update(files)

    def remove_staged(self, files: Iterable[Staged]) -> None:
        """Implement Folder.remove_staged."""
        remove_all([staged.path for staged in files if staged not in self._left_to_catalog])

    def move_to_targets(self, files: Iterable[Staged]) -> None:
        """Implement Folder.move_to_targets: they are there already."""

    def size(self, target: str) -> int | None:
        """Implement Folder.size, from a listing that is at most LISTING_TTL_S old."""
        now_s = time.monotonic()
        if self._listed_s is None or now_s - self._listed_s > LISTING_TTL_S:
            self._sizes = {path: status.st_size for path, status in self._objects.walk()}
            self._listed_s = now_s
        if target not in self._sizes:
            try:
                self._sizes[target] = (self._root / target).stat().st_size
            except FileNotFoundError:
                return None
        return self._sizes[target]

    def files_below(self, folder: str) -> Iterator[str]:
        """Implement Folder.files_below."""
        return (f"{folder}/{path}" for path, _ in (self._objects / folder).walk())

    def changed_before(self, targets: Iterable[str], ns: int) -> set[str]:
        """Implement Folder.changed_before."""
        wanted = set(targets)
        return {p for p, status in self._objects.walk() if p in wanted and status.st_mtime_ns < ns}

    def lock_version(self) -> None:
        """Implement Folder.lock_version: there is no lock."""

    def views_tag(self) -> str | None:
        """Implement Folder.views_tag."""
        return tag_of(self._root / VIEWS)

    def replace_views(self, new: Path, since_ns: int, tag: str | None) -> None:
        """Implement Folder.replace_views."""
        views = self._root / VIEWS
        try:
            write_if_unchanged(views, new.read_bytes(), tag)
        except ConflictError as error:
            raise UserError(f"{views}: another job replaced it meanwhile; run again") from error

    def oldest_open_ns(self, before_ns: int) -> int:
        """Implement Folder.oldest_open_ns."""
        return before_ns

    def remove_temporary_files(self, before_ns: int) -> None:
        """Implement Folder.remove_temporary_files: an object is complete, or it does not exist."""
