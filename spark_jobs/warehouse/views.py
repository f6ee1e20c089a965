"""The tables as DuckDB views over their Parquet files, with the schemas' words as comments."""

from collections.abc import Mapping
from pathlib import Path

import duckdb

from schemas import Table


def create_views(connection: duckdb.DuckDBPyConnection, tables: Mapping[Table, list[Path]]) -> None:
    """One view a table, empty where it has no files."""
    for table, files in tables.items():
        connection.execute(_view(table, _types(connection, table), files))
        connection.execute(f'comment on view "{table.name}" is {_text(f"one row is {table.row}")}')
        for column in (*table.partitions, *table.columns):
            connection.execute(
                f'comment on column "{table.name}"."{column.name}" is {_text(column.comment)}'
            )


def _view(table: Table, types: dict[str, str], files: list[Path]) -> str:
    """Files of an earlier version may lack columns: these are null there."""
    nulls = ", ".join(f'cast(null as {type_}) as "{name}"' for name, type_ in types.items())
    create = f'create view "{table.name}" as'
    empty = f"select {nulls} where false"
    if not files:
        return f"{create} {empty}"
    names = ", ".join(f'"{name}"' for name in types)
    paths = ", ".join(_text(str(path.resolve())) for path in files)
    hive = ", ".join(f"{_text(c.name)}: {_text(types[c.name])}" for c in table.partitions)
    return (
        f"{create} select {names} from ({empty} union all by name select * from read_parquet("
        f"[{paths}], union_by_name = true, hive_partitioning = true, hive_types = {{{hive}}}))"
    )


def _types(connection: duckdb.DuckDBPyConnection, table: Table) -> dict[str, str]:
    """Each column's type in SQL."""
    rows = connection.from_arrow(table.arrow_with_partitions.empty_table())
    return {name: str(type_) for name, type_ in zip(rows.columns, rows.types, strict=True)}


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
