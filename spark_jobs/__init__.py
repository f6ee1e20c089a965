"""giscope: from captures to packets, to connections, to aggregate tables, to a report."""

import os

# Before numpy is first imported: its matrices are small here, and BLAS's threads spend many times
# what they save on waiting for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
