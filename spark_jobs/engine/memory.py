"""How workers get their memory, and what is said where there was too little."""

# Freed memory stays with the worker, Arrow's too: fresh pages cost more than the packets put into
# them.
WORKER_MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "4294967296",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
LOST = (
    "{}: a process that did the work was killed, perhaps for want of memory; what is published "
    "stays. Run again with more memory, with fewer cores (taskset -c 0 giscope ...), or with more "
    "buckets in the networks file"
)
