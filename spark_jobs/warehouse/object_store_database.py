"""An SQLite file in an object store, and locks there, for a catalog without a server.

Each process works on a copy of the file. A change is made to a new copy. This copy replaces the
object only if the object has not changed since it was read: the store's conditional writes decide,
so no change is lost, whoever writes. If the store refuses a write, the write may still have been
carried out (see places.write_if_unchanged). So the file has the IDs of its latest changes.

A lock is an object, which its holder renews. If a lock is not renewed for EXPIRY_S, another process
may take it over and raises the lock's number in the file (see database.Fences).
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
"""Time for which a copy counts as current (s); changes and locks read the object again."""
POLL_S = 0.2
RENEWAL_S, EXPIRY_S = 10.0, 45.0
"""Seconds between two renewals of a lock, and the time without renewal after which it expires."""
RELEASED = b""
"""The bytes of a lock that nobody holds; an object cannot be removed on a condition."""
TRANSACTION = "transaction"
"""The name of the lock that needs no fence, as the file is replaced on a condition."""
MAX_CHANGES = 256
"""Number of latest changes whose IDs the file has."""
CHANGES = """create table if not exists giscope_changes (
    change text not null primary key, at bigint not null)"""


class ObjectStoreSQLite:
    """An SQLite file in an object store; implements Database."""

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
        """Implement Database.version."""
        with self._lock:
            self._refresh()
            return self._number if self._copy else None

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Implement Database.reading."""
        with self._lock:
            self._refresh()
            assert self._copy
            with self._copy.reading() as session:
                yield session

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Implement Database.transaction.

        Also raises UserError if another process changed the file meanwhile. That only happens if
        this process was stopped for so long that another took over its lock.
        """
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
        """Return whether the object has a change now."""
        self._refreshed_s = None
        with self.reading() as session:
            found = session.execute("select 1 from giscope_changes where change = ?", (change,))
            return bool(found.fetchone())

    @contextmanager
    def locked(self, name: str, wait: Callable[[], None] | None = None) -> Iterator[None]:
        """Implement Database.locked."""
        with hold_lock(self._locks / file_name(name), wait) as lock:
            self._refreshed_s = None
            if name == TRANSACTION:
                yield
            else:
                with self._fences.holding(name, self._fence_number(name, lock)):
                    yield

    def _fence_number(self, name: str, lock: ObjectLock) -> int:
        """Return a lock's number from now on.

        Raises UserError if another process has the lock by now.
        """
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
    """Add a change's ID to the file, which keeps the latest MAX_CHANGES."""
    (latest,) = session.execute("select coalesce(max(at), 0) from giscope_changes").fetchone()
    session.execute("insert into giscope_changes values (?, ?)", (change, latest + 1))
    session.execute("delete from giscope_changes where at <= ?", (latest + 1 - MAX_CHANGES,))


@contextmanager
def hold_lock(path: Path, wait: Callable[[], None] | None = None) -> Iterator[ObjectLock]:
    """Hold an object as a lock; wait() is called before the process waits for another holder."""
    lock = ObjectLock(path)
    lock.acquire(wait)
    try:
        yield lock
    finally:
        lock.release()


class ObjectLock:
    """A lock that this process holds or waits for.

    took_over: whether it was taken from a holder that had not released it.
    """

    def __init__(self, path: Path):
        self._path, self._id, self._tag = path, uuid.uuid4().bytes, ""
        self.took_over = False
        self._released = Event()
        self._renewal = Thread(target=self._renew, daemon=True)

    def acquire(self, wait: Callable[[], None] | None) -> None:
        """Wait until the lock is released or expires, and take it.

        The clocks of processes need not agree, for the waiting process itself measures the silence.
        """
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
        """Release the lock, unless another process took it over."""
        self._released.set()
        self._renewal.join()
        with suppress(ConflictError, OSError):
            if self.is_held():
                write_if_unchanged(self._path, RELEASED, self._tag)

    def is_held(self) -> bool:
        """Return whether this process still holds the lock.

        A renewal counts even if the store's answer to it was lost.
        """
        content, tag = self._read()
        if tag and content.startswith(self._id):
            self._tag = tag
            return True
        return False

    def _read(self) -> tuple[bytes, str | None]:
        """Return the lock's bytes and its tag; the tag is None if the object does not exist."""
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
