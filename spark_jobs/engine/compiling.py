"""Compilation of all functions that tasks need, at the first run on a machine.

All worker processes compile at once, and a line on stderr shows the progress.
"""

import gc
import os
import shutil
import sys
import time
from concurrent.futures import Executor, as_completed
from contextlib import suppress
from pathlib import Path

from spark_jobs.base.sources import COMPILED_PREFIX, ENTRIES, compiled_folder, complete_marker

PROGRESS = "giscope: compiling the estimators, once: {} of {}"
MAX_UNUSED_S = 30 * 86400
"""Time after its last use when a folder with functions of other sources is removed."""


def compile_once(executor: Executor) -> None:
    """Compile all functions that Python calls and that are not compiled yet, the slowest first.

    Does nothing if the compiled functions cannot be stored. Afterwards the executor's processes
    have much garbage, which they do not remove.
    """
    marker = complete_marker(compiled_folder())
    if marker.exists() or not _may_write(marker.parent):
        return
    _remove_unused(marker.parent)
    entries = ENTRIES.read_text().splitlines()
    _print_progress(0, len(entries))
    work = [executor.submit(_compile, entry) for entry in entries]
    for done_count, future in enumerate(as_completed(work), 1):
        future.result()
        _print_progress(done_count, len(entries))
    marker.touch()


def _compile(entry: str) -> None:
    from spark_jobs.compiled.entries import compile_entry

    gc.disable()  # the search for garbage takes a fifth of the time
    compile_entry(entry)


def _may_write(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def _remove_unused(folder: Path) -> None:
    """Remove folders with functions of other sources that no process has used for long.

    A process that begins to use a folder touches it (see `spark_jobs.compiled`).
    """
    if "NUMBA_CACHE_DIR" in os.environ:
        return
    for other in folder.parent.glob(f"{COMPILED_PREFIX}*"):
        with suppress(OSError):
            if other != folder and other.stat().st_mtime < time.time() - MAX_UNUSED_S:
                shutil.rmtree(other)


def _print_progress(done_count: int, total: int) -> None:
    """Print the progress: in place on a terminal, elsewhere only the first and the last line."""
    if sys.stderr.isatty():
        end = "\n" if done_count == total else ""
        print("\r" + PROGRESS.format(done_count, total), end=end, file=sys.stderr, flush=True)
    elif done_count in (0, total):
        print(PROGRESS.format(done_count, total), file=sys.stderr, flush=True)
