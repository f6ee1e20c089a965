"""The marts' SQL over some of the tables' files, by DuckDB in this process or by Spark."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from schemas import Table
from spark_jobs.engine.tasks import by_spark
from spark_jobs.marts import functions
from spark_jobs.places import in_object_store
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.views import reach, rows_of, sql_type

GIB_A_CORE = 1
"""Memory of DuckDB, less than a worker's; what is more it writes to a folder."""


class Engine(Protocol):
    """What runs SQL, with functions.FUNCTIONS."""

    def read(self, table: Table, files: list[Path]) -> None:
        """Let a table be these files of it."""

    def view(self, name: str, query: str, keep: bool = False) -> None:
        """Name a query; keep: its rows too, for those that read it."""

    def table(self, name: str, query: str) -> None:
        """Name the rows of a query, which are few."""

    def rows(self, query: str, schema: pa.Schema) -> pa.Table:
        """The query's rows, with these columns, sorted by them all."""


@contextmanager
def engine(warehouse: Warehouse, at_once: int = 1) -> Iterator[Engine]:
    """Spark where it does the work (see at_most), else DuckDB; at_once: of how many that share the
    cores. Spark is asked for in the main thread alone: another would begin a second session."""
    if at_once == 1 and _is_spark(warehouse):
        from spark_jobs.engine.spark import in_one_line

        with in_one_line("marts"), by_spark_sql(warehouse) as spark:
            yield spark
    else:
        with by_duckdb(warehouse, at_once) as duck:
            yield duck


def at_most(warehouse: Warehouse) -> int:
    """How many engines can be at work at once: one of Spark, where it is asked to do the work (see
    engine/tasks.py) and can read the files; one of DuckDB for each core."""
    return 1 if _is_spark(warehouse) else _cores()


def _is_spark(warehouse: Warehouse) -> bool:
    if not by_spark():
        return False
    from spark_jobs.engine.spark import reads_object_stores, spark_session

    return not in_object_store(warehouse.root) or reads_object_stores(spark_session())


def _cores() -> int:
    return len(os.sched_getaffinity(0))


@contextmanager
def by_duckdb(warehouse: Warehouse, at_once: int = 1) -> Iterator[Engine]:
    """DuckDB on this machine's cores, or on its share of them where there are so many at once."""
    cores = max(1, _cores() // at_once)
    with (
        warehouse.staging() as staging,
        duckdb.connect(config={"temp_directory": str(staging.folder)}) as connection,
    ):
        connection.execute(f"set threads = {cores}")
        connection.execute(f"set memory_limit = '{GIB_A_CORE * cores}GiB'")
        connection.execute("set timezone = 'UTC'")
        reach(connection, warehouse.root)
        for statement in functions.duckdb_statements():
            connection.execute(statement)
        yield _DuckDB(connection)


class _DuckDB:
    def __init__(self, connection: duckdb.DuckDBPyConnection):
        self._connection = connection

    def read(self, table: Table, files: list[Path]) -> None:
        self.view(table.name, rows_of(table, files))

    def view(self, name: str, query: str, keep: bool = False) -> None:
        self._connection.execute(f"create temp {'table' if keep else 'view'} {name} as {query}")

    def table(self, name: str, query: str) -> None:
        self.view(name, query, keep=True)

    def rows(self, query: str, schema: pa.Schema) -> pa.Table:
        return self._connection.sql(_cast(query, schema)).to_arrow_table().cast(schema)


def _cast(query: str, schema: pa.Schema) -> str:
    columns = [f'cast("{f.name}" as {sql_type(f.type)}) as "{f.name}"' for f in schema]
    return f"select {', '.join(columns)} from ({query}) order by all"


@contextmanager
def by_spark_sql(warehouse: Warehouse) -> Iterator[Engine]:
    """Spark, with the session there is."""
    from spark_jobs.engine.spark import spark_session

    spark = spark_session()
    for statement in functions.spark_statements():
        spark.sql(statement)
    made = _Spark(spark, warehouse)
    try:
        yield made
    finally:
        for frame in made.kept:
            frame.unpersist()


class _Spark:
    def __init__(self, session: Any, warehouse: Warehouse):
        self._session, self._warehouse = session, warehouse
        self.kept: list[Any] = []

    def read(self, table: Table, files: list[Path]) -> None:
        from spark_jobs.warehouse.spark_sql import read_table

        frame = read_table(self._session, self._warehouse, table, files)
        frame.createOrReplaceTempView(table.name)

    def view(self, name: str, query: str, keep: bool = False) -> None:
        frame = self._session.sql(functions.translate_to_spark(query))
        if keep:
            self.kept.append(frame.cache())
        frame.createOrReplaceTempView(name)

    def table(self, name: str, query: str) -> None:
        """The driver has the rows: Spark fails to plan views of views of views with functions."""
        rows = self._session.sql(functions.translate_to_spark(query)).toArrow()
        self._session.createDataFrame(rows).createOrReplaceTempView(name)

    def rows(self, query: str, schema: pa.Schema) -> pa.Table:
        rows = self._session.sql(functions.translate_to_spark(query)).toArrow()
        rows = rows.select(schema.names).cast(schema)
        return rows.sort_by([(name, "ascending") for name in schema.names])
