"""The tables as DuckDB views over their Parquet files, with the schemas' words as comments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from schemas import Table
from spark_jobs.errors import UserError
from spark_jobs.places import in_object_store
from spark_jobs.warehouse.staging import has_columns_of

if TYPE_CHECKING:
    import duckdb

CATALOG = re.compile(
    r"\b(show|desc|describe|summarize|pragma|export|import|copy|query\w*|information_schema"
    r"|pg_\w+|duckdb_\w+|sqlite_\w+)\b",
    re.IGNORECASE,
)
"""What asks of all tables, or of some by no name."""
PATTERN = re.compile(r"[*?[]")
SQL_TYPES = {
    pa.string(): "VARCHAR",
    pa.bool_(): "BOOLEAN",
    pa.float64(): "DOUBLE",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.date32(): "DATE",
    pa.timestamp("us", "UTC"): "TIMESTAMP WITH TIME ZONE",
}


def may_ask(query: str, name: str) -> bool:
    """Whether a query may be about a table: it has its name, or asks of the catalog."""
    return name.lower() in query.lower() or CATALOG.search(query) is not None


def create_views(connection: duckdb.DuckDBPyConnection, tables: Mapping[Table, list[Path]]) -> None:
    """One view a table, empty where it has no files. All in one transaction: each would wait for
    the disk."""
    connection.begin()
    for table, files in tables.items():
        view = f'view "{table.name}" is {_text(f"one row is {table.row}")}'
        comments = [
            f'column "{table.name}"."{column.name}" is {_text(column.comment)}'
            for column in (*table.partitions, *table.columns)
        ]
        connection.execute(
            ";".join(
                [
                    f'create view "{table.name}" as {rows_of(table, files)}',
                    *(f"comment on {text}" for text in (view, *comments)),
                ]
            )
        )
    connection.commit()


def write_views(path: Path, tables: Mapping[Table, list[Path]]) -> None:
    """A DuckDB database with the tables' views; see create_views. A UserError where its disk is
    full, which DuckDB does not tell."""
    import duckdb

    roots = [file for files in tables.values() for file in files[:1]]
    try:
        with duckdb.connect(path) as connection:
            reach(connection, *roots)
            create_views(connection, tables)
        with duckdb.connect(path, read_only=True) as connection:
            views = connection.execute("select view_name from duckdb_views() where not internal")
            there = {name for (name,) in views.fetchall()}
    except duckdb.Error as error:
        raise UserError(f"{path}: {str(error).splitlines()[0]}") from error
    if there != {table.name for table in tables}:
        raise UserError(f"{path}: cannot be written whole: is its disk full?")


def rows_of(table: Table, files: list[Path]) -> str:
    """The query that reads these files. Files of an earlier version may lack columns: these are
    null there. To see which they have, DuckDB opens each of them; of those that are named for the
    present columns only the first, and then those that a query asks for."""
    types = {field.name: sql_type(field.type) for field in table.arrow_with_partitions}
    nulls = ", ".join(f'cast(null as {type_}) as "{name}"' for name, type_ in types.items())
    present = [path for path in files if has_columns_of(table, path)]
    earlier = [path for path in files if not has_columns_of(table, path)]
    parts = [
        f"select {nulls} where false",
        *(_read(table, some, same) for some, same in ((present, True), (earlier, False)) if some),
    ]
    return " union all by name ".join(parts)


def _read(table: Table, files: list[Path], same: bool) -> str:
    """A query that reads files with their partition columns; same: all have the same columns."""
    paths = ", ".join(map(_text, duckdb_paths(files)))
    hive = ", ".join(f"{_text(c.name)}: {_text(sql_type(c.stored_type))}" for c in table.partitions)
    return (
        f"select * from read_parquet([{paths}], union_by_name = {not same}, "
        f"hive_partitioning = true, hive_types = {{{hive}}})"
    )


def duckdb_paths(files: Iterable[Path]) -> list[str]:
    """Files for DuckDB's read_parquet, to which *, ? and [ stand for others."""
    return [PATTERN.sub(r"[\g<0>]", str(path.absolute())) for path in files]


def reach(connection: duckdb.DuckDBPyConnection, *roots: Path) -> None:
    """Let DuckDB read files below these, wherever they are."""
    if any(map(in_object_store, roots)):
        from spark_jobs.warehouse.object_store_fsspec import ObjectStores

        connection.register_filesystem(ObjectStores())


def sql_type(type_: pa.DataType) -> str:
    """A column's type in SQL. Raises KeyError: no table has such a column so far."""
    if pa.types.is_list(type_):
        return f"{sql_type(type_.value_type)}[]"
    if pa.types.is_map(type_):
        return f"MAP({sql_type(type_.key_type)}, {sql_type(type_.item_type)})"
    return SQL_TYPES[type_]


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
