"""The workers' memory, and the messages if there is too little."""

import errno
import re

# Freed memory stays with the worker: fresh pages cost more than the packets put into them.
WORKER_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "4294967296"}
WORKER_KILLED = (
    "{}: a worker process was killed, perhaps because memory ran out; what is published stays. Run "
    "again with more memory, with fewer cores (taskset -c 0 giscope ...), or with more "
    "user_partitions in the networks file"
)
NOT_ENOUGH_MEMORY = (
    "not enough memory: {}; what is published stays. Run again with a higher limit (ulimit -v, the "
    "container's memory): docs/scale.md says how much each command needs"
)
MEMORY_ERROR = re.compile(
    "out of memory|bad.alloc|failed to map segment|start new thread|cannot allocate", re.IGNORECASE
)
"""Texts of libraries that have no error class of their own for too little memory."""


def memory_error_message(error: BaseException) -> str | None:
    """Return the message for the user if too little memory caused an error; else None."""
    cause: BaseException | None = error
    while cause:
        text = (str(cause) or type(cause).__name__).splitlines()[0]
        no_memory = isinstance(cause, MemoryError) or getattr(cause, "errno", 0) == errno.ENOMEM
        if no_memory or type(cause).__name__ == "OutOfMemoryException" or MEMORY_ERROR.search(text):
            return NOT_ENOUGH_MEMORY.format(text)
        cause = cause.__cause__ or cause.__context__
    return None


def use_system_memory_pool() -> None:
    """Let Arrow allocate its memory from the system, with WORKER_MALLOC's settings.

    Arrow's own allocator gives pages back at once. Without it, reading packets takes two thirds of
    the time, and a worker needs some 400 MiB more.
    """
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())


def release_freed_memory() -> None:
    """Give memory that earlier tasks of this worker freed back to the system, for DuckDB's use."""
    import pyarrow as pa

    pa.system_memory_pool().release_unused()
