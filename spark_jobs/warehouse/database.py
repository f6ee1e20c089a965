"""The SQL databases that can hold a catalog: an SQLite file, or PostgreSQL.

PostgreSQL lets several hosts write. Both take the same SQL here, with ? for values.
"""

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
"""The environment variable with PostgreSQL's password, if the URI has none.

GISCOPE_CATALOG_PASSWORD_FILE names a file that holds the password instead.
"""
LOCK_TIMEOUT_S = 60
"""Maximum time to wait for another process's transaction (s)."""
ERRNO_BY_CODE = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EACCES,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
    sqlite3.SQLITE_PERM: errno.EACCES,
}
"""The operating system's error number for each SQLite result code."""


FENCES = """create table if not exists giscope_fences (
    name text not null primary key, number bigint not null)"""
"""The table that counts how often each lock was taken over from a process that had not released it.

See Fences.
"""


class Session(Protocol):
    """The operations of a transaction."""

    def execute(self, query: str, values: tuple[Any, ...] = ()) -> Any:
        """Run a statement; fetchall() and fetchone() of the result return a query's rows."""

    def executemany(self, query: str, rows: Iterable[tuple[Any, ...]]) -> Any:
        """Run a statement once for each row of values."""


class Database(Protocol):
    """A database with the catalog's tables, which it creates when it is first written to.

    location: the name that messages give it. in_warehouse: whether it lies in the warehouse.
    """

    location: str
    in_warehouse: bool

    def version(self) -> int | None:
        """Return a number that changes with each change by others; None if there is no database."""

    def reading(self) -> Any:
        """Return a context with a Session that sees committed data. The database must exist."""

    def transaction(self) -> Any:
        """Return a context with a Session for one transaction.

        At the context's end the transaction is on disk. One transaction runs at a time. Raises
        UserError, and changes nothing, if another process took over a lock that this process holds.
        """

    def locked(self, name: str, wait: Callable[[], None] | None = None) -> Any:
        """Return a context that one process at a time enters, for each name.

        wait() is called before the process waits for another one.
        """


class Fences:
    """The locks that this process holds, and the number of each in giscope_fences at that time.

    A lock in an object store, or of a server whose connection broke, can pass to another process
    while its holder is stopped. The other process raises the number. A transaction of the first
    process then finds a number that it does not expect, and is refused. The number is a fencing
    token.
    """

    def __init__(self) -> None:
        self._held: dict[str, int] = {}

    @contextmanager
    def holding(self, name: str, number: int) -> Iterator[None]:
        """Make transactions depend on a lock with this number."""
        self._held[name] = number
        try:
            yield
        finally:
            del self._held[name]

    def check(self, session: Session, location: str, lock_clause: str = "") -> None:
        """Raise UserError if another process took over a lock that this process holds.

        lock_clause: the end of the query that reads the numbers.
        """
        for name, number in [*self._held.items()]:
            if fence_number(session, name, lock_clause) != number:
                raise UserError(
                    f"{location}: this job was stopped for so long that another took over its lock "
                    f"{name!r}: nothing of this change is published; run it again"
                )


def fence_number(session: Session, name: str, lock_clause: str = "") -> int:
    """Return how often a lock was taken over.

    lock_clause: the end of the query.
    """
    query = f"select number from giscope_fences where name = ? {lock_clause}"
    found = session.execute(query, (name,)).fetchone()
    return found[0] if found else 0


def increment_fence(session: Session, name: str) -> int:
    """Count that a lock was taken over; return the new count."""
    session.execute(
        """insert into giscope_fences values (?, 1)
        on conflict (name) do update set number = giscope_fences.number + 1""",
        (name,),
    )
    return fence_number(session, name)


class SQLite:
    """An SQLite file; its locks are files in a folder.

    The file is created when it is first written to. Its user_version is the number of statements of
    `tables` that were run on it. Each statement may be repeated. Later versions of giscope have
    more statements.
    """

    def __init__(self, path: Path, locks: Path, tables: tuple[str, ...]):
        self._path, self._locks, self._tables = path, locks, tables
        self.location, self.in_warehouse = str(path), True
        self._lock = RLock()
        self._open: sqlite3.Connection | None = None

    def version(self) -> int | None:
        """Implement Database.version."""
        if self._open is None and not self._path.exists():
            return None
        with self._lock, self._translated_errors():
            (version,) = self._open_connection("rw").execute("pragma data_version").fetchone()
        return version

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Implement Database.reading."""
        with self._lock, self._translated_errors():
            yield self._open_connection("rw")

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Implement Database.transaction."""
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
        """Implement Database.locked."""
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
        """Close the file; the next operation opens it again."""
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
        """Raise SQLite's errors as errors of the file."""
        try:
            yield
        except sqlite3.Error as error:
            primary = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            number = ERRNO_BY_CODE.get(primary)
            if number is None:
                raise UserError(f"{self._path}: {error}") from error
            raise OSError(number, str(error), str(self._path)) from error


class PostgreSQL:
    """A PostgreSQL database; its locks are the server's advisory locks, which hold among hosts."""

    def __init__(self, uri: str, tables: tuple[str, ...], changes: str):
        """Use the database of a URI.

        changes: a query for a number that grows with each change that matters.
        """
        self._uri, self._tables, self._changes = uri, (*tables, FENCES), changes
        parts = urlsplit(uri)
        self.location, self.in_warehouse = f"{parts.hostname or 'localhost'}{parts.path}", False
        self._fences = Fences()
        self._lock = RLock()
        self._open: psycopg.Connection | None = None

    def version(self) -> int | None:
        """Implement Database.version."""
        with self.reading() as session:
            (version,) = session.execute(self._changes).fetchone()
        return version

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Implement Database.reading."""
        with self._lock, self._translated_errors():
            yield _Placeholders(self._open_connection())

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Implement Database.transaction."""
        with self._lock, self._translated_errors():
            database = self._open_connection()
            with database.transaction():
                database.execute("select pg_advisory_xact_lock(hashtext('giscope transaction'))")
                session = _Placeholders(database)
                self._fences.check(session, f"catalog at {self.location}", "for share")
                yield session

    @contextmanager
    def locked(self, name: str, wait: Callable[[], None] | None = None) -> Iterator[None]:
        """Implement Database.locked.

        The server releases a lock when its connection breaks, and the holder does not notice. So
        every holder raises the lock's number.
        """
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
        """Raise the server's errors as a UserError of one line, without the URI's password."""
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
