"""Spark's session, in which the jobs run."""

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import Any
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from schemas import CATALOG_NAME
from spark_jobs.base.errors import UserError
from spark_jobs.engine.memory import WORKER_KILLED, WORKER_MALLOC

SETTINGS = {
    "spark.app.name": "giscope",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    **{f"spark.executorEnv.{name}": value for name, value in WORKER_MALLOC.items()},
}
LOOPBACK = "127.0.0.1"
KILLED = re.compile(
    "Python worker exited unexpectedly|ExecutorLostFailure|OutOfMemoryError"
    "|Answer from Java side is empty|Error while sending or receiving"
)
"""Texts of Spark's errors when it has lost a worker, an executor or its Java process."""
UNRESOLVED = re.compile(r"unresolved dependency: (\S+): ")
"""Text of Spark's error for a package that it neither has nor could download."""
THROWN = re.compile(
    r"^(?:: )?(\w[\w.]*(?:Error|Exception|Exit|Interrupt|Warning)\b.*)", re.MULTILINE
)
"""Name and text of a Python error in a traceback, or of a Java error in the text of py4j's."""

ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
"""Iceberg's package for Spark 4.1.

There is none for newer versions of Spark, and this one fails there.
"""
S3A = "org.apache.hadoop:hadoop-aws:3.4.2"
"""Package by which Spark reads object stores, for the version of Hadoop that Spark has."""
DRIVERS = {
    "sqlite": "org.xerial:sqlite-jdbc:3.50.3.0",
    "postgresql": "org.postgresql:postgresql:42.7.8",
}
"""Package of the database driver, by the kind of database that holds a SQL catalog."""


def iceberg_settings(uri: str, warehouse: str) -> dict[str, str]:
    """Return settings for a new session with an Iceberg catalog, CATALOG_NAME, and its tables.

    uri: the catalog's database, sqlite or postgresql, as SQLAlchemy writes it
    warehouse: the place of new tables

    The packages come from Maven Central, and Ivy stores them. A session that exists already cannot
    load packages: give them to spark-submit by --packages.

    Raises UserError if the URI is of another kind.
    """
    parts = urlsplit(uri)
    kind = parts.scheme.partition("+")[0]
    if kind not in DRIVERS:
        raise UserError(
            f"Spark has no driver for a catalog in {kind or uri}; it has drivers for "
            f"{', '.join(DRIVERS)}"
        )
    place = parts.netloc.rpartition("@")[2]
    database = f"//{place}{parts.path}" if place else parts.path.removeprefix("/")
    catalog = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": f"jdbc:{kind}:{database}",
        ".jdbc.schema-version": "V1",
        ".warehouse": warehouse,
        ".cache-enabled": "false",  # otherwise a table in use is never read anew
    }
    for key, value in (("user", parts.username), ("password", parts.password)):
        if value is not None:
            catalog[f".jdbc.{key}"] = unquote(value)
    return {
        "spark.jars.packages": f"{ICEBERG},{DRIVERS[kind]}",
        **{f"spark.sql.catalog.{CATALOG_NAME}{key}": value for key, value in catalog.items()},
    }


def spark_session(settings: Mapping[str, str] | None = None) -> SparkSession:
    """Return the session that exists (that of spark-submit), or a local one on all cores.

    settings: settings for a new session, besides SETTINGS

    GISCOPE_MASTER names another Spark master. A local session listens on LOOPBACK, unless
    SPARK_LOCAL_IP names another address. In a cluster that spark-submit was given, the session
    listens on the host's address.
    """
    active = SparkSession.getActiveSession()
    if active:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if submitted:
        SparkContext._ensure_initialized()  # otherwise conf lacks the settings of spark-submit
    conf = SparkConf().setAll(
        list({**SETTINGS, **_object_store_settings(), **(settings or {})}.items())
    )
    if not submitted:
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        master = os.environ.get("GISCOPE_MASTER", "local[*]")
        conf.setMaster(master)
        with as_user_error(f"Spark master {master}"):
            SparkContext(conf=conf, gateway=_launch_java(conf))
    elif conf.get("spark.master", "").startswith("local") and "SPARK_LOCAL_IP" not in os.environ:
        for setting in ("spark.driver.host", "spark.driver.bindAddress"):
            conf.setIfMissing(setting, LOOPBACK)
    return SparkSession.builder.config(conf=conf).getOrCreate()


def _object_store_settings() -> dict[str, str]:
    """Return settings of Hadoop's S3A from the environment variables that AWS programs use.

    S3A itself takes the credentials from them.
    """
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    if not endpoint:
        return {}
    prefix = "spark.hadoop.fs.s3a"
    return {f"{prefix}.endpoint": endpoint, f"{prefix}.path.style.access": "true"}


def reads_object_stores(spark: SparkSession) -> bool:
    """Return whether a session has Hadoop's S3A, which is a package of its own (S3A)."""
    assert spark.sparkContext._jvm
    try:
        spark.sparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(
            "org.apache.hadoop.fs.s3a.S3AFileSystem"
        )
    except Py4JError:
        return False
    return True


def _launch_java(conf: SparkConf) -> Any:
    """Start a Java process with Spark, and return the gateway to it.

    Its output goes to a file, because errors reach Python anyway. If it does not start, the output
    is in the UserError.
    """
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise UserError(
            "Spark needs a Java runtime, 17 or newer: install one (Debian, Ubuntu: "
            "openjdk-17-jre-headless) or set JAVA_HOME"
        )
    with TemporaryFile("w+") as output:
        try:
            return launch_gateway(conf, {"stderr": output, "stdout": output})
        except PySparkRuntimeError as error:
            output.seek(0)
            if missing := UNRESOLVED.search(output.read()):
                raise UserError(
                    f"Spark could not download {missing[1].replace('#', ':').replace(';', ':')}: "
                    "is Maven Central, or the mirror that spark.jars.ivySettings names, in reach?"
                ) from error
            output.seek(0)
            lines = [line for line in output if not re.match(r"\s*(at .*)?$", line)]
            last = lines[-1].strip() if lines else str(error)
            raise UserError(
                f"Spark's Java process (17 or newer is needed) ended: {last}"
            ) from error


@contextmanager
def as_user_error(label: str) -> Iterator[None]:
    """Raise errors of Spark as a UserError with one line, which begins with `label`.

    The rest of Spark's text, such as Java's stack traces, stays in the error's cause.
    """
    try:
        yield
    except (Py4JError, PySparkException, ConnectionError) as error:
        text = str(error)
        if KILLED.search(text) or isinstance(error, ConnectionError):
            raise UserError(WORKER_KILLED.format(label)) from error
        thrown = THROWN.findall(text)
        reason = thrown[-1] if thrown else text.strip().partition("\n")[0]
        raise UserError(f"{label}: Spark failed: {reason}") from error
