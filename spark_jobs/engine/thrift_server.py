"""Spark's Thrift server with giscope's tables, for beeline and clients of JDBC, ODBC or PyHive.

Start it with:

spark-submit --master spark://HOST:7077 spark_jobs/engine/thrift_server.py W
"""

import os
import sys
import time

from spark_jobs.base.places import path_of
from spark_jobs.engine.spark import LOOPBACK, spark_session
from spark_jobs.engine.spark_sql import register
from spark_jobs.warehouse.storage import VIEWS
from spark_jobs.warehouse.store import Warehouse

THRIFT_SERVER = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
SHARED = {"spark.sql.hive.thriftServer.singleSession": "true"}
"""Settings by which all clients see the tables, which are views of the server's session."""
BIND = "hive.server2.thrift.bind.host"
POLL_S = 2


def serve(warehouse: Warehouse) -> None:
    """Run the server until the process ends, and follow the changes of the tables.

    The server asks for no password, so it listens on LOOPBACK unless BIND is set.
    """
    spark = spark_session(SHARED)
    assert spark.sparkContext._jsc
    spark.sparkContext._jsc.hadoopConfiguration().setIfUnset(BIND, LOOPBACK)
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
    serve(Warehouse(path_of(sys.argv[1])))
