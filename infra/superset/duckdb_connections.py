"""Superset's connections to DuckDB: they run only queries, on only the rows that a user may see."""

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Set
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import duckdb

# Superset's environment has no giscope: modules that need no others come from the sources.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from country_views import FOLDERS_FILE, countries_key, country_views_folder, publication
from duckdb_engine import ConnectionWrapper, CursorWrapper
from query_plans import statement_of_plan, steps_of_plan

from spark_jobs.figures.sql_functions import register
from spark_jobs.query_guard import QueryRefused, require_query
from spark_jobs.query_limits import (
    MEMORY,
    MEMORY_VARIABLE,
    SECONDS_VARIABLE,
    SUPERSET_SECONDS,
    Deadline,
    Limits,
    limit_process,
)
from spark_jobs.view_sql import string_literal

HOME = Path(os.environ["SUPERSET_HOME"]).resolve()
VIEWS = Path(os.environ["GISCOPE_WAREHOUSE"]).resolve() / "warehouse.duckdb"
LIMITS = Limits.of(
    os.environ.get(SECONDS_VARIABLE, SUPERSET_SECONDS), os.environ.get(MEMORY_VARIABLE, MEMORY)
)
"""Limits of a query, of SQL Lab or of a chart.

The memory is shared by all queries that see the same countries in one process of the server.
"""
PROCESS_MEMORY_FACTOR = 4
"""Memory of one process of the server for all its queries, in multiples of a query's memory."""
LIMIT_ADVICE = "query less data, or ask Superset's administrator to raise {}"
SETTINGS = {
    "python_enable_replacements": False,
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
}
STEPS = """
    select step, estimated_rows::bigint as estimated_rows, rows::bigint as rows,
        round(seconds, 6) as seconds, details
    from (select unnest($1, recursive := true))
"""
VIEW_LOCKS: dict[str, Lock] = defaultdict(Lock)
"""Lock for each set of countries, held while its views are made."""
OPEN_LOCK = Lock()


class Connection(ConnectionWrapper):
    """Connection for SQLAlchemy whose cursors check each statement and limit each query."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Wrap a connection of DuckDB."""
        super().__init__(connection)
        self._connection = connection

    def cursor(self) -> "Cursor":
        """Return a cursor of this connection."""
        return Cursor(self._connection, self)


class Cursor(CursorWrapper):
    """Cursor through which all statements of Superset pass."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, wrapper: Connection) -> None:
        """Make a cursor of a connection of DuckDB."""
        super().__init__(connection, wrapper)
        self._connection = connection
        self._remaining_s = LIMITS.seconds

    def execute(self, statement: str, parameters: Any = None, context: Any = None) -> None:
        """Run a query, or give the steps of its plan; refuse all other statements."""
        require_query(statement)
        self._remaining_s = LIMITS.seconds
        with self._within_limits():
            if plan_statement := statement_of_plan(statement):
                [(_, plan)] = self._connection.execute(plan_statement).fetchall()
                self._connection.execute(STEPS, [steps_of_plan(plan)])
            else:
                super().execute(statement, parameters, context)
        # Superset keeps the description of a first statement at the cursor, also for a second one.
        self.description = self._connection.description

    def fetchone(self) -> Any:
        """Return the next row; None: there is none."""
        with self._within_limits():
            return self._connection.fetchone()

    def fetchmany(self, size: int = 1) -> list:
        """Return the next rows, at most `size`."""
        with self._within_limits():
            return self._connection.fetchmany(size)

    def fetchall(self) -> list:
        """Return all remaining rows."""
        with self._within_limits():
            return self._connection.fetchall()

    @contextmanager
    def _within_limits(self) -> Iterator[None]:
        """Stop the query when its remaining time ends; DuckDB may run it while rows are fetched."""
        deadline, began = Deadline(self._connection, self._remaining_s), time.monotonic()
        try:
            yield
        except duckdb.InterruptException:
            raise QueryRefused(
                f"{LIMITS.time_error()}: {LIMIT_ADVICE.format(SECONDS_VARIABLE)}"
            ) from None
        except (duckdb.OutOfMemoryException, MemoryError):
            raise QueryRefused(
                f"{LIMITS.memory_error()}: {LIMIT_ADVICE.format(MEMORY_VARIABLE)}"
            ) from None
        finally:
            deadline.end()
            if LIMITS.seconds:
                self._remaining_s = max(0.001, self._remaining_s - (time.monotonic() - began))

    def executemany(self, *_: Any, **__: Any) -> None:
        """Refuse several statements at once."""
        raise QueryRefused("Superset runs only queries, one at a time")


def connect(countries: Set[str] | None) -> Connection:
    """Return a connection to the files of these countries' networks; None: all networks."""
    with VIEW_LOCKS[countries_key(countries)]:
        folder = country_views_folder(countries, VIEWS, HOME / "views")
    with OPEN_LOCK:
        connection = duckdb.connect(str(folder / VIEWS.name), read_only=True, config=SETTINGS)
        if not _are_settings_locked(connection):
            _set_and_lock(connection, json.loads((folder / FOLDERS_FILE).read_text()))
    return Connection(connection)


def limit_process_memory() -> None:
    """Limit the memory of this process."""
    limit_process(PROCESS_MEMORY_FACTOR * LIMITS.memory)


def last_publication() -> str:
    """Return an identifier of the warehouse's last publication."""
    return publication(VIEWS)


def _are_settings_locked(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether another open connection has set them; it shares settings and functions."""
    # All rows are fetched: before, DuckDB creates no functions.
    answer = connection.execute("select current_setting('lock_configuration')").fetchall()
    return answer[0][0]


def _set_and_lock(connection: duckdb.DuckDBPyConnection, folders: list[str]) -> None:
    register(connection)
    for setting, value in {
        "timezone": "'UTC'",
        "temp_directory": string_literal(str(HOME / "tmp")),
        **{name: string_literal(value) for name, value in LIMITS.settings().items()},
        "allowed_directories": f"[{', '.join(map(string_literal, folders))}]",
        "enable_external_access": "false",
        "lock_configuration": "true",
    }.items():
        connection.execute(f"set global {setting} = {value}")
