"""Spark: the session that the jobs run in."""

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from spark_jobs.engine.memory import LOST, WORKER_MALLOC
from spark_jobs.errors import UserError

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
KILLED = re.compile(
    "Python worker exited unexpectedly|ExecutorLostFailure|OutOfMemoryError"
    "|Answer from Java side is empty|Error while sending or receiving"
)
"""What Spark says where it lost a worker, an executor or its Java process."""
THROWN = re.compile(r"^\w[\w.]*(?:Error|Exception|Exit|Interrupt|Warning)\b.*", re.MULTILINE)
"""An error's name and text, where a traceback tells them."""


def spark_session(settings: Mapping[str, str] | None = None) -> SparkSession:
    """The session that is there (spark-submit's), or a local one on all cores.

    GISCOPE_MASTER names another Spark master; settings are for a new session, beside SETTINGS.
    """
    active = SparkSession.getActiveSession()
    if active:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setAll(list({**SETTINGS, **(settings or {})}.items()))
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        conf.setMaster(os.environ.get("GISCOPE_MASTER", "local[*]"))
        SparkContext(conf=conf, gateway=_java(conf))
    return SparkSession.builder.config(conf=conf).getOrCreate()


def _java(conf: SparkConf) -> Any:
    """A Java process with Spark in it. What it says goes to a file, for errors reach Python
    anyway, and is shown where it does not start."""
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise UserError(
            "Spark needs a Java runtime, 17 or newer: install one (Debian, Ubuntu: "
            "openjdk-17-jre-headless) or set JAVA_HOME"
        )
    with TemporaryFile("w+") as said:
        try:
            return launch_gateway(conf, {"stderr": said, "stdout": said})
        except PySparkRuntimeError as error:
            said.seek(0)
            lines = [line for line in said.read().splitlines() if line.strip()]
            last = lines[-1] if lines else str(error)
            raise UserError(
                f"Spark's Java process (17 or newer is needed) ended: {last}"
            ) from error


@contextmanager
def in_one_line(label: str) -> Iterator[None]:
    """What fails in Spark while it does what has the label, as a UserError; the rest Spark tells
    beside it (stack traces of Java) is the error's cause."""
    try:
        yield
    except (Py4JError, PySparkException, ConnectionError) as error:
        text = str(error)
        if KILLED.search(text) or isinstance(error, ConnectionError):
            raise UserError(LOST.format(label)) from error
        thrown = THROWN.findall(text)
        reason = thrown[-1] if thrown else text.strip().partition("\n")[0]
        raise UserError(f"{label}: Spark could not do it: {reason}") from error
