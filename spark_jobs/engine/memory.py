"""How workers get their memory, and what is said where there was too little."""

import errno
import re

# Freed memory stays with the worker: fresh pages cost more than the packets put into them.
WORKER_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "4294967296"}
WORKER_KILLED = (
    "{}: a process that did the work was killed, perhaps for want of memory; what is published "
    "stays. Run again with more memory, with fewer cores (taskset -c 0 giscope ...), or with more "
    "buckets in the networks file"
)
NOT_ENOUGH_MEMORY = (
    "not enough memory: {}; what is published stays. Run again with a higher limit (ulimit -v, the "
    "container's memory): docs/sizing.md says how much each command needs"
)
MEMORY_ERROR = re.compile(
    "out of memory|bad.alloc|failed to map segment|start new thread|cannot allocate", re.IGNORECASE
)
"""What libraries say that have no error of their own for it."""


def memory_error_message(error: BaseException) -> str | None:
    """What the user is told of an error where it, or what it came of, was want of memory; None
    where it was not."""
    cause: BaseException | None = error
    while cause:
        text = (str(cause) or type(cause).__name__).splitlines()[0]
        no_memory = isinstance(cause, MemoryError) or getattr(cause, "errno", 0) == errno.ENOMEM
        if no_memory or type(cause).__name__ == "OutOfMemoryException" or MEMORY_ERROR.search(text):
            return NOT_ENOUGH_MEMORY.format(text)
        cause = cause.__cause__ or cause.__context__
    return None


def use_system_memory_pool() -> None:
    """Let Arrow have its memory as above, too, instead of from its own allocator, which gives pages
    back at once: reading packets takes two thirds of the time, and a worker some 400 MiB more."""
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
