"""Processes that need the same function at the same time compile it once."""

import os
import subprocess
import sys
from pathlib import Path

from conftest import ROOT

from tests.helpers.child_processes import printed_together

PROCESSES = 3
WORKER = """
import sys
import numpy as np
from spark_jobs.compiled.arrays import group_offsets
print("ready", flush=True)
sys.stdin.readline()
group_offsets(np.zeros(1, np.int32), 1)
print(sum(group_offsets.stats.cache_misses.values()), sum(group_offsets.stats.cache_hits.values()))
"""


def test_one_process_compiles_and_the_others_load(tmp_path: Path):
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER],
            cwd=ROOT,
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(PROCESSES)
    ]
    said = sorted(printed.split() for printed in printed_together(workers))
    assert said == [["0", "1"]] * (PROCESSES - 1) + [["1", "0"]]
