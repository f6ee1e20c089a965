"""The SQL databases that a catalog can be in: an SQLite file, or PostgreSQL where several hosts
write. Both take the same SQL here, with ? for values."""

from __future__ import annotations

import errno
import fcntl
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, urlsplit

from spark_jobs.errors import UserError
from spark_jobs.secret_files import secret_of
from spark_jobs.warehouse.disk import file_name

if TYPE_CHECKING:
    import psycopg

PASSWORD_VARIABLE = "GISCOPE_CATALOG_PASSWORD"
"""The variable of the environment that has PostgreSQL's password, where the URI has none;
GISCOPE_CATALOG_PASSWORD_FILE names a file that has it."""
LOCK_TIMEOUT_S = 60
"""For another process's transaction."""
ERRNO_BY_CODE = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EACCES,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
    sqlite3.SQLITE_PERM: errno.EACCES,
}
"""What they are to the operating system, by SQLite's code."""


FENCES = """create table if not exists giscope_fences (
    name text not null primary key, number bigint not null)"""
"""How often each lock was taken from a process that did not let go of it (see Fences)."""


class Session(Protocol):
    """What can be asked within a transaction."""

    def execute(self, query: str, values: tuple[Any, ...] = ()) -> Any:
        """A statement; of a query what fetchall() and fetchone() give."""

    def executemany(self, query: str, rows: Iterable[tuple[Any, ...]]) -> Any:
        """A statement for each row of values."""


class Database(Protocol):
    """A database that has, or will have, some tables. place: what a user knows it by; inside:
    whether it lies in the warehouse."""

    location: str
    in_warehouse: bool

    def version(self) -> int | None:
        """Another number after each change by others that may matter; None: nothing is there."""

    def reading(self) -> Any:
        """A context with a Session that sees what is committed; there must be something."""

    def transaction(self) -> Any:
        """A context with a Session: all or nothing, on disk at its end, one at a time. Raises
        UserError, and changes nothing, if a lock that this process holds was taken from it."""

    def locked(self, name: str, wait: Callable[[], None] | None = None) -> Any:
        """A context: one process at a time per name; wait() is called before another is waited
        for."""


class Fences:
    """The locks that this process holds, each with its number in giscope_fences when it was taken.

    A lock in a bucket, or of a server whose connection broke, can pass to another process while its
    holder is stopped. The other raises the number. A transaction of the first then finds a number
    that it does not expect, and is refused: a fencing token.
    """

    def __init__(self) -> None:
        self._held: dict[str, int] = {}

    @contextmanager
    def holding(self, name: str, number: int) -> Iterator[None]:
        """Let transactions depend on this lock."""
        self._held[name] = number
        try:
            yield
        finally:
            del self._held[name]

    def check(self, session: Session, location: str, lock_clause: str = "") -> None:
        """Raise UserError if a lock was taken from this process; locking: ends the query."""
        for name, number in [*self._held.items()]:
            if fence_number(session, name, lock_clause) != number:
                raise UserError(
                    f"{location}: this job stood still for so long that another took over its lock "
                    f"{name!r}: nothing of this change is published; run it again"
                )


def fence_number(session: Session, name: str, lock_clause: str = "") -> int:
    """How often a lock was taken over; locking: ends the query."""
    query = f"select number from giscope_fences where name = ? {lock_clause}"
    found = session.execute(query, (name,)).fetchone()
    return found[0] if found else 0


def increment_fence(session: Session, name: str) -> int:
    """Count that a lock was taken over; returns how often it was."""
    session.execute(
        """insert into giscope_fences values (?, 1)
        on conflict (name) do update set number = giscope_fences.number + 1""",
        (name,),
    )
    return fence_number(session, name)


class SQLite:
    """An SQLite file, made when it is first written to; locks are files in a folder. Its
    user_version says how many of the statements in `tables` it has seen: each may be repeated, and
    later versions have more."""

    def __init__(self, path: Path, locks: Path, tables: tuple[str, ...]):
        self._path, self._locks, self._tables = path, locks, tables
        self.location, self.in_warehouse = str(path), True
        self._lock = RLock()
        self._open: sqlite3.Connection | None = None

    def version(self) -> int | None:
        """See Database."""
        if self._open is None and not self._path.exists():
            return None
        with self._lock, self._translated_errors():
            (version,) = self._open_connection("rw").execute("pragma data_version").fetchone()
        return version

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """See Database."""
        with self._lock, self._translated_errors():
            yield self._open_connection("rw")

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """See Database."""
        with self._lock, self._translated_errors():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            database = self._open_connection("rwc")
            database.execute("begin immediate")
            try:
                yield database
                database.execute("commit")
            except BaseException:
                if database.in_transaction:
                    database.execute("rollback")
                raise

    @contextmanager
    def locked(self, name: str, wait: Callable[[], None] | None = None) -> Iterator[None]:
        """See Database."""
        self._locks.mkdir(parents=True, exist_ok=True)
        with (self._locks / file_name(name)).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if wait:
                    wait()
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def close(self) -> None:
        """Let go of the file; what is asked next opens it again."""
        with self._lock:
            if self._open:
                self._open.close()
            self._open = None

    def _open_connection(self, mode: str) -> sqlite3.Connection:
        if self._open is None:
            uri = f"file:{quote(str(self._path.absolute()))}?mode={mode}"
            connection = sqlite3.connect(
                uri, LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False, uri=True
            )
            (done,) = connection.execute("pragma user_version").fetchone()
            if done < len(self._tables):
                connection.execute("begin immediate")
                for statement in self._tables:
                    connection.execute(statement)
                connection.execute(f"pragma user_version = {len(self._tables)}")
                connection.execute("commit")
            self._open = connection
        return self._open

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """SQLite's errors as those of the file."""
        try:
            yield
        except sqlite3.Error as error:
            primary = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            number = ERRNO_BY_CODE.get(primary)
            if number is None:
                raise UserError(f"{self._path}: {error}") from error
            raise OSError(number, str(error), str(self._path)) from error


class PostgreSQL:
    """A PostgreSQL database, by its URI; locks are the server's (advisory locks), so that they hold
    among hosts."""

    def __init__(self, uri: str, tables: tuple[str, ...], changes: str):
        """changes: a query for a number that grows with each change that matters."""
        self._uri, self._tables, self._changes = uri, (*tables, FENCES), changes
        parts = urlsplit(uri)
        self.location, self.in_warehouse = f"{parts.hostname or 'localhost'}{parts.path}", False
        self._fences = Fences()
        self._lock = RLock()
        self._open: psycopg.Connection | None = None

    def version(self) -> int | None:
        """See Database."""
        with self.reading() as session:
            (version,) = session.execute(self._changes).fetchone()
        return version

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """See Database."""
        with self._lock, self._translated_errors():
            yield _Placeholders(self._open_connection())

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """See Database."""
        with self._lock, self._translated_errors():
            database = self._open_connection()
            with database.transaction():
                database.execute("select pg_advisory_xact_lock(hashtext('giscope transaction'))")
                session = _Placeholders(database)
                self._fences.check(session, f"catalog at {self.location}", "for share")
                yield session

    @contextmanager
    def locked(self, name: str, wait: Callable[[], None] | None = None) -> Iterator[None]:
        """See Database. The server lets go of a lock when its connection breaks, of which its
        holder learns nothing: so every holder raises the lock's number."""
        import psycopg

        key = (f"giscope lock {name}",)
        with self._translated_errors():
            with self._lock:
                self._open_connection()
            connection = self._new_connection()
            try:
                tried = connection.execute(
                    "select pg_try_advisory_lock(hashtextextended(%s, 0))", key
                )
                if tried.fetchone() != (True,):
                    if wait:
                        wait()
                    connection.execute("select pg_advisory_lock(hashtextextended(%s, 0))", key)
                with connection.transaction():
                    number = increment_fence(_Placeholders(connection), name)
                with self._fences.holding(name, number):
                    yield
            finally:
                with suppress(psycopg.Error):
                    connection.close()

    def _open_connection(self) -> psycopg.Connection:
        if self._open is None or self._open.closed:
            self._open = self._new_connection()
            with self._open.transaction():
                self._open.execute("select pg_advisory_xact_lock(hashtext('giscope tables'))")
                for statement in self._tables:
                    self._open.execute(statement)
        return self._open

    def _new_connection(self) -> psycopg.Connection:
        import psycopg

        uri = self._uri.replace("postgresql+psycopg", "postgresql", 1)
        connection = None if urlsplit(uri).password else secret_of(PASSWORD_VARIABLE)
        return psycopg.connect(uri, autocommit=True, password=connection)

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """The server's errors in a line, without the password that the URI may have."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UserError(f"catalog at {self.location}: {reason}") from error


class _Placeholders:
    """A connection to PostgreSQL that takes ? for values."""

    def __init__(self, connection: psycopg.Connection):
        self._open_connection = connection

    def execute(self, query: str, values: tuple[Any, ...] = ()) -> Any:
        return self._open_connection.execute(query.replace("?", "%s"), values)

    def executemany(self, query: str, rows: Iterable[tuple[Any, ...]]) -> Any:
        with self._open_connection.cursor() as cursor:
            cursor.executemany(query.replace("?", "%s"), list(rows))
