"""Users' SQL over the tables: unless they mean more, it reads, and nothing but the warehouse."""

from __future__ import annotations

import re
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

EXPLAIN = re.compile(r"explain(\s+analyze)?(\s*\((\s*(analyze|format\s+\w+)\s*,?)+\))?\s", re.I)
PRAGMA = re.compile(
    r"pragma\s+(collations|database_list|database_size|functions|platform|show\w*|storage_info"
    r"|table_info|version)\b",
    re.IGNORECASE,
)
"""Those that read."""
AT_ONCE = 1000
"""Rows that are fetched together."""


class Answer:
    """The answer to a query, made as it is fetched."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, query: str, limits: Limits):
        self._connection, self._query = connection, query
        self._deadline = Deadline(connection, limits.seconds)

    def columns_and_rows(self) -> tuple[list[str], Iterator[tuple[Any, ...]]] | None:
        """The columns' names, and the rows, of which a few are in memory at a time; None where the
        query gives no rows. Raises duckdb.Error, as do the rows."""
        self._connection.execute(self._query)
        if self._connection.description is None:
            return None
        names = [name for name, *_ in self._connection.description]
        return names, self._rows(self._connection.fetchmany(AT_ONCE))

    def _rows(self, some: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        import duckdb

        while some:
            yield from some
            if self._deadline.is_over:
                raise duckdb.InterruptException
            some = self._connection.fetchmany(AT_ONCE)

    def show(self, max_width: int, max_rows: int) -> None:
        """Print it as a table, but for rows in its midst. Raises duckdb.Error."""
        relation = self._connection.sql(self._query)
        if relation is not None:
            relation.show(max_width=max_width, max_rows=max_rows)

    @property
    def is_late(self) -> bool:
        """Whether its time is up."""
        return self._deadline.is_over

    def end(self) -> None:
        """Let the query go."""
        self._deadline.end()
        self._connection.close()


@contextmanager
def asked(
    warehouse: Warehouse,
    query: str,
    limits: Limits,
    write: bool = False,
    at: datetime | None = None,
) -> Iterator[Answer]:
    """The answer to a query, to be read within its limits.

    write: all that DuckDB can, files anywhere included; else one query that reads the warehouse.
    at: of the tables as they were then.
    Raises UserError where that is not what it does or it went beyond its limits, and duckdb.Error.
    """
    import duckdb

    if not write:
        query = reading(query)
    connection, root = warehouse.connect(query, at), warehouse.root.resolve()
    settings = {
        "python_enable_replacements": False,
        "temp_directory": str(Path(tempfile.gettempdir(), f"giscope-{uuid.uuid4().hex}")),
        **limits.settings(),
    }
    if not write:
        settings |= {
            # As it is called, and as the views call it (see duckdb_paths).
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
        if not answer.is_late:
            raise KeyboardInterrupt from error
        raise UserError(
            f"sql: {limits.time_error()}; for a longer query say --time-limit SECONDS (0: no limit)"
        ) from error
    except (duckdb.OutOfMemoryException, MemoryError) as error:
        raise UserError(
            f"sql: {limits.memory_error()}; for a larger query say --memory-limit SIZE, or ask for "
            "fewer days or columns"
        ) from error
    finally:
        answer.end()


def reading(query: str) -> str:
    """A query that answers as this one does and cannot write: in a FROM clause, at any depth,
    DuckDB takes nothing that changes a table or a file.

    Raises UserError where the text is something else than one query, and duckdb.Error.
    """
    import duckdb

    kinds = duckdb.StatementType
    statements = duckdb.extract_statements(query)
    if len(statements) == 1:
        (statement,) = statements
        text = _without_end(statement.query)
        if statement.type == kinds.PRAGMA and PRAGMA.match(text):
            return text
        explain = EXPLAIN.match(text)
        head = explain.group() if explain else ""
        asked = f"{head}from ({text[len(head) :]}\n)"
        if statement.type in (kinds.SELECT, kinds.MULTI, kinds.EXPLAIN) and _parses(asked):
            return asked
    raise UserError(
        "sql: takes one query (select, from, with, values, show, describe, summarize, pivot, "
        "explain) and only reads; for anything else say --write"
    )


def _without_end(statement: str) -> str:
    """It without semicolons and what follows them."""
    import duckdb

    text = statement.encode()
    for at, kind in reversed(duckdb.tokenize(statement)):
        if text[at : at + 1] == b";":
            text = text[:at]
        elif kind != duckdb.token_type.comment:
            break
    return text.decode()


def _parses(query: str) -> bool:
    import duckdb

    try:
        duckdb.extract_statements(query)
    except duckdb.ParserException:
        return False
    return True
