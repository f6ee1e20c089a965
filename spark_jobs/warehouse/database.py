"""The SQL databases that can hold a catalog: an SQLite file, or PostgreSQL for several hosts.

SQLAlchemy writes the SQL. Transactions and locks differ, and are here.
"""

from __future__ import annotations

import errno
import fcntl
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any
from urllib.parse import quote

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    NullPool,
    Select,
    create_engine,
    func,
    insert,
    make_url,
    select,
    update,
)
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from schemas import CATALOG_NAME
from spark_jobs.base.errors import UserError
from spark_jobs.base.extras import require
from spark_jobs.base.places import in_object_store
from spark_jobs.base.secret_files import secret_of
from spark_jobs.warehouse.catalog_tables import (
    FENCES,
    FORMAT,
    NAMESPACE,
    NAMESPACES,
    SCHEMA,
)
from spark_jobs.warehouse.disk import CHANGE_BYTES, file_name, report_full_disk

CATALOG, LOCKS = "catalog.sqlite", "_locks"
"""The names of the catalog's file and of the folder of locks, in the warehouse's root."""
CATALOG_VARIABLE = "GISCOPE_CATALOG"
"""The environment variable with the URI of the catalog's database."""
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


class Database(ABC):
    """A database with the catalog's tables, which it creates when it is first opened.

    location: the name that messages give it. in_warehouse: whether it lies in the warehouse.
    """

    begin = "begin"
    """The statement that begins a transaction."""

    def __init__(self, engine: Engine, location: str, in_warehouse: bool):
        self._engine, self.location, self.in_warehouse = engine, location, in_warehouse
        self._lock = RLock()
        self._open: Connection | None = None

    @abstractmethod
    def exists(self) -> bool:
        """Return whether there is a database; if not, the first transaction makes it."""

    @abstractmethod
    def locked(
        self, name: str, wait: Callable[[], None] | None = None
    ) -> AbstractContextManager[None]:
        """Return a context that one process at a time enters, for each name.

        wait() is called before the process waits for another one.
        """

    @abstractmethod
    def _has_tables(self, connection: Connection) -> bool:
        """Return whether the database has the catalog's tables."""

    @abstractmethod
    def _error(self, error: SQLAlchemyError) -> Exception:
        """Return an error of the database as one that names its place."""

    @abstractmethod
    def _check_locks(self, session: Connection) -> None:
        """Raise UserError if another process took over a lock that this process holds."""

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection that sees committed data. The database must exist."""
        with self._lock, self._errors_translated():
            yield self._connection()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Yield a connection in a transaction, which is on disk when the context ends.

        One transaction runs at a time. Raises UserError, and changes nothing, if another process
        took over a lock that this process holds.
        """
        with self._lock, self._errors_translated():
            connection = self._connection()
            with self._begun(connection):
                self._check_locks(connection)
                yield connection

    def version(self) -> int | None:
        """Return a number that is another one after another connection changed the database.

        None: such a number is not known.
        """
        return None

    def close(self) -> None:
        """Close the database; the next operation opens it again."""
        with self._lock:
            if self._open:
                self._open.close()
            self._open = None

    def _connection(self) -> Connection:
        if self._open is None or self._open.invalidated:
            connection = self._engine.connect()
            try:
                if not self._has_tables(connection):
                    with self._begun(connection):
                        self._make_tables(connection)
            except BaseException:
                connection.close()
                raise
            self._open = connection
        return self._open

    def _make_tables(self, session: Connection) -> None:
        SCHEMA.create_all(session)
        namespace = {"catalog_name": CATALOG_NAME, "namespace": NAMESPACE, "property_key": "exists"}
        if not session.execute(select(NAMESPACES).filter_by(**namespace)).first():
            session.execute(insert(NAMESPACES).values(**namespace, property_value="true"))

    @contextmanager
    def _begun(self, session: Connection) -> Iterator[None]:
        session.exec_driver_sql(self.begin)
        try:
            yield
            session.exec_driver_sql("commit")
        except BaseException:
            with suppress(SQLAlchemyError):  # the connection may be broken
                session.exec_driver_sql("rollback")
            raise

    @contextmanager
    def _errors_translated(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise self._error(error) from error


class SQLite(Database):
    """An SQLite file; its locks are files in a folder."""

    begin = "begin immediate"

    def __init__(self, path: Path, locks: Path):
        """Use the file at a path, which the first transaction makes."""
        super().__init__(
            create_engine("sqlite://", **_SETTINGS, creator=self._connect), str(path), True
        )
        self._path, self._locks = path, locks

    def exists(self) -> bool:
        """Implement Database.exists."""
        return self._open is not None or self._path.exists()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Implement Database.transaction."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with super().transaction() as session:
            yield session

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

    def version(self) -> int | None:
        """Implement Database.version; without SQLAlchemy, because jobs call it very often."""
        with self._lock, self._errors_translated():
            driver: Any = self._connection().connection.driver_connection
            return int(driver.execute("pragma data_version").fetchone()[0])

    def _connect(self) -> sqlite3.Connection:
        uri = f"file:{quote(str(self._path.absolute()))}"
        return sqlite3.connect(
            uri, LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False, uri=True
        )

    def _check_locks(self, session: Connection) -> None:
        pass  # the operating system releases them when the process ends, and not before

    def _has_tables(self, connection: Connection) -> bool:
        return connection.exec_driver_sql("pragma user_version").scalar_one() == FORMAT

    def _make_tables(self, session: Connection) -> None:
        super()._make_tables(session)
        session.exec_driver_sql(f"pragma user_version = {FORMAT}")

    @contextmanager
    def _errors_translated(self) -> Iterator[None]:
        with (
            report_full_disk(self._path.parent, lambda: CHANGE_BYTES),
            super()._errors_translated(),
        ):
            yield

    def _error(self, error: SQLAlchemyError) -> Exception:
        cause = getattr(error, "orig", None) or error
        primary = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        number = ERRNO_BY_CODE.get(primary)
        if number is None:
            return UserError(f"{self._path}: {cause}")
        return OSError(number, str(cause), str(self._path))


class PostgreSQL(Database):
    """A PostgreSQL database; its locks are the server's advisory locks, which hold among hosts.

    The server releases a lock when its connection breaks, and the holder does not notice. So every
    holder raises the lock's number in giscope_fences, a fencing token. A transaction of an earlier
    holder finds a number that it does not expect, and is refused.
    """

    def __init__(self, url: URL):
        """Use the database of a URL. Raises UserError if its driver is missing."""
        require("postgres", CATALOG_VARIABLE)
        if not url.password:
            url = url.set(password=secret_of(PASSWORD_VARIABLE))
        engine = create_engine(url.set(drivername="postgresql+psycopg"), **_SETTINGS)
        super().__init__(engine, f"{url.host or 'localhost'}/{url.database}", in_warehouse=False)
        self._held: dict[str, int] = {}
        """The locks that this process holds, and the number of each at that time."""

    def exists(self) -> bool:
        """Implement Database.exists."""
        return True

    @contextmanager
    def locked(self, name: str, wait: Callable[[], None] | None = None) -> Iterator[None]:
        """Implement Database.locked."""
        key = func.hashtextextended(f"giscope lock {name}", 0)
        with self._errors_translated():
            with self._lock:
                self._connection()
            with self._engine.connect() as connection:
                if not connection.scalar(select(func.pg_try_advisory_lock(key))):
                    if wait:
                        wait()
                    connection.execute(select(func.pg_advisory_lock(key)))
                with self._begun(connection):
                    self._held[name] = _taken_again(connection, name)
                try:
                    yield
                finally:
                    del self._held[name]

    def _check_locks(self, session: Connection) -> None:
        session.execute(select(func.pg_advisory_xact_lock(func.hashtext("giscope transaction"))))
        for name, number in [*self._held.items()]:
            if session.scalar(_number(name).with_for_update(read=True)) != number:
                raise UserError(
                    f"catalog at {self.location}: this job was stopped for so long that another "
                    f"took over its lock {name!r}: nothing of this change is published; run it "
                    "again"
                )

    def _has_tables(self, connection: Connection) -> bool:
        return False  # creating them again does nothing

    def _make_tables(self, session: Connection) -> None:
        session.execute(select(func.pg_advisory_xact_lock(func.hashtext("giscope tables"))))
        super()._make_tables(session)

    def _error(self, error: SQLAlchemyError) -> Exception:
        cause = getattr(error, "orig", None) or error
        reason = (str(cause).strip() or type(cause).__name__).splitlines()[0]
        return UserError(f"catalog at {self.location}: {reason}")


_SETTINGS: dict[str, Any] = {"poolclass": NullPool, "isolation_level": "AUTOCOMMIT"}
"""Settings of all engines: connections are kept by Database, which begins transactions itself."""


def database_of(root: Path, uri: str | None = None) -> Database:
    """Return the database of a warehouse's catalog.

    This is the PostgreSQL database of the URI or, without a URI, a file in the warehouse. Raises
    UserError if the URI is not of PostgreSQL, or there is none and the warehouse is no folder.
    """
    if not uri and in_object_store(root):
        raise UserError(
            f"{root}: a warehouse in an object store needs PostgreSQL for its catalog: set "
            f"{CATALOG_VARIABLE} to postgresql://USER@HOST/DATABASE"
        )
    if not uri:
        return SQLite(root / CATALOG, root / LOCKS)
    with suppress(ArgumentError, ValueError):
        url = make_url(uri)
        if url.get_backend_name() == "postgresql":
            return PostgreSQL(url)
    raise UserError(f"{CATALOG_VARIABLE}: must be postgresql://USER@HOST/DATABASE")


def _number(name: str) -> Select[Any]:
    return select(FENCES.c.number).where(FENCES.c.name == name)


def _taken_again(session: Connection, name: str) -> int:
    """Raise the number of a lock; return the new number."""
    number = (session.scalar(_number(name)) or 0) + 1
    values = {"name": name, "number": number}
    if number == 1:
        session.execute(insert(FENCES).values(values))
    else:
        session.execute(update(FENCES).where(FENCES.c.name == name).values(values))
    return number
