"""Users' SQL queries of the tables; by default they can only read, and only the warehouse."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.errors import UserError
from spark_jobs.query_limits import Deadline, Limits, process_within
from spark_jobs.warehouse.views import duckdb_paths

if TYPE_CHECKING:
    import duckdb

    from spark_jobs.warehouse.store import Warehouse

ROWS_PER_FETCH = 1000
"""Number of rows that are fetched together."""


class Answer:
    """The answer to a query, computed while it is fetched."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, query: str, limits: Limits):
        self._connection, self._query = connection, query
        self._deadline = Deadline(connection, limits.seconds)

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
            if self._deadline.is_over:
                raise duckdb.InterruptException
            batch = self._connection.fetchmany(ROWS_PER_FETCH)

    def show(self, max_width: int, max_rows: int) -> None:
        """Print the answer as a table, which leaves out rows in its middle. Raises duckdb.Error."""
        relation = self._connection.sql(self._query)
        if relation is not None:
            relation.show(max_width=max_width, max_rows=max_rows)

    @property
    def is_over_time(self) -> bool:
        """True if the query's time is over."""
        return self._deadline.is_over

    def close(self) -> None:
        """End the query and close its connection."""
        self._deadline.end()
        self._connection.close()


@contextmanager
def run_query(
    warehouse: Warehouse,
    query: str,
    limits: Limits,
    write: bool = False,
    as_of: datetime | None = None,
) -> Iterator[Answer]:
    """Run a query within limits; the context has its answer.

    write: allow all that DuckDB can do, also with files anywhere. Otherwise the text must be one
    query that only reads the warehouse. as_of: query the tables as they were at this time.

    Raises UserError if the text is not such a query, or the query exceeds its limits; and
    duckdb.Error.
    """
    import duckdb

    from spark_jobs.query_guard import QueryRefused, require_query

    try:
        if not write:
            require_query(query, any_read=True)
    except QueryRefused as error:
        raise UserError(
            "sql: takes one query (select, from, with, values, show, describe, summarize, pivot, "
            "explain) and only reads; for anything else use --write"
        ) from error
    connection, root = warehouse.connect(query, as_of), warehouse.root.resolve()
    settings = {
        "python_enable_replacements": False,
        "temp_directory": str(Path(tempfile.gettempdir(), f"giscope-{uuid.uuid4().hex}")),
        **limits.settings(),
    }
    if not write:
        settings |= {
            # The root's own name, and its name in the views (see duckdb_paths).
            "allowed_directories": [str(root), *duckdb_paths([root])],
            "enable_external_access": False,
            "lock_configuration": True,
        }
    for name, value in settings.items():
        connection.execute(f"set {name} = {duckdb.ConstantExpression(value)}")
    answer = Answer(connection, query, limits)
    try:
        with process_within(limits):
            yield answer
    except duckdb.InterruptException as error:
        if not answer.is_over_time:
            raise KeyboardInterrupt from error
        raise UserError(
            f"sql: {limits.time_error()}; for a longer query use --time-limit SECONDS (0: no limit)"
        ) from error
    except (duckdb.OutOfMemoryException, MemoryError) as error:
        raise UserError(
            f"sql: {limits.memory_error()}; for a larger query use --memory-limit SIZE, or ask for "
            "fewer days or columns"
        ) from error
    finally:
        answer.close()
