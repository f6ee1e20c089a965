"""An SQLite file in a bucket, and locks there: what a catalog needs where there is no server.

Each process works on a copy of the file. A change is made to a copy, which takes the place of the
file in the bucket if that is still the one which was copied: the store's conditional writes decide,
so that none is lost whoever writes. A lock is an object; who holds it renews it, and one that is
not renewed has lost its owner.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, RLock, Thread

from spark_jobs.errors import UserError
from spark_jobs.places import ConflictError, read_if_changed, write_if_unchanged
from spark_jobs.warehouse.database import Session, SQLite
from spark_jobs.warehouse.disk import file_name

FRESH_S = 1.0
"""How long a copy is taken for what is in the bucket, but for changes and under locks."""
POLL_S = 0.2
RENEWED_S, LOST_S = 10.0, 45.0
"""How often a lock is renewed, and after which silence it is nobody's."""


class BucketSQLite:
    """See Database."""

    def __init__(self, path: Path, locks: Path, tables: tuple[str, ...]):
        self._path, self._locks, self._tables = path, locks, tables
        self._lock = RLock()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._copy: SQLite | None = None
        self._file = Path()
        self._tag: str | None = None
        self._number = 0
        self._looked_s: float | None = None

    def version(self) -> int | None:
        """See Database."""
        with self._lock:
            self._refresh()
            return self._number if self._copy else None

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """See Database."""
        with self._lock:
            self._refresh()
            assert self._copy
            with self._copy.reading() as session:
                yield session

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """See Database. Raises UserError where another process changed it meanwhile, which can only
        be where this one was held up so long that its lock was taken for lost."""
        with self._lock, self.locked("transaction"):
            self._refresh()
            file, copy = self._new()
            if self._copy:
                shutil.copyfile(self._file, file)
            try:
                with copy.transaction() as session:
                    yield session
                tag = write_if_unchanged(self._path, file.read_bytes(), self._tag)
            except BaseException as error:
                copy.close()
                file.unlink(missing_ok=True)
                if isinstance(error, ConflictError):
                    raise UserError(f"{self._path}: another job changed it; try again") from error
                raise
            self._use(file, copy, tag)

    @contextmanager
    def locked(self, name: str, wait: Callable[[], None] | None = None) -> Iterator[None]:
        """See Database."""
        with held(self._locks / file_name(name), wait):
            self._looked_s = None
            yield

    def _refresh(self) -> None:
        now_s = time.monotonic()
        if self._looked_s is not None and now_s - self._looked_s < FRESH_S:
            return
        with suppress(FileNotFoundError):
            found = read_if_changed(self._path, self._tag)
            if found:
                content, tag = found
                file, copy = self._new()
                file.write_bytes(content)
                self._use(file, copy, tag)
        self._looked_s = now_s

    def _new(self) -> tuple[Path, SQLite]:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="giscope-catalog-")
        file = Path(self._folder.name, f"{uuid.uuid4().hex}.sqlite")
        return file, SQLite(file, file.parent, self._tables)

    def _use(self, file: Path, copy: SQLite, tag: str) -> None:
        if self._copy:
            self._copy.close()
            self._file.unlink()
        self._file, self._copy, self._tag = file, copy, tag
        self._number += 1
        self._looked_s = time.monotonic()


@contextmanager
def held(lock: Path, wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold an object as a lock; wait() is called before another holder is waited for."""
    owner = _Owner(lock)
    owner.take(wait)
    try:
        yield
    finally:
        owner.leave()


class _Owner:
    def __init__(self, lock: Path):
        self._lock, self._tag = lock, ""
        self._taken_s = 0.0
        self._left = Event()
        self._renewing = Thread(target=self._renew, daemon=True)

    def take(self, wait: Callable[[], None] | None) -> None:
        """Wait until it is nobody's; there is no need of equal clocks, for it is watched."""
        seen: str | None = None
        since_s = time.monotonic()
        while not self._taken(None) and not self._lost(seen, since_s):
            tag = self._seen()
            if tag != seen:
                seen, since_s = tag, time.monotonic()
            if wait:
                wait()
                wait = None
            time.sleep(POLL_S)
        self._renewing.start()

    def leave(self) -> None:
        """Let others have it."""
        self._left.set()
        self._renewing.join()
        if time.monotonic() - self._taken_s < 2 * RENEWED_S or self._taken(self._tag):
            self._lock.unlink()  # else it was taken for lost, and is another's

    def _seen(self) -> str | None:
        with suppress(FileNotFoundError):
            found = read_if_changed(self._lock, None)
            return found[1] if found else None
        return None

    def _lost(self, seen: str | None, since_s: float) -> bool:
        return bool(seen) and time.monotonic() - since_s > LOST_S and self._taken(seen)

    def _taken(self, tag: str | None) -> bool:
        now_s = time.monotonic()
        try:
            self._tag = write_if_unchanged(self._lock, uuid.uuid4().bytes, tag)
        except ConflictError:
            return False
        self._taken_s = now_s
        return True

    def _renew(self) -> None:
        while not self._left.wait(RENEWED_S):
            with suppress(OSError):
                if not self._taken(self._tag):
                    return
