"""Spark's programs, and questions to its SQL server."""

import os
import socket
import subprocess
import time
from pathlib import Path

import pyspark

SPARK = Path(pyspark.__file__).parent


WAIT_S = 120


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def asked(port: int, query: str) -> str | None:
    """Return what beeline prints, or None where there is no server yet."""
    done = subprocess.run(
        [SPARK / "bin/beeline", "-u", f"jdbc:hive2://127.0.0.1:{port}", "--silent=true",
         "--outputformat=csv2", "--showHeader=false", "-e", query],
        capture_output=True, text=True, check=False,
        env=os.environ | {"SPARK_HOME": str(SPARK)},
    )  # fmt: skip
    return done.stdout.split("> ")[-1].strip() if done.returncode == 0 else None


def comes(port: int, query: str, expected: str) -> bool:
    """Wait; return whether the query's answer becomes the expected one."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if asked(port, query) == expected:
            return True
        time.sleep(1)
    return False
