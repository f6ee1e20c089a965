"""An SQLite file in a bucket, and locks there: what a catalog needs where there is no server.

Each process works on a copy of the file. A change is made to a copy, which takes the place of the
file in the bucket if that is still the one which was copied: the store's conditional writes decide,
so that none is lost whoever writes. Where a write is refused, the file tells whether it was carried
out all the same (see places.write_if_unchanged): it has the numbers of the latest changes.

A lock is an object. Its holder renews it. One that is not renewed for LOST_S may be taken over by
another process, which raises the lock's number in the file (see database.Fences).
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
from spark_jobs.warehouse.database import (
    FENCES,
    Fences,
    Session,
    SQLite,
    fence_number,
    increment_fence,
)
from spark_jobs.warehouse.disk import file_name

COPY_TTL_S = 1.0
"""How long a copy is taken for what is in the bucket, but for changes and under locks."""
POLL_S = 0.2
RENEWAL_S, EXPIRY_S = 10.0, 45.0
"""How often a lock is renewed, and after which silence it is nobody's."""
RELEASED = b""
"""The bytes of a lock that nobody holds. An object cannot be removed on a condition."""
TRANSACTION = "transaction"
"""The lock that needs no fence: the file is replaced on condition."""
MAX_CHANGES = 256
"""So many changes are known by their numbers."""
CHANGES = """create table if not exists giscope_changes (
    change text not null primary key, at bigint not null)"""


class ObjectStoreSQLite:
    """See Database."""

    def __init__(self, path: Path, locks: Path, tables: tuple[str, ...]):
        self._path, self._locks, self._tables = path, locks, (*tables, FENCES, CHANGES)
        self.location, self.in_warehouse = str(path), True
        self._fences = Fences()
        self._lock = RLock()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._copy: SQLite | None = None
        self._file = Path()
        self._tag: str | None = None
        self._number = 0
        self._refreshed_s: float | None = None

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
        """See Database. Raises UserError, too, if another process changed the file meanwhile, which
        can only be where this one stood still so long that its lock was taken over."""
        change = uuid.uuid4().hex
        with self._lock, self.locked(TRANSACTION):
            self._refresh()
            file, copy = self._new_copy()
            if self._copy:
                shutil.copyfile(self._file, file)
            try:
                with copy.transaction() as session:
                    self._fences.check(session, self.location)
                    _record_change(session, change)
                    yield session
                tag = write_if_unchanged(self._path, file.read_bytes(), self._tag)
            except BaseException as error:
                copy.close()
                file.unlink(missing_ok=True)
                if not isinstance(error, ConflictError):
                    raise
                if not self._contains(change):
                    raise UserError(f"{self._path}: another job changed it; try again") from error
                return
            self._replace_copy(file, copy, tag)

    def _contains(self, change: str) -> bool:
        """Whether a change is in the file as it is now in the bucket."""
        self._refreshed_s = None
        with self.reading() as session:
            found = session.execute("select 1 from giscope_changes where change = ?", (change,))
            return bool(found.fetchone())

    @contextmanager
    def locked(self, name: str, wait: Callable[[], None] | None = None) -> Iterator[None]:
        """See Database."""
        with hold_lock(self._locks / file_name(name), wait) as lock:
            self._refreshed_s = None
            if name == TRANSACTION:
                yield
            else:
                with self._fences.holding(name, self._fence_number(name, lock)):
                    yield

    def _fence_number(self, name: str, lock: ObjectLock) -> int:
        """A lock's number from now on. Raises UserError if it is another's by now."""
        if lock.took_over:
            with self.transaction() as session:
                number = increment_fence(session, name)
        else:
            number = 0
            if self.version() is not None:
                with self.reading() as session:
                    number = fence_number(session, name)
        if not lock.is_held():
            raise UserError(
                f"{self.location}: another job took over the lock {name!r}; run it again"
            )
        return number

    def _refresh(self) -> None:
        now_s = time.monotonic()
        if self._refreshed_s is not None and now_s - self._refreshed_s < COPY_TTL_S:
            return
        with suppress(FileNotFoundError):
            found = read_if_changed(self._path, self._tag)
            if found:
                content, tag = found
                file, copy = self._new_copy()
                file.write_bytes(content)
                self._replace_copy(file, copy, tag)
        self._refreshed_s = now_s

    def _new_copy(self) -> tuple[Path, SQLite]:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="giscope-catalog-")
        file = Path(self._folder.name, f"{uuid.uuid4().hex}.sqlite")
        return file, SQLite(file, file.parent, self._tables)

    def _replace_copy(self, file: Path, copy: SQLite, tag: str) -> None:
        if self._copy:
            self._copy.close()
            self._file.unlink()
        self._file, self._copy, self._tag = file, copy, tag
        self._number += 1
        self._refreshed_s = time.monotonic()


def _record_change(session: Session, change: str) -> None:
    """Add a change to those that the file knows, which are not more than LATEST."""
    (latest,) = session.execute("select coalesce(max(at), 0) from giscope_changes").fetchone()
    session.execute("insert into giscope_changes values (?, ?)", (change, latest + 1))
    session.execute("delete from giscope_changes where at <= ?", (latest + 1 - MAX_CHANGES,))


@contextmanager
def hold_lock(path: Path, wait: Callable[[], None] | None = None) -> Iterator[ObjectLock]:
    """Hold an object as a lock; wait() is called before another holder is waited for."""
    lock = ObjectLock(path)
    lock.acquire(wait)
    try:
        yield lock
    finally:
        lock.release()


class ObjectLock:
    """Who holds a lock, or waits for it. took_over: from a holder that had not let go of it."""

    def __init__(self, path: Path):
        self._path, self._id, self._tag = path, uuid.uuid4().bytes, ""
        self.took_over = False
        self._released = Event()
        self._renewal = Thread(target=self._renew, daemon=True)

    def acquire(self, wait: Callable[[], None] | None) -> None:
        """Wait until it is nobody's; there is no need of equal clocks, for it is watched."""
        last_tag: str | None = None
        since_s = time.monotonic()
        while True:
            content, tag = self._read()
            if content == RELEASED and self._write(tag):
                break
            if tag != last_tag:
                last_tag, since_s = tag, time.monotonic()
            if tag and time.monotonic() - since_s > EXPIRY_S and self._write(tag):
                self.took_over = True
                break
            if wait:
                wait()
                wait = None
            time.sleep(POLL_S)
        self._renewal.start()

    def release(self) -> None:
        """Let others have it. A lock that another took over is left as it is."""
        self._released.set()
        self._renewal.join()
        with suppress(ConflictError, OSError):
            if self.is_held():
                write_if_unchanged(self._path, RELEASED, self._tag)

    def is_held(self) -> bool:
        """Whether the lock is this one's still, also by a renewal whose answer was lost."""
        content, tag = self._read()
        if tag and content.startswith(self._id):
            self._tag = tag
            return True
        return False

    def _read(self) -> tuple[bytes, str | None]:
        """The lock's bytes and tag; None: it is not there."""
        with suppress(FileNotFoundError):
            found = read_if_changed(self._path, None)
            return found if found else (RELEASED, None)
        return RELEASED, None

    def _write(self, tag: str | None) -> bool:
        try:
            self._tag = write_if_unchanged(self._path, self._id + uuid.uuid4().bytes, tag)
        except ConflictError:
            return False
        return True

    def _renew(self) -> None:
        while not self._released.wait(RENEWAL_S):
            with suppress(OSError):
                if not self._write(self._tag) and not self.is_held():
                    return
