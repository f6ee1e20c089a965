"""Superset's connections to DuckDB: to what their user may see, and for queries only."""

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
from duckdb_engine import ConnectionWrapper, CursorWrapper
from reach import FOLDERS, choice, publication, text, views_of
from statements import Refused, must_be_a_query

# Beside this environment's modules: those of giscope that need no others.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from spark_jobs.query_limits import (
    MEMORY,
    MEMORY_VARIABLE,
    SECONDS_VARIABLE,
    SUPERSET_SECONDS,
    Deadline,
    Limits,
    limit_process,
)

HOME = Path(os.environ["SUPERSET_HOME"]).resolve()
VIEWS = Path(os.environ["GISCOPE_WAREHOUSE"]).resolve() / "warehouse.duckdb"
LIMITS = Limits.of(
    os.environ.get(SECONDS_VARIABLE, SUPERSET_SECONDS), os.environ.get(MEMORY_VARIABLE, MEMORY)
)
"""Of a query, also of a chart's; the memory is that of all queries that see the same countries,
in one of the server's processes."""
PROCESS = 4
"""Of a query's memory, what a process of the server may take for all of them together."""
RAISED = "ask for less, or have who runs Superset raise {}"
SETTINGS = {
    "python_enable_replacements": False,
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
}
MAKING: dict[str, Lock] = defaultdict(Lock)
"""By choice of countries."""
OPENING = Lock()


class Connection(ConnectionWrapper):
    """What SQLAlchemy takes for a connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        super().__init__(connection)
        self._connection = connection

    def cursor(self) -> "Cursor":
        return Cursor(self._connection, self)


class Cursor(CursorWrapper):
    """Every statement passes here, whoever asks."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, wrapper: Connection) -> None:
        super().__init__(connection, wrapper)
        self._connection = connection
        self._left_s = LIMITS.seconds

    def execute(self, statement: str, parameters: Any = None, context: Any = None) -> None:
        must_be_a_query(statement)
        self._left_s = LIMITS.seconds
        with self._within_limits():
            super().execute(statement, parameters, context)

    def fetchone(self) -> Any:
        with self._within_limits():
            return self._connection.fetchone()

    def fetchmany(self, size: int = 1) -> list:
        with self._within_limits():
            return self._connection.fetchmany(size)

    def fetchall(self) -> list:
        with self._within_limits():
            return self._connection.fetchall()

    @contextmanager
    def _within_limits(self) -> Iterator[None]:
        """Of what is left of the query's time; DuckDB may run it as its rows are fetched."""
        deadline, began = Deadline(self._connection, self._left_s), time.monotonic()
        try:
            yield
        except duckdb.InterruptException:
            raise Refused(f"{LIMITS.time_error()}: {RAISED.format(SECONDS_VARIABLE)}") from None
        except (duckdb.OutOfMemoryException, MemoryError):
            raise Refused(f"{LIMITS.memory_error()}: {RAISED.format(MEMORY_VARIABLE)}") from None
        finally:
            deadline.end()
            if LIMITS.seconds:
                self._left_s = max(0.001, self._left_s - (time.monotonic() - began))

    def executemany(self, *_: Any, **__: Any) -> None:
        raise Refused("only queries are run here, one at a time")


def connect(countries: Set[str] | None) -> Connection:
    """To the files of these countries' networks, or of all."""
    with MAKING[choice(countries)]:
        made = views_of(countries, VIEWS, HOME / "views")
    with OPENING:
        connection = duckdb.connect(str(made / VIEWS.name), read_only=True, config=SETTINGS)
        if not _is_locked(connection):
            _lock(connection, json.loads((made / FOLDERS).read_text()))
    return Connection(connection)


def keep_within_memory() -> None:
    """This process."""
    limit_process(PROCESS * LIMITS.memory)


def last_publication() -> str:
    """Another one whenever a job has published."""
    return publication(VIEWS)


def _is_locked(connection: duckdb.DuckDBPyConnection) -> bool:
    """Connections open at once share DuckDB's settings."""
    return connection.execute("select current_setting('lock_configuration')").fetchone()[0]


def _lock(connection: duckdb.DuckDBPyConnection, folders: list[str]) -> None:
    for setting, value in {
        "timezone": "'UTC'",
        "temp_directory": text(str(HOME / "tmp")),
        **{name: text(value) for name, value in LIMITS.settings().items()},
        "allowed_directories": f"[{', '.join(map(text, folders))}]",
        "enable_external_access": "false",
        "lock_configuration": "true",
    }.items():
        connection.execute(f"set global {setting} = {value}")
