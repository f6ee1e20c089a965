"""The marts' SQL over files of the tables, run by DuckDB in this process or by Spark."""

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
from spark_jobs.warehouse.views import files_query, register_object_store, sql_type

GIB_PER_CORE = 1
"""DuckDB's memory limit per core, less than a worker's; beyond that it writes to a folder."""


class Engine(Protocol):
    """An engine that runs SQL with functions.FUNCTIONS."""

    def read(self, table: Table, files: list[Path]) -> None:
        """Make a table available, with the rows of these files."""

    def view(self, name: str, query: str, cache: bool = False) -> None:
        """Give a query a name; cache: keep its rows, too, for several queries that read them."""

    def table(self, name: str, query: str) -> None:
        """Give the rows of a query, which are few, a name."""

    def rows(self, query: str, schema: pa.Schema) -> pa.Table:
        """Return a query's rows with these columns, sorted by all of them."""


@contextmanager
def engine(warehouse: Warehouse, concurrent: int = 1) -> Iterator[Engine]:
    """Return a context with an engine: Spark if it does the work (see max_engines), else DuckDB.

    concurrent: the number of engines that share the cores. Spark is used in the main thread only,
    for another thread would begin a second session.
    """
    if concurrent == 1 and _uses_spark(warehouse):
        from spark_jobs.engine.spark import as_user_error

        with as_user_error("marts"), by_spark_sql(warehouse) as spark:
            yield spark
    else:
        with by_duckdb(warehouse, concurrent) as duck:
            yield duck


def max_engines(warehouse: Warehouse) -> int:
    """Return the maximum number of engines that can run at the same time.

    This is one of Spark, if it does the work (see engine/tasks.py) and can read the files; else one
    of DuckDB for each core.
    """
    return 1 if _uses_spark(warehouse) else _cores()


def _uses_spark(warehouse: Warehouse) -> bool:
    if not by_spark():
        return False
    from spark_jobs.engine.spark import reads_object_stores, spark_session

    return not in_object_store(warehouse.root) or reads_object_stores(spark_session())


def _cores() -> int:
    return len(os.sched_getaffinity(0))


@contextmanager
def by_duckdb(warehouse: Warehouse, concurrent: int = 1) -> Iterator[Engine]:
    """Yield a DuckDB engine.

    It uses this machine's cores, or its share of them if several engines run at the same time.
    """
    cores = max(1, _cores() // concurrent)
    with (
        warehouse.staging() as staging,
        duckdb.connect(config={"temp_directory": str(staging.folder)}) as connection,
    ):
        connection.execute(f"set threads = {cores}")
        connection.execute(f"set memory_limit = '{GIB_PER_CORE * cores}GiB'")
        connection.execute("set timezone = 'UTC'")
        register_object_store(connection, warehouse.root)
        for statement in functions.duckdb_statements():
            connection.execute(statement)
        yield _DuckDB(connection)


class _DuckDB:
    def __init__(self, connection: duckdb.DuckDBPyConnection):
        self._connection = connection

    def read(self, table: Table, files: list[Path]) -> None:
        self.view(table.name, files_query(table, files))

    def view(self, name: str, query: str, cache: bool = False) -> None:
        self._connection.execute(f"create temp {'table' if cache else 'view'} {name} as {query}")

    def table(self, name: str, query: str) -> None:
        self.view(name, query, cache=True)

    def rows(self, query: str, schema: pa.Schema) -> pa.Table:
        return self._connection.sql(_cast(query, schema)).to_arrow_table().cast(schema)


def _cast(query: str, schema: pa.Schema) -> str:
    columns = [f'cast("{f.name}" as {sql_type(f.type)}) as "{f.name}"' for f in schema]
    return f"select {', '.join(columns)} from ({query}) order by all"


@contextmanager
def by_spark_sql(warehouse: Warehouse) -> Iterator[Engine]:
    """Yield an engine of Spark, in the present session."""
    from spark_jobs.engine.spark import spark_session

    spark = spark_session()
    for statement in functions.spark_statements():
        spark.sql(statement)
    engine_ = _Spark(spark, warehouse)
    try:
        yield engine_
    finally:
        for frame in engine_.cached:
            frame.unpersist()


class _Spark:
    def __init__(self, session: Any, warehouse: Warehouse):
        self._session, self._warehouse = session, warehouse
        self.cached: list[Any] = []

    def read(self, table: Table, files: list[Path]) -> None:
        from spark_jobs.warehouse.spark_sql import read_table

        frame = read_table(self._session, self._warehouse, table, files)
        frame.createOrReplaceTempView(table.name)

    def view(self, name: str, query: str, cache: bool = False) -> None:
        frame = self._session.sql(query)
        if cache:
            self.cached.append(frame.cache())
        frame.createOrReplaceTempView(name)

    def table(self, name: str, query: str) -> None:
        """Collect the rows, as Spark fails to plan views of views of views with functions."""
        rows = self._session.sql(query).toArrow()
        self._session.createDataFrame(rows).createOrReplaceTempView(name)

    def rows(self, query: str, schema: pa.Schema) -> pa.Table:
        rows = self._session.sql(query).toArrow()
        rows = rows.select(schema.names).cast(schema)
        return rows.sort_by([(name, "ascending") for name in schema.names])
