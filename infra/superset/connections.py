"""Superset's connections to DuckDB: to what their user may see, and for queries only."""

import json
import os
from collections import defaultdict
from collections.abc import Set
from pathlib import Path
from threading import Lock, Timer
from typing import Any

import duckdb
from duckdb_engine import ConnectionWrapper, CursorWrapper
from reach import FOLDERS, choice, publication, text, views_of
from statements import Refused, must_be_a_query

HOME = Path(os.environ["SUPERSET_HOME"]).resolve()
VIEWS = Path(os.environ["GISCOPE_WAREHOUSE"]).resolve() / "warehouse.duckdb"
LONGEST_S = 60
"""A query that takes longer is stopped: the pages need this machine, too."""
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

    def execute(self, statement: str, parameters: Any = None, context: Any = None) -> None:
        must_be_a_query(statement)
        limit = Timer(LONGEST_S, self._connection.interrupt)
        limit.start()
        try:
            super().execute(statement, parameters, context)
        except duckdb.InterruptException:
            raise Refused(f"stopped after {LONGEST_S} s") from None
        finally:
            limit.cancel()

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
        "allowed_directories": f"[{', '.join(map(text, folders))}]",
        "enable_external_access": "false",
        "lock_configuration": "true",
    }.items():
        connection.execute(f"set global {setting} = {value}")
