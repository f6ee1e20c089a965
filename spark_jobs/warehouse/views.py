"""The tables as DuckDB views over their Parquet files, with the schemas' comments."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from schemas import Table
from schemas.former_names import renamed_columns
from spark_jobs.errors import UserError
from spark_jobs.places import in_object_store
from spark_jobs.warehouse.files import has_columns_of, read_metadata

if TYPE_CHECKING:
    import duckdb

READS_ALL_TABLES = re.compile(
    r"\b(show|desc|describe|summarize|pragma|export|import|copy|query\w*|information_schema"
    r"|pg_\w+|duckdb_\w+|sqlite_\w+)\b",
    re.IGNORECASE,
)
"""Words of queries that read all tables, or tables that they do not name."""
GLOB_CHARACTERS = re.compile(r"[*?[]")
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
    """Return whether a query may read a table: it has the table's name, or reads all tables."""
    return name.lower() in query.lower() or READS_ALL_TABLES.search(query) is not None


def create_views(connection: duckdb.DuckDBPyConnection, tables: Mapping[Table, list[Path]]) -> None:
    """Create a view for each table, empty if the table has no files.

    All are created in one transaction, for each transaction waits for the disk.
    """
    connection.begin()
    for table, files in tables.items():
        view = f'view "{table.name}" is {_sql_string(f"one row is {table.row}")}'
        comments = [
            f'column "{table.name}"."{column.name}" is {_sql_string(column.comment)}'
            for column in (*table.partitions, *table.columns)
        ]
        connection.execute(
            ";".join(
                [
                    f'create view "{table.name}" as {files_query(table, files)}',
                    *(f"comment on {text}" for text in (view, *comments)),
                ]
            )
        )
    connection.commit()


def write_views(path: Path, tables: Mapping[Table, list[Path]]) -> None:
    """Write a DuckDB database with the tables' views; see create_views.

    Raises UserError if the disk is full, which DuckDB does not report.
    """
    import duckdb

    roots = [file for files in tables.values() for file in files[:1]]
    try:
        with duckdb.connect(path) as connection:
            register_object_store(connection, *roots)
            create_views(connection, tables)
        with duckdb.connect(path, read_only=True) as connection:
            views = connection.execute("select view_name from duckdb_views() where not internal")
            created = {name for (name,) in views.fetchall()}
    except duckdb.Error as error:
        raise UserError(f"{path}: {str(error).splitlines()[0]}") from error
    if created != {table.name for table in tables}:
        raise UserError(f"{path}: cannot be written completely: is its disk full?")


def files_query(table: Table, files: list[Path]) -> str:
    """Return the query that reads a table's files.

    A column that a file of an earlier version lacks is null. To see the columns of files, DuckDB
    opens each of them. Of files whose names show the present columns, it opens only the first, and
    then those that a query needs.
    """
    types = {field.name: sql_type(field.type) for field in table.arrow_with_partitions}
    nulls = ", ".join(f'cast(null as {type_}) as "{name}"' for name, type_ in types.items())
    present = [path for path in files if has_columns_of(table, path)]
    earlier = [path for path in files if not has_columns_of(table, path)]
    by_names: dict[tuple[tuple[str, str], ...], list[Path]] = defaultdict(list)
    for path in earlier:
        renamed = renamed_columns(table.name, read_metadata(path).schema.names)
        by_names[(*renamed.items(),)].append(path)
    parts = [
        f"select {nulls} where false",
        *([_read(table, present, True)] if present else []),
        *(_read(table, group, False, renamed) for renamed, group in by_names.items()),
    ]
    return " union all by name ".join(parts)


def _read(
    table: Table,
    files: list[Path],
    same_columns: bool,
    renamed: Iterable[tuple[str, str]] = (),
) -> str:
    """Return the query that reads files with their partition columns.

    same_columns: all files have the same columns. renamed: columns with former names, and today's.
    """
    columns = ", ".join(f'"{former}" as "{name}"' for former, name in renamed)
    rename = f"rename ({columns}) " if columns else ""
    paths = ", ".join(map(_sql_string, duckdb_paths(files)))
    hive = ", ".join(
        f"{_sql_string(c.name)}: {_sql_string(sql_type(c.stored_type))}" for c in table.partitions
    )
    return (
        f"select * {rename}from read_parquet([{paths}], union_by_name = {not same_columns}, "
        f"hive_partitioning = true, hive_types = {{{hive}}})"
    )


def duckdb_paths(files: Iterable[Path]) -> list[str]:
    """Return files' paths for DuckDB's read_parquet, to which *, ? and [ are wildcards."""
    return [GLOB_CHARACTERS.sub(r"[\g<0>]", str(path.absolute())) for path in files]


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


def _sql_string(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
