"""Users' SQL over the tables: unless they mean more, it reads, and nothing but the warehouse."""

from __future__ import annotations

import re
import tempfile
import uuid
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.errors import UserError
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


def ask(
    warehouse: Warehouse, query: str, write: bool = False, at: datetime | None = None
) -> duckdb.DuckDBPyRelation | None:
    """The answer to a query, made as it is fetched; None where it gives no rows.

    write: all that DuckDB can, files anywhere included; else one query that reads the warehouse.
    at: of the tables as they were then.
    Raises UserError where that is not what it does, and duckdb.Error.
    """
    import duckdb

    if not write:
        query = reading(query)
    connection, root = warehouse.connect(query, at), warehouse.root.resolve()
    settings = {
        "python_enable_replacements": False,
        "temp_directory": str(Path(tempfile.gettempdir(), f"giscope-{uuid.uuid4().hex}")),
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
    return connection.sql(query)


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
