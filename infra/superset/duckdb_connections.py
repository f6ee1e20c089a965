"""Superset's connections to DuckDB: they run only queries, on only the rows that a user may see.

Each open connection has a process of its own, query_worker.py, which waits for the next connection
when it is closed.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Set
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from threading import Lock
from typing import Any

# Superset's environment has no giscope: modules that need no others come from the sources.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from country_views import countries_key, country_views_folder, publication
from duckdb_engine import ConnectionWrapper, CursorWrapper
from query_worker import HOME, LIMIT_ADVICE, LIMITS, out_of_memory, temporary_folder

from spark_jobs.queries.guard import QueryRefused
from spark_jobs.queries.limits import SECONDS_VARIABLE, killed_error, limit_process

VIEWS = Path(os.environ["GISCOPE_WAREHOUSE"]).resolve() / "warehouse.duckdb"
WORKER = Path(__file__).with_name("query_worker.py")
VIEW_LOCKS: dict[str, Lock] = defaultdict(Lock)
"""Lock for each set of countries, held while its views are made."""


class Worker:
    """A process that runs the queries of one connection at a time."""

    def __init__(self) -> None:
        """Start the process. It imports what it needs while its first call waits."""
        self._calls, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen([sys.executable, WORKER], stdin=theirs.fileno())

    def ask(self, call: str, *arguments: Any) -> Any:
        """Return the answer to a call of query_worker.Session.

        If the process ends meanwhile, another takes its place. Raises QueryRefused, duckdb.Error.
        """
        try:
            self._calls.send((call, *arguments))
            succeeded, answer = self._calls.recv()
        except BaseException as error:
            status = self._end()
            if isinstance(error, MemoryError):
                raise out_of_memory() from None
            if isinstance(error, EOFError | OSError):
                raise _error_of(status) from None
            raise
        if succeeded:
            return answer
        raise answer

    def is_alive(self) -> bool:
        """Return whether the process runs."""
        return self._process.poll() is None

    def _end(self) -> int:
        """End the process and replace it, unless that is done; return its status."""
        if not self._calls.closed:
            self._calls.close()
            self._process.kill()  # has no effect if it has ended
            self._process.wait()
            shutil.rmtree(temporary_folder(self._process.pid), ignore_errors=True)
            IDLE.append(Worker())
        return self._process.wait()


def _error_of(status: int) -> QueryRefused:
    """Return the error of a query whose process has ended."""
    if status == -signal.SIGALRM:
        return QueryRefused(f"{LIMITS.time_error()}: {LIMIT_ADVICE.format(SECONDS_VARIABLE)}")
    if status < 0:
        return QueryRefused(f"{killed_error(-status)}: query less data")
    return QueryRefused("stopped: its process ended, the server's log has the reason")


IDLE: list[Worker] = []
"""Processes without a connection. A fork of the server may not use those of the server."""
os.register_at_fork(after_in_child=IDLE.clear)


class Connection(ConnectionWrapper):
    """Connection for SQLAlchemy whose process checks each statement and limits each query."""

    def __init__(self, worker: Worker) -> None:
        """Use a process, which has opened some views, until the connection is closed."""
        super().__init__(worker)
        self._worker = worker

    def cursor(self) -> "Cursor":
        """Return a cursor of this connection."""
        return Cursor(self._worker, self)

    def begin(self) -> None:
        """Do nothing, because nothing can be written."""

    commit = rollback = begin

    def close(self) -> None:
        """Leave the process to the next connection."""
        if not self.closed:
            self.closed = True
            with suppress(QueryRefused):  # it has ended, and another one has taken its place
                self._worker.ask("close")
                IDLE.append(self._worker)


class Cursor(CursorWrapper):
    """Cursor through which all statements of Superset pass."""

    description: list[tuple] | None = None
    rowcount = -1

    def __init__(self, worker: Worker, connection: Connection) -> None:
        """Make a cursor of a connection."""
        super().__init__(worker, connection)
        self._worker = worker

    def execute(self, statement: str, parameters: Any = None, context: Any = None) -> None:
        """Run a query, or give the steps of its plan; refuse all other statements."""
        names = self._worker.ask("execute", statement, parameters)
        self.description = [(name, *[None] * 6) for name in names]  # Superset reads no types

    def fetchone(self) -> Any:
        """Return the next row; None: there is none."""
        return self._worker.ask("fetch", "fetchone")

    def fetchmany(self, size: int = 1) -> list:
        """Return the next rows, at most `size`."""
        return self._worker.ask("fetch", "fetchmany", size)

    def fetchall(self) -> list:
        """Return all remaining rows."""
        return self._worker.ask("fetch", "fetchall")

    def executemany(self, *_: Any, **__: Any) -> None:
        """Refuse several statements at once."""
        raise QueryRefused("Superset runs only queries, one at a time")


def connect(countries: Set[str] | None) -> Connection:
    """Return a connection to the files of these countries' networks; None: all networks."""
    with VIEW_LOCKS[countries_key(countries)]:
        folder = country_views_folder(countries, VIEWS, HOME / "views")
    worker = _idle_worker()
    worker.ask("open", folder / VIEWS.name)
    return Connection(worker)


def _idle_worker() -> Worker:
    with suppress(IndexError):
        while True:
            if (worker := IDLE.pop()).is_alive():
                return worker
    return Worker()


def limit_process_memory() -> None:
    """Limit the memory of this process, which has the results of its threads' queries."""
    limit_process(2 * LIMITS.memory)


def last_publication() -> str:
    """Return an identifier of the warehouse's last publication."""
    return publication(VIEWS)
