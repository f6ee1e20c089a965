"""The tables in Spark SQL, for data beyond one machine: register(spark, Warehouse(Path("W")))."""

from pathlib import Path
from typing import IO
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from schemas import Table
from spark_jobs.base.errors import UserError
from spark_jobs.base.places import SCHEME, in_object_store
from spark_jobs.engine.spark import S3A, reads_object_stores
from spark_jobs.figures.tables import TABLES
from spark_jobs.queries.views import PUBLISHED, has_days, published_query
from spark_jobs.warehouse.store import Warehouse

LOCKED_VERSIONS: WeakKeyDictionary[SparkSession, IO[bytes] | None] = WeakKeyDictionary()
"""The lock on the version of the tables that each session reads."""

NO_GLOB = ("__globPaths__", False)
"""The option by which Spark takes paths as they are (DataSource.GLOB_PATHS_KEY)."""


def read_table(
    spark: SparkSession, warehouse: Warehouse, table: Table, files: list[Path]
) -> DataFrame:
    """Return files of a table as a DataFrame, with their partition columns.

    A column that a file of another format lacks is null.
    """
    schema = from_arrow_schema(table.arrow_with_partitions)
    if not files:
        return spark.createDataFrame([], schema)
    folder = _spark_path(warehouse.root / table.name)
    reader = spark.read.schema(schema).option("basePath", folder).option(*NO_GLOB)
    return reader.parquet(*map(_spark_path, files)).select(schema.names)


def _spark_path(path: Path) -> str:
    text = str(path.absolute())
    return f"s3a{text.removeprefix(SCHEME)}" if in_object_store(path) else text


def register(spark: SparkSession, warehouse: Warehouse) -> None:
    """Register every table, and the views without held days, as they are published now.

    The views stay as they are until the session ends or this function is called again. Raises
    UserError if Spark cannot read the warehouse.
    """
    if in_object_store(warehouse.root) and not reads_object_stores(spark):
        raise UserError(f"{warehouse.root}: Spark needs the package {S3A} to read an object store")
    LOCKED_VERSIONS[spark] = warehouse.lock_version()
    for table, files in warehouse.files_by_table().items():
        read_table(spark, warehouse, table, files).createOrReplaceTempView(table.name)
    for name, table in TABLES.items():
        if has_days(name, (column.name for column in table.partitions)):
            spark.sql(published_query(name)).createOrReplaceTempView(PUBLISHED + name)
