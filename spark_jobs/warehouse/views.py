"""The tables as DuckDB views over their Parquet files, with the schemas' comments."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from schemas import PARTITION_COLUMNS, Table
from schemas.arrow_types import ARROW_TYPES
from spark_jobs.base.errors import FullDiskError, UserError, quoted_error
from spark_jobs.base.places import in_object_store
from spark_jobs.base.sources import cache_folder
from spark_jobs.queries import views as view_sql
from spark_jobs.queries.views import (
    CHECKS,
    PUBLISHED,
    Column,
    Description,
    Files,
    View,
    quoted_path,
    write_description,
)
from spark_jobs.warehouse.disk import replacing
from spark_jobs.warehouse.files import REMEDY
from spark_jobs.warehouse.targets import has_columns_of
from spark_jobs.warehouse.units import fingerprint

if TYPE_CHECKING:
    import duckdb

READS_ALL_TABLES = re.compile(
    r"\b(show|desc|describe|summarize|pragma|export|import|copy|query\w*|information_schema"
    r"|pg_\w+|duckdb_\w+|sqlite_\w+)\b",
    re.IGNORECASE,
)
"""Words of queries that read all tables, or tables that they do not name."""
NO_CACHE = OSError, RuntimeError, FullDiskError
"""Errors of a cache that cannot be read or written; RuntimeError: the user has no home."""
CACHED_VIEWS = "views"
"""The file, in the user's cache, with views that read no files yet."""
OWNER = PARTITION_COLUMNS[0]
"""The column with the network to which a row belongs, and so to which country."""
SQL_TYPES = {
    pa.string(): "VARCHAR",
    pa.bool_(): "BOOLEAN",
    pa.float64(): "DOUBLE",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.date32(): "DATE",
    pa.timestamp("us", "UTC"): "TIMESTAMP WITH TIME ZONE",
}


def may_read(query: str, name: str) -> bool:
    """Return whether a query may read a table.

    It has the table's name, or reads all tables; a view without held days also reads the checks.
    """
    text = query.lower()
    return (
        name.lower() in text or (name == CHECKS and PUBLISHED in text) or may_read_comments(query)
    )


def may_read_comments(query: str) -> bool:
    """Return whether a query may read the comments of tables, or tables that it does not name."""
    return READS_ALL_TABLES.search(query) is not None


def create_views(
    connection: duckdb.DuckDBPyConnection,
    tables: Mapping[Table, list[Path]],
    with_comments: bool = False,
) -> None:
    """Create a view for each table, empty if the table has no files.

    Raises UserError if a file cannot be read.
    """
    import duckdb

    views = [view_of(*item) for item in tables.items()]
    try:
        view_sql.create_views(connection, views, with_comments)
    except duckdb.Error as error:
        raise UserError(quoted_error(error) or f"{str(error).splitlines()[0]}: {REMEDY}") from error


def write_views(path: Path, tables: Mapping[Table, list[Path]]) -> None:
    """Write a DuckDB database with the tables' views, and their description (queries/views.py).

    Raises UserError or OSError if the disk is full.
    """
    import duckdb

    roots = [file for files in tables.values() for file in files[:1]]
    views = [view_of(*item) for item in tables.items()]
    try:
        path.write_bytes(_views_without_files((*tables,)))
        with duckdb.connect(path) as connection:
            register_object_store(connection, *roots)
            connection.begin()
            for view in views:
                if view.files:
                    connection.execute(view_sql.macro_statement(view))
            networks = connection.execute("select network, country from networks order by all")
            write_description(connection, Description(dict(networks.fetchall()), views))
            connection.commit()
            connection.execute("checkpoint")  # close() would not report an error of it
    except duckdb.Error as error:
        raise UserError(quoted_error(error) or f"{path}: {str(error).splitlines()[0]}") from error


@cache
def _views_without_files(tables: tuple[Table, ...]) -> bytes:
    """Return a DuckDB database with views of these tables that read no files yet.

    It is made once and kept in the user's cache, because commenting on all columns takes long.
    """
    import duckdb

    views = [view_of(table, []) for table in tables]
    statements = [
        f"create schema {view_sql.SCHEMA}",
        *map(view_sql.macro_statement, views),
        *view_sql.view_statements(views, view_sql.macro_query),
    ]
    stamp = fingerprint(statements, duckdb.__version__)
    with suppress(*NO_CACHE):
        head, _, found = (cache_folder() / CACHED_VIEWS).read_bytes().partition(b"\n")
        if head == _head(stamp, found):
            return found
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "views"
        with duckdb.connect(path) as connection:
            connection.begin()
            for statement in statements:
                connection.execute(statement)
            connection.commit()
            connection.execute("checkpoint")  # see write_views
        made = path.read_bytes()
    with suppress(*NO_CACHE):
        cache_folder().mkdir(parents=True, exist_ok=True)
        with replacing(cache_folder() / CACHED_VIEWS, len(made)) as temporary:
            temporary.write_bytes(_head(stamp, made) + b"\n" + made)
    return made


def _head(stamp: str, content: bytes) -> bytes:
    """Return the first line of CACHED_VIEWS, by which a damaged file is detected."""
    return f"{stamp} {fingerprint(content)}".encode()


def view_of(table: Table, files: Iterable[Path]) -> View:
    """Return the description of a table's view of some of its files.

    A table's rows belong to the network in whose folder they are. If the table has no column of
    networks, and so no such folders, its rows belong to no network.
    """
    owner = OWNER.name if OWNER in table.partitions else None
    groups: dict[tuple, Files] = {}
    for path in files:
        network, folder, name = _place(path, owner)
        layout = table.layout if has_columns_of(table, path) else ""
        group = groups.setdefault((folder, layout), Files(network, folder, [], layout))
        group.names.append(name)
    partitions, columns = (
        [Column(c.name, sql_type(ARROW_TYPES[c.stored_type]), c.comment) for c in columns]
        for columns in (table.partitions, table.columns)
    )
    row = f"one row is {table.row}"
    return View(table.name, row, owner, partitions, columns, [*groups.values()])


def _place(path: Path, owner: str | None) -> tuple[str | None, str, str]:
    """Return a file's network, the network's folder, and the file's path in this folder."""
    before, is_owned, rest = str(path.absolute()).rpartition(f"/{owner}=")
    if not (owner and is_owned):
        return None, str(path.absolute().parent), path.name
    network, _, name = rest.partition("/")
    return network, f"{before}/{owner}={network}", name


def files_query(table: Table, files: list[Path]) -> str:
    """Return the query that reads a table's files (see view_sql.query_of)."""
    return view_sql.query_of(view_of(table, files))


def duckdb_paths(files: Iterable[Path]) -> list[str]:
    """Return files' paths for DuckDB's read_parquet, to which *, ? and [ are wildcards."""
    return [quoted_path(str(path.absolute())) for path in files]


def register_object_store(connection: duckdb.DuckDBPyConnection, *roots: Path) -> None:
    """Enable DuckDB to read files below these roots, also in an object store."""
    if any(map(in_object_store, roots)):
        from spark_jobs.warehouse.object_store_fsspec import ObjectStores

        connection.register_filesystem(ObjectStores())


def sql_type(type_: pa.DataType) -> str:
    """Return a column's type in SQL. Raises KeyError for types that no table has."""
    if pa.types.is_list(type_):
        return f"{sql_type(type_.value_type)}[]"
    if pa.types.is_map(type_):
        return f"MAP({sql_type(type_.key_type)}, {sql_type(type_.item_type)})"
    return SQL_TYPES[type_]
