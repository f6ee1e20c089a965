"""How workers get their memory."""

# Freed memory stays with the worker: fresh pages cost more than the packets put into them.
WORKER_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "4294967296"}
