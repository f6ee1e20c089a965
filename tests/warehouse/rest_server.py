"""Iceberg's own REST catalog server, as its tests start it: a process on loopback, with files of
this machine."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pyspark
import pytest

JARS = Path(pyspark.__file__).parent / "jars"
NEEDED = Path(__file__).parent / "rest_server.xml"
HADOOP = ("hadoop-client-api", "hadoop-client-runtime", "commons-logging", "slf4j-api")
"""Spark's jars that it needs."""
WAIT_S = 60


def jars(folder: Path) -> list[Path]:
    """Download its jars with Spark's Ivy; skip the test where that fails."""
    pattern = f"{folder}/[artifact]-[revision](-[classifier]).[ext]"
    done = subprocess.run(
        ["java", "-cp", _of_spark("ivy", "commons-cli"), "org.apache.ivy.Main", "-ivy", NEEDED,
         "-confs", "run", "-retrieve", pattern],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"no network: {done.stderr.strip() or done.stdout.strip().splitlines()[-1]}")
    return sorted(folder.glob("*.jar"))


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Run the server with its database in a folder; yield its URI."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    classes = ":".join([*map(str, jars(folder / "jars")), _of_spark(*HADOOP)])
    variables = {
        "CATALOG_URI": f"jdbc:sqlite:{folder}/server.sqlite",
        "CATALOG_WAREHOUSE": str(folder / "unused"),
        "CATALOG_REST_PORT": str(port),
    }
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(
            ["java", "-cp", classes, "org.apache.iceberg.rest.RESTCatalogServer"],
            env={**os.environ, **variables}, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    uri, until = f"http://127.0.0.1:{port}", time.monotonic() + WAIT_S
    try:
        while True:
            try:
                urlopen(f"{uri}/v1/config").close()
                break
            except URLError:
                assert server.poll() is None, (folder / "server.log").read_text()
                assert time.monotonic() < until
                time.sleep(0.1)
        yield uri
    finally:
        server.terminate()
        server.wait()


def _of_spark(*names: str) -> str:
    return ":".join(str(jar) for name in names for jar in JARS.glob(f"{name}-[0-9]*.jar"))
