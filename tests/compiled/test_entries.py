"""The functions compiled before the first task."""

import json
import os
import subprocess
import sys
from importlib import import_module

from conftest import ROOT

from spark_jobs.base.sources import ENTRIES
from spark_jobs.compiled.entries import compile_entry, type_from_json, type_to_json
from tests.helpers.child_processes import printed_together

LINES = ENTRIES.read_text().splitlines()
SHORT = [line for line in LINES if '"spark_jobs.compiled.arrays.group_' in line]
WORKER = """
import sys
from spark_jobs.compiled import arrays
from spark_jobs.compiled.entries import compile_entry
print("ready", flush=True)
sys.stdin.readline()
for line in sys.argv[1:]:
    compile_entry(line)
of = arrays.group_offsets, arrays.group_order
print(sum(sum(function.stats.cache_misses.values()) for function in of))
"""


def test_entry_for_a_record_with_fewer_fields_is_skipped():
    """As the list is until it is made anew, after a column was added."""
    name, *arguments = next(json.loads(line) for line in LINES if "records.Packets" in line)
    fewer = [{k: v[:-1] for k, v in a.items()} if isinstance(a, dict) else a for a in arguments]
    compile_entry(json.dumps([name, *fewer]))


def test_types_survive_a_round_trip_through_json():
    for line in LINES:
        _, *arguments = json.loads(line)
        written = [type_to_json(type_from_json(argument)) for argument in arguments]
        assert json.loads(json.dumps(written)) == arguments


def test_listed_functions_exist_and_are_compiled():
    for line in LINES:
        module, _, function = json.loads(line)[0].rpartition(".")
        assert hasattr(getattr(import_module(module), function), "py_func")


def test_each_entry_is_compiled_in_one_of_two_processes(tmp_path):
    assert len(SHORT) == 4
    command = [sys.executable, "-c", WORKER, *SHORT]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    workers = [
        subprocess.Popen(
            command, cwd=ROOT, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]  # fmt: skip
    assert sum(map(int, printed_together(workers))) == len(SHORT)
    assert len(list(tmp_path.rglob("*.nbc"))) == len(SHORT)
