"""Processes of this machine that run tasks.

They start within a second; Spark takes ten.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from multiprocessing import connection, get_context, parent_process
from threading import Thread
from typing import TypeVar

from spark_jobs.base.errors import UserError
from spark_jobs.engine.compiling import compile_once
from spark_jobs.engine.memory import WORKER_KILLED, WORKER_MALLOC

Item = TypeVar("Item")
Result = TypeVar("Result")

TASK_MODULES = (
    "spark_jobs.capture.front_end",
    "spark_jobs.capture.columns",
    "spark_jobs.compiled.ready",
    "spark_jobs.tables.day_tables",
)
"""Modules that tasks import when they run, but commands do not need."""
KILLED = BrokenProcessPool, EOFError, ConnectionError
"""Errors of a pool whose worker was killed; the last two: or the workers' server."""


def compile_functions() -> None:
    """Compile the functions that tasks need, unless an earlier run did.

    Raises UserError if a worker is killed.
    """
    try:
        with _new_pool() as pool:
            compile_once(pool)
    except KILLED as error:
        raise UserError(WORKER_KILLED.format("compiling the estimators")) from error


def run(
    task: Callable[[Item], Result],
    items: list[Item],
    on_done: Callable[[int, Result], object],
    on_killed: Callable[[int], object],
) -> None:
    """Run task(item) for each item. on_done(number of the item, result) is called after each.

    on_killed(number) is called instead if a worker was killed while it ran this task alone: when a
    worker is killed, each task that may have been the reason is run again alone.
    """
    waiting = dict(enumerate(items))

    def complete(numbers: list[int]) -> bool:
        """Run some of the tasks; return whether no worker was killed."""
        try:
            futures = {_pool().submit(task, waiting[number]): number for number in numbers}
        except KILLED:
            _pool.cache_clear()
            return False
        try:
            for future in as_completed(futures):
                try:
                    result = future.result()
                except KILLED:
                    _pool.cache_clear()
                    return False
                del waiting[futures[future]]
                on_done(futures[future], result)
        finally:
            for future in futures:
                future.cancel()
        return True

    while waiting and not complete(list(waiting)):
        # Workers take the tasks in order, and one more is ready for them.
        for number in list(waiting)[: len(os.sched_getaffinity(0)) + 1]:
            if not complete([number]):
                del waiting[number]
                on_killed(number)


@cache
def _pool() -> ProcessPoolExecutor:
    """Return the pool of workers, which starts once and is used again."""
    return _new_pool()


def _new_pool() -> ProcessPoolExecutor:
    """Return a pool of workers, at most one for each core.

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
