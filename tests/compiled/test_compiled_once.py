"""Processes that need the same function at the same time compile it once."""

import os
import subprocess
import sys
import time
from pathlib import Path

from conftest import ROOT

PROCESSES, START_S = 3, 8
WORKER = """
import sys, time
import numpy as np
from spark_jobs.compiled.arrays import group_offsets
time.sleep(max(float(sys.argv[1]) - time.time(), 0))
group_offsets(np.zeros(1, np.int32), 1)
print(sum(group_offsets.stats.cache_misses.values()), sum(group_offsets.stats.cache_hits.values()))
"""


def test_one_process_compiles_and_the_others_load(tmp_path: Path):
    together = str(time.time() + START_S)
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, together],
            cwd=ROOT,
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(PROCESSES)
    ]
    said = sorted(worker.communicate()[0].split() for worker in workers)
    assert said == [["0", "1"]] * (PROCESSES - 1) + [["1", "0"]]
