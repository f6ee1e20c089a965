"""The tables in Spark SQL, for data beyond one machine.

In a program or a notebook: register(spark, Warehouse(Path("W"))). As a program, Spark's Thrift
server with the tables in it, for beeline and whatever speaks JDBC, ODBC or PyHive:

    spark-submit --master spark://HOST:7077 spark_jobs/spark_sql.py W
"""

import os
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from schemas import Table
from spark_jobs.session import spark_session
from spark_jobs.warehouse import VIEWS, Warehouse

THRIFT_SERVER = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
SHARED = {"spark.sql.hive.thriftServer.singleSession": "true"}
"""Every client sees the tables, which are views of the server's session."""
POLL_S = 2


def read_table(
    spark: SparkSession, warehouse: Warehouse, table: Table, files: list[Path]
) -> DataFrame:
    """These files as a DataFrame with their partition columns; a column that an earlier version
    did not have is null."""
    schema = from_arrow_schema(table.arrow_signed)
    if not files:
        return spark.createDataFrame([], schema)
    base = str((warehouse.root / table.name).absolute())
    paths = [str(path.absolute()) for path in files]
    return spark.read.schema(schema).option("basePath", base).parquet(*paths).select(schema.names)


def register(spark: SparkSession, warehouse: Warehouse) -> None:
    """Every table as a temporary view of what is published now."""
    for table, files in warehouse.tables().items():
        read_table(spark, warehouse, table, files).createOrReplaceTempView(table.name)


def serve(warehouse: Warehouse) -> None:
    """Run Spark's Thrift server until the process is ended, with the tables as they change."""
    spark = spark_session(SHARED)
    registered = _last_update(warehouse)
    register(spark, warehouse)
    server = getattr(spark._jvm, THRIFT_SERVER)
    server.startWithSparkSession(spark._jsparkSession, True)
    while True:
        time.sleep(POLL_S)
        if (current := _last_update(warehouse)) != registered:
            register(spark, warehouse)
            registered = current


def _last_update(warehouse: Warehouse) -> os.stat_result | None:
    views = warehouse.root / VIEWS
    return views.stat() if views.exists() else None


if __name__ == "__main__":
    serve(Warehouse(Path(sys.argv[1])))
