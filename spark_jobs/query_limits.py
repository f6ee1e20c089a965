"""Limits of time and memory for a user's query, in `giscope sql` and in Superset.

Superset's environment imports this module: it needs only DuckDB and the standard library.
"""

from __future__ import annotations

import math
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

from spark_jobs.errors import UserError

if TYPE_CHECKING:
    import duckdb

SECONDS_VARIABLE, MEMORY_VARIABLE = "GISCOPE_QUERY_SECONDS", "GISCOPE_QUERY_MEMORY"
SQL_SECONDS, SUPERSET_SECONDS = 600, 60
"""Default limits of `giscope sql` and of Superset, whose users all share one machine."""
MAX_SECONDS = 1e9
MEMORY, MAX_MEMORY = "2GiB", 2**50
DISK_BYTES_PER_MEMORY_BYTE = 4
"""Bytes that a query may write to temporary files for each byte of its memory."""
INTERRUPT_INTERVAL_S = 0.1
PROCESS_BYTES = 2**30
"""Memory of the process besides its query: stacks of threads, buffers of libraries."""
UNITS = {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40} | {
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12
}  # fmt: skip
SIZE = re.compile(r"(\d+(?:\.\d+)?) *([KMGT]i?B)", re.IGNORECASE)


@dataclass(frozen=True)
class Limits:
    """Limits of one query.

    seconds: time; 0 for no limit
    memory: bytes
    """

    seconds: float
    memory: int

    @classmethod
    def of(cls, seconds: str | float, memory: str) -> Limits:
        """Return the limits that a user wrote as texts. Raises UserError if they are invalid."""
        try:
            parsed_seconds = float(seconds)
        except ValueError:
            parsed_seconds = math.nan
        if not 0 <= parsed_seconds <= MAX_SECONDS:
            raise UserError(f"{SECONDS_VARIABLE}: {seconds!r} is not a number of seconds up to 1e9")
        size = SIZE.fullmatch(memory.strip())
        parsed_memory = float(size[1]) * UNITS[size[2].upper()] if size else math.nan
        if not PROCESS_BYTES / 2**4 <= parsed_memory <= MAX_MEMORY:
            raise UserError(
                f"{MEMORY_VARIABLE}: {memory!r} is not a size from 64MiB to 1024TiB, as {MEMORY}"
            )
        return cls(parsed_seconds, int(parsed_memory))

    def settings(self) -> dict[str, str]:
        """Return DuckDB's settings that keep a query within its memory."""
        return {
            "memory_limit": f"{self.memory}B",
            "max_temp_directory_size": f"{DISK_BYTES_PER_MEMORY_BYTE * self.memory}B",
        }

    def time_error(self) -> str:
        """Return the message for a query that took too long."""
        return f"stopped after {self.seconds:g} s"

    def memory_error(self) -> str:
        """Return the message for a query that needed too much memory."""
        gib = self.memory / 2**30
        return (
            f"stopped: it needs more than {gib:.3g} GiB of memory, or "
            f"{DISK_BYTES_PER_MEMORY_BYTE * gib:.3g} GiB of "
            "temporary files"
        )


class Deadline:
    """The time by which a query must have ended, and its rows be fetched.

    The time runs from the making of the object. It interrupts a query that is not done then.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, seconds: float):
        self._connection = connection
        self._over, self._ended = Event(), Event()
        self._watch = Thread(target=self._interrupt, args=(seconds,), daemon=True)
        if seconds:
            self._watch.start()

    @property
    def is_over(self) -> bool:
        """Return whether the time is up."""
        return self._over.is_set()

    def end(self) -> None:
        """Stop the watch: from now on nothing is interrupted."""
        self._ended.set()
        if self._watch.is_alive():
            self._watch.join()

    def _interrupt(self, seconds: float) -> None:
        """Interrupt the connection repeatedly: an interrupt between two calls has no effect."""
        wait_s = seconds
        while not self._ended.wait(wait_s):
            self._over.set()
            self._connection.interrupt()
            wait_s = INTERRUPT_INTERVAL_S


def limit_process(more: int) -> tuple[int, int]:
    """Limit this process to its present memory, PROCESS_BYTES and `more` bytes.

    Returns the limits before. DuckDB does not know of the objects that Python makes from rows.
    Beyond the limit, MemoryError or duckdb.OutOfMemoryException is raised.
    """
    earlier, hard = resource.getrlimit(resource.RLIMIT_DATA)
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    limit = pages * resource.getpagesize() + PROCESS_BYTES + more
    if earlier != resource.RLIM_INFINITY:
        limit = min(limit, earlier)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    return earlier, hard


@contextmanager
def process_within(limits: Limits) -> Iterator[None]:
    """Keep this process within twice a query's memory inside the block (see limit_process)."""
    earlier = limit_process(2 * limits.memory)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, earlier)
