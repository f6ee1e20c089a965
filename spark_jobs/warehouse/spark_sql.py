"""The tables in Spark SQL, for data beyond one machine: register(spark, Warehouse(Path("W")))."""

from pathlib import Path
from typing import IO
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from schemas import Table
from spark_jobs.warehouse.store import Warehouse

HELD: WeakKeyDictionary[SparkSession, IO[bytes] | None] = WeakKeyDictionary()
"""By which version of the views a session reads."""

AS_THEY_ARE = ("__globPaths__", False)
"""Paths stand for themselves, whatever is in them (DataSource.GLOB_PATHS_KEY)."""


def read_table(
    spark: SparkSession, warehouse: Warehouse, table: Table, files: list[Path]
) -> DataFrame:
    """These files as a DataFrame with their partition columns; a column that an earlier version
    did not have is null."""
    schema = from_arrow_schema(table.arrow_with_partitions)
    if not files:
        return spark.createDataFrame([], schema)
    base = str((warehouse.root / table.name).absolute())
    paths = [str(path.absolute()) for path in files]
    reader = spark.read.schema(schema).option("basePath", base).option(*AS_THEY_ARE)
    return reader.parquet(*paths).select(schema.names)


def register(spark: SparkSession, warehouse: Warehouse) -> None:
    """Every table as a temporary view of what is published now, and stays until the session ends or
    they are registered anew."""
    HELD[spark] = warehouse.hold()
    for table, files in warehouse.tables().items():
        read_table(spark, warehouse, table, files).createOrReplaceTempView(table.name)
