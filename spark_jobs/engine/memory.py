"""How workers get their memory, and what is said where there was too little."""

# Freed memory stays with the worker: fresh pages cost more than the packets put into them.
WORKER_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "4294967296"}
LOST = (
    "{}: a process that did the work was killed, perhaps for want of memory; what is published "
    "stays. Run again with more memory, with fewer cores (taskset -c 0 giscope ...), or with more "
    "buckets in the networks file"
)


def keep_arrows() -> None:
    """Let Arrow have its memory as above, too, instead of from its own allocator, which gives pages
    back at once: reading packets takes two thirds of the time, and a worker some 400 MiB more."""
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
