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
    number_of,
    raise_number,
)
from spark_jobs.warehouse.disk import file_name

FRESH_S = 1.0
"""How long a copy is taken for what is in the bucket, but for changes and under locks."""
POLL_S = 0.2
RENEWED_S, LOST_S = 10.0, 45.0
"""How often a lock is renewed, and after which silence it is nobody's."""
FREE = b""
"""The bytes of a lock that nobody holds. An object cannot be removed on a condition."""
TRANSACTION = "transaction"
"""The lock that needs no fence: the file is replaced on condition."""
LATEST = 256
"""So many changes are known by their numbers."""
CHANGES = """create table if not exists giscope_changes (
    change text not null primary key, at bigint not null)"""


class ObjectStoreSQLite:
    """See Database."""

    def __init__(self, path: Path, locks: Path, tables: tuple[str, ...]):
        self._path, self._locks, self._tables = path, locks, (*tables, FENCES, CHANGES)
        self.path_of, self.inside = str(path), True
        self._fences = Fences()
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
        """See Database. Raises UserError, too, if another process changed the file meanwhile, which
        can only be where this one stood still so long that its lock was taken over."""
        change = uuid.uuid4().hex
        with self._lock, self.locked(TRANSACTION):
            self._refresh()
            file, copy = self._new()
            if self._copy:
                shutil.copyfile(self._file, file)
            try:
                with copy.transaction() as session:
                    self._fences.check(session, self.path_of)
                    _remember(session, change)
                    yield session
                tag = write_if_unchanged(self._path, file.read_bytes(), self._tag)
            except BaseException as error:
                copy.close()
                file.unlink(missing_ok=True)
                if not isinstance(error, ConflictError):
                    raise
                if not self._has(change):
                    raise UserError(f"{self._path}: another job changed it; try again") from error
                return
            self._use(file, copy, tag)

    def _has(self, change: str) -> bool:
        """Whether a change is in the file as it is now in the bucket."""
        self._looked_s = None
        with self.reading() as session:
            found = session.execute("select 1 from giscope_changes where change = ?", (change,))
            return bool(found.fetchone())

    @contextmanager
    def locked(self, name: str, wait: Callable[[], None] | None = None) -> Iterator[None]:
        """See Database."""
        with held(self._locks / file_name(name), wait) as owner:
            self._looked_s = None
            if name == TRANSACTION:
                yield
            else:
                with self._fences.holding(name, self._number_of(name, owner)):
                    yield

    def _number_of(self, name: str, owner: Owner) -> int:
        """A lock's number from now on. Raises UserError if it is another's by now."""
        if owner.took_over:
            with self.transaction() as session:
                number = raise_number(session, name)
        else:
            number = 0
            if self.version() is not None:
                with self.reading() as session:
                    number = number_of(session, name)
        if not owner.has_it():
            raise UserError(f"{self.path_of}: another job took over the lock {name!r}; run it again")
        return number

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


def _remember(session: Session, change: str) -> None:
    """Add a change to those that the file knows, which are not more than LATEST."""
    (latest,) = session.execute("select coalesce(max(at), 0) from giscope_changes").fetchone()
    session.execute("insert into giscope_changes values (?, ?)", (change, latest + 1))
    session.execute("delete from giscope_changes where at <= ?", (latest + 1 - LATEST,))


@contextmanager
def held(lock: Path, wait: Callable[[], None] | None = None) -> Iterator[Owner]:
    """Hold an object as a lock; wait() is called before another holder is waited for."""
    owner = Owner(lock)
    owner.take(wait)
    try:
        yield owner
    finally:
        owner.leave()


class Owner:
    """Who holds a lock, or waits for it. took_over: from a holder that had not let go of it."""

    def __init__(self, lock: Path):
        self._lock, self._id, self._tag = lock, uuid.uuid4().bytes, ""
        self.took_over = False
        self._left = Event()
        self._renewing = Thread(target=self._renew, daemon=True)

    def take(self, wait: Callable[[], None] | None) -> None:
        """Wait until it is nobody's; there is no need of equal clocks, for it is watched."""
        seen: str | None = None
        since_s = time.monotonic()
        while True:
            content, tag = self._seen()
            if content == FREE and self._taken(tag):
                break
            if tag != seen:
                seen, since_s = tag, time.monotonic()
            if tag and time.monotonic() - since_s > LOST_S and self._taken(tag):
                self.took_over = True
                break
            if wait:
                wait()
                wait = None
            time.sleep(POLL_S)
        self._renewing.start()

    def leave(self) -> None:
        """Let others have it. A lock that another took over is left as it is."""
        self._left.set()
        self._renewing.join()
        with suppress(ConflictError, OSError):
            if self.has_it():
                write_if_unchanged(self._lock, FREE, self._tag)

    def has_it(self) -> bool:
        """Whether the lock is this one's still, also by a renewal whose answer was lost."""
        content, tag = self._seen()
        if tag and content.startswith(self._id):
            self._tag = tag
            return True
        return False

    def _seen(self) -> tuple[bytes, str | None]:
        """The lock's bytes and tag; None: it is not there."""
        with suppress(FileNotFoundError):
            found = read_if_changed(self._lock, None)
            return found if found else (FREE, None)
        return FREE, None

    def _taken(self, tag: str | None) -> bool:
        try:
            self._tag = write_if_unchanged(self._lock, self._id + uuid.uuid4().bytes, tag)
        except ConflictError:
            return False
        return True

    def _renew(self) -> None:
        while not self._left.wait(RENEWED_S):
            with suppress(OSError):
                if not self._taken(self._tag) and not self.has_it():
                    return
