"""Processes of this machine that run tasks.

They start within a second; Spark takes ten.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from multiprocessing import connection, get_context, parent_process
from threading import Thread
from typing import TypeVar

from spark_jobs.engine.compiling import compile_once
from spark_jobs.engine.memory import WORKER_KILLED, WORKER_MALLOC
from spark_jobs.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")

TASK_MODULES = (
    "spark_jobs.capture.front_end",
    "spark_jobs.capture.columns",
    "spark_jobs.compiled.ready",
    "spark_jobs.tables.day_tables",
)
"""Modules that tasks import when they run, but commands do not need."""


def compile_functions() -> None:
    """Compile the functions that tasks need, unless an earlier run did."""
    with _worker_pool("compiling the estimators") as pool:
        compile_once(pool)


def run(
    task: Callable[[Item], Result],
    items: list[Item],
    label: str,
    on_done: Callable[[Item, Result], object],
) -> list[Result]:
    """Return task(item) for each item, in the items' order.

    on_done(item, result) is called when a task is done. The first error of a task is raised, and
    tasks that have not begun are dropped. Raises UserError if a process is killed; `label` says in
    the message what the process did.
    """
    with _worker_pool(label) as pool:
        futures = {pool.submit(task, item): item for item in items}
        try:
            for future in as_completed(futures):
                on_done(futures[future], future.result())
        finally:
            for future in futures:
                future.cancel()
        return [future.result() for future in futures]


@contextmanager
def _worker_pool(label: str) -> Iterator[ProcessPoolExecutor]:
    try:
        yield _pool()
    except (
        BrokenProcessPool,
        EOFError,
        ConnectionError,
    ) as error:  # the latter two: of the workers' server
        _pool.cache_clear()
        raise UserError(WORKER_KILLED.format(label)) from error


@cache
def _pool() -> ProcessPoolExecutor:
    """Return the pool of workers, at most one for each core, which starts once and is used again.

    The workers are forks of a server, which has imported `lean` first, then what this process has,
    and TASK_MODULES.
    """
    for name, value in WORKER_MALLOC.items():
        os.environ.setdefault(name, value)
    context = get_context("forkserver")
    imported = [name for name in sys.modules if name.startswith("spark_jobs.")]
    context.set_forkserver_preload(["spark_jobs.engine.lean", *imported, *TASK_MODULES])
    return ProcessPoolExecutor(len(os.sched_getaffinity(0)), context, _start_worker)


def _start_worker() -> None:
    """Let a worker exit when its parent dies or when the user presses Ctrl-C.

    What is imported stays, so the garbage collector never looks at it.
    """
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
