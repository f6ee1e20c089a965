"""Users' SQL queries of the tables; by default they can only read, and only the warehouse."""

from __future__ import annotations

import ctypes
import math
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from threading import Timer
from typing import TYPE_CHECKING, Any

from spark_jobs.base.errors import UserError, quoted_error
from spark_jobs.queries.limits import Clock, Limits, killed_error, limit_process
from spark_jobs.warehouse.views import duckdb_paths

if TYPE_CHECKING:
    import duckdb

    from spark_jobs.warehouse.store import Warehouse

ROWS_PER_FETCH = 1000
"""Number of rows that are fetched together."""
GRACE_S = 1
"""Time that a query has to end after it is interrupted, before its process is killed."""
DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux's prctl."""


class Answer:
    """The answer to a query, computed while it is fetched."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, query: str):
        self._connection, self._query = connection, query
        self._until = math.inf
        self._interrupt = Timer(0, connection.interrupt)

    def limit_process(self, limits: Limits) -> None:
        """Limit this process, from now on, to a query's memory and time. Call it in a fork.

        The time limit starts again from now. A query is first interrupted: it then removes a file
        that it was writing.
        """
        limit_process(2 * limits.memory)
        if limits.seconds:
            self._until = time.monotonic() + limits.seconds
            Clock(limits.seconds + GRACE_S).run()
            self._interrupt.interval = limits.seconds
            self._interrupt.start()

    def columns_and_rows(self) -> tuple[list[str], Iterator[tuple[Any, ...]]] | None:
        """Return the columns' names and an iterator of rows; None if the query returns no rows.

        A few rows are in memory at a time. Raises duckdb.Error, and so does the iterator.
        """
        self._connection.execute(self._query)
        if self._connection.description is None:
            return None
        names = [name for name, *_ in self._connection.description]
        return names, self._rows(self._connection.fetchmany(ROWS_PER_FETCH))

    def _rows(self, batch: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        import duckdb

        while batch:
            yield from batch
            if time.monotonic() > self._until:  # an interrupt between two calls has no effect
                raise duckdb.InterruptException
            batch = self._connection.fetchmany(ROWS_PER_FETCH)

    def show(self, max_width: int, max_rows: int) -> None:
        """Print the answer as a table, which leaves out rows in its middle. Raises duckdb.Error."""
        relation = self._connection.sql(self._query)
        if relation is not None:
            relation.show(max_width=max_width, max_rows=max_rows)

    def close(self) -> None:
        """End the query and close its connection."""
        self._interrupt.cancel()
        if self._interrupt.is_alive():
            self._interrupt.join()
        self._connection.close()


def run_in_fork(work: Callable[[], int], limits: Limits) -> int:
    """Return the exit status of work(), which runs a query within limits in a fork.

    Its clock, Ctrl-C or the end of this process end the fork at once, whatever it does. Call it
    before threads run, whose locks a fork would inherit: those of an object store, for example.

    Raises UserError if a signal ends the fork, and KeyboardInterrupt.
    """
    sys.stdout.flush()
    if not (fork := os.fork()):
        status = 1
        try:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
            if limits.seconds:
                Clock(limits.seconds + GRACE_S).run()
            status = work()
        except Exception:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError):
                    stream.flush()
            os._exit(status)
    try:
        status = os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])
    except BaseException:  # Ctrl-C, for example
        with suppress(ProcessLookupError, ChildProcessError):  # it has ended just now
            os.kill(fork, signal.SIGKILL)
            os.waitpid(fork, 0)
        raise
    if status == -signal.SIGINT:
        raise KeyboardInterrupt
    if status == -signal.SIGALRM:
        raise _time_error(limits)
    if status < 0:
        raise _memory_error(killed_error(-status))
    return status


def _time_error(limits: Limits) -> UserError:
    return UserError(
        f"sql: {limits.time_error()}; for a longer query use --time-limit SECONDS (0: no limit)"
    )


def _memory_error(message: str) -> UserError:
    return UserError(
        f"sql: {message}; for a larger query use --memory-limit SIZE, or ask for fewer days or "
        "columns"
    )


@contextmanager
def run_query(
    warehouse: Warehouse,
    query: str,
    limits: Limits,
    write: bool = False,
    as_of: datetime | None = None,
    temporary: str | None = None,
) -> Iterator[Answer]:
    """Run a query within DuckDB's limits; the context has its answer.

    write: allow all that DuckDB can do, also with files anywhere. Otherwise the text must be one
    query that only reads the warehouse. as_of: query the tables as they were at this time.
    temporary: the folder for temporary files; None: the query may write none

    Raises UserError, also inside the context, if the text is not such a query, if DuckDB cannot
    answer it, and if it exceeds its limits.
    """
    import duckdb

    from spark_jobs.queries.guard import QueryRefused, require_query

    try:
        if not write:
            require_query(query, any_read=True)
        connection = warehouse.connect(query, as_of)
        for name, value in _settings(warehouse, limits, write, temporary).items():
            connection.execute(f"set {name} = {duckdb.ConstantExpression(value)}")
        with closing(Answer(connection, query)) as answer:
            yield answer
    except QueryRefused as error:
        raise UserError(
            "sql: takes one query (select, from, with, values, show, describe, summarize, pivot, "
            "explain) and only reads; for anything else use --write"
        ) from error
    except duckdb.InterruptException as error:
        raise _time_error(limits) from error
    except (duckdb.OutOfMemoryException, MemoryError) as error:
        raise _memory_error(limits.memory_error()) from error
    except duckdb.Error as error:
        reason = _reason(error)
        if isinstance(error, duckdb.PermissionException) and not write:
            reason += "; --write reaches other files"
        raise UserError(quoted_error(error) or f"sql: {reason}") from error


def _settings(warehouse: Warehouse, limits: Limits, write: bool, temporary: str | None) -> dict:
    """Return DuckDB's settings for a query."""
    root = warehouse.root.resolve()
    settings = {
        "python_enable_replacements": False,
        "temp_directory": temporary or "",
        **limits.settings(),
    }
    if not write:
        settings |= {
            # The root's own name, and its name in the views (see duckdb_paths).
            "allowed_directories": [str(root), *duckdb_paths([root])],
            "enable_external_access": False,
            "lock_configuration": True,
        }
    return settings


def _reason(error: duckdb.Error) -> str:
    """Return DuckDB's message in one line, without the place in the query.

    A message about the query's names is whole, with candidates for a misspelt one. Of others the
    first line is enough: the next ones may quote rows.
    """
    import duckdb

    message, _, _ = str(error).partition("\n\nLINE ")
    first_line = message.splitlines()[0]
    if first_line.startswith("Catalog Error: Table"):
        # Tables that the query does not name have no views, so DuckDB's candidates are others.
        return f'{first_line} "show tables" lists the tables'
    if not isinstance(error, duckdb.BinderException | duckdb.CatalogException):
        return first_line
    return re.sub(r"\s*\n\s*", "; ", re.sub(r"(?<=[.:!])\s*\n\s*", " ", message.strip()))
