"""Process that runs the queries of one connection of Superset at a time, within limits.

The server's threads run queries of several users. Each query runs in such a process, which the
kernel ends when the query's time is over (spark_jobs/queries/limits.py), without harm to others. It
reads calls from its standard input, a socket, and writes their answers to it: as pickled
objects, so each value is the one that DuckDB gives.
"""

import json
import os
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import duckdb

# As in duckdb_connections.py.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from country_views import FOLDERS_FILE
from query_plans import statement_of_plan, steps_of_plan

from spark_jobs.figures.sql_functions import register
from spark_jobs.queries.guard import QueryRefused, require_query
from spark_jobs.queries.limits import (
    MEMORY,
    MEMORY_VARIABLE,
    SECONDS_VARIABLE,
    SUPERSET_SECONDS,
    Clock,
    Limits,
    limit_process,
)
from spark_jobs.queries.views import string_literal

HOME = Path(os.environ["SUPERSET_HOME"]).resolve()
LIMITS = Limits.of(
    os.environ.get(SECONDS_VARIABLE, SUPERSET_SECONDS), os.environ.get(MEMORY_VARIABLE, MEMORY)
)
"""Limits of a query, of SQL Lab or of a chart."""
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


class Session:
    """A connection to the views of a file, which runs only queries."""

    def __init__(self, views: Path) -> None:
        """Open the views."""
        self._connection = duckdb.connect(str(views), read_only=True, config=SETTINGS)
        self._clock = Clock(LIMITS.seconds)
        register(self._connection)
        folders = json.loads(views.with_name(FOLDERS_FILE).read_text())
        for setting, value in {
            "timezone": "'UTC'",
            "temp_directory": string_literal(str(temporary_folder(os.getpid()))),
            **{name: string_literal(value) for name, value in LIMITS.settings().items()},
            "allowed_directories": f"[{', '.join(map(string_literal, folders))}]",
            "enable_external_access": "false",
            "lock_configuration": "true",
        }.items():
            self._connection.execute(f"set global {setting} = {value}")

    def answer(self, call: str, *arguments: Any) -> Any:
        """Return what a method returns. A query's time runs only while it is asked for something.

        Raises QueryRefused if there is too little memory, and duckdb.Error.
        """
        if call == "execute":
            self._clock = Clock(LIMITS.seconds)
        self._clock.run()
        try:
            return getattr(self, call)(*arguments)
        except (duckdb.OutOfMemoryException, MemoryError):
            raise out_of_memory() from None
        except duckdb.InvalidInputException as error:
            # DuckDB raises this error if a function in Python raises MemoryError.
            if "MemoryError" not in str(error):
                raise
            raise out_of_memory() from None
        finally:
            self._clock.stop()

    def execute(self, statement: str, parameters: Any = None) -> list[str]:
        """Run a query, or make the steps of its plan; refuse all other statements.

        Returns the names of the columns.
        """
        require_query(statement)
        if plan_statement := statement_of_plan(statement):
            [(_, plan)] = self._connection.execute(plan_statement).fetchall()
            statement, parameters = STEPS, [steps_of_plan(plan)]
        self._connection.execute(statement, parameters)
        return [name for name, *_ in self._connection.description]

    def fetch(self, method: str, *size: int) -> Any:
        """Return rows, as this method of DuckDB's connections does."""
        return getattr(self._connection, method)(*size)

    def close(self) -> None:
        """Close the connection: nothing of it stays for the next user."""
        self._connection.close()


def out_of_memory() -> QueryRefused:
    """Return the error of a query that needs too much memory."""
    return QueryRefused(f"{LIMITS.memory_error()}: {LIMIT_ADVICE.format(MEMORY_VARIABLE)}")


def temporary_folder(process: int) -> Path:
    """Return the folder for temporary files of the queries of one process."""
    return HOME / f"tmp-{process}"


def serve(calls: Connection) -> None:
    """Answer calls until the other end is closed. An answer: whether it is no error; the result."""
    session: Any = None
    while True:
        call, *arguments = calls.recv()
        try:
            if call == "open":
                session = Session(*arguments)
                calls.send((True, None))
            elif call == "close":
                calls.send((True, session.close()))
            else:
                calls.send((True, session.answer(call, *arguments)))
        except MemoryError:
            calls.send((False, out_of_memory()))
        except Exception as error:
            calls.send((False, error))


def main() -> None:
    """Serve the process that has started this one."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    limit_process(LIMITS.memory)
    with suppress(EOFError, ConnectionError):
        serve(Connection(sys.stdin.fileno()))


if __name__ == "__main__":
    main()
