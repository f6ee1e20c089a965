"""Limits of time and memory for a user's query, in `giscope sql` and in Superset.

Superset's environment imports this module: it needs only DuckDB and the standard library.
"""

from __future__ import annotations

import math
import re
import resource
import signal
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.base.errors import UserError

SECONDS_VARIABLE, MEMORY_VARIABLE = "GISCOPE_QUERY_SECONDS", "GISCOPE_QUERY_MEMORY"
SQL_SECONDS, SUPERSET_SECONDS = 600, 60
"""Default limits of `giscope sql` and of Superset, whose users all share one machine."""
MAX_SECONDS = 1e9
MEMORY, MAX_MEMORY = "2GiB", 2**50
DISK_BYTES_PER_MEMORY_BYTE = 4
"""Bytes that a query may write to temporary files for each byte of its memory."""
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
                f"{MEMORY_VARIABLE}: {memory!r} is not a size from 64MiB to 1024TiB, "
                f"such as {MEMORY}"
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


def killed_error(number: int) -> str:
    """Return the message for a query whose process a signal has ended, but not its clock."""
    return f"stopped: {signal.Signals(number).name} ended it, perhaps because memory ran out"


@dataclass
class Clock:
    """The time that a query has left (s); 0: no limit.

    When it is over, the kernel ends this process by SIGALRM, whatever it does then: DuckDB looks at
    an interrupt only between two vectors of values, and a function may compute one for hours.
    """

    seconds: float

    def run(self) -> None:
        """Let the time run."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, self.seconds)

    def stop(self) -> None:
        """Let the time stand still."""
        self.seconds, _ = signal.setitimer(signal.ITIMER_REAL, 0)


def limit_process(more: int) -> None:
    """Limit this process to its present memory, PROCESS_BYTES and `more` bytes.

    DuckDB does not know of the objects that Python makes from rows. Beyond the limit, MemoryError
    or duckdb.OutOfMemoryException is raised.
    """
    earlier, hard = resource.getrlimit(resource.RLIMIT_DATA)
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    limit = pages * resource.getpagesize() + PROCESS_BYTES + more
    if earlier != resource.RLIM_INFINITY:
        limit = min(limit, earlier)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
