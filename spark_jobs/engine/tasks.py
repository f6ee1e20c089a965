"""Running of tasks, one for each work item, on all cores, with a progress bar on a terminal.

Spark runs them if GISCOPE_MASTER names a Spark master, or if spark-submit has started the job;
otherwise, processes of this machine do.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from spark_jobs.base.errors import FullDiskError, UserError, in_a_line, is_of_machine
from spark_jobs.base.extras import require
from spark_jobs.engine import processes
from spark_jobs.engine.memory import WORKER_KILLED, memory_error_message

if TYPE_CHECKING:
    from rich.progress import Progress

Item = TypeVar("Item")
Result = TypeVar("Result")

MASTER = "GISCOPE_MASTER"
POLL_S = 0.05


@dataclass(frozen=True)
class Failure:
    """The result of a task that raised an error, or whose worker was killed.

    reason: one line for the user
    of_machine: the other tasks would fail as well (see errors.is_of_machine)
    """

    reason: str
    of_machine: bool = False


def run_tasks(
    task: Callable[[Item], Result],
    items: list[Item],
    label: str,
    on_done: Callable[[Item, Result | Failure], object] = lambda item, result: None,
    compiled: bool = True,
) -> list[Result | Failure]:
    """Return task(item) for each item, in the items' order; a Failure where it raised an error.

    on_done(item, result) is called in this process when a task is done, while other tasks run; with
    Spark, when all tasks are done. compiled: the task calls compiled functions.

    Items and results are small. Tasks read and write the warehouse themselves, so that no packet
    crosses from one process to another, or into the JVM.

    Raises UserError if a task failed by an error of the machine, such as a full disk.
    """
    if not items:
        return []
    if compiled and _tasks_run_here():
        processes.compile_functions()
    killed = Failure(WORKER_KILLED.format(label))
    results: dict[int, Result | Failure] = {}

    def done(number: int, result: Result | Failure) -> None:
        if isinstance(result, Failure) and result.of_machine:
            raise FullDiskError(result.reason)
        results[number] = result
        on_done(items[number], result)
        progress.update(progress_task, completed=len(results))

    with _progress() as progress:
        progress_task = progress.add_task(label, total=len(items))
        attempt = _Attempt(task)
        if by_spark():
            answers = _run_by_spark(
                attempt,
                items,
                label,
                lambda completed: progress.update(progress_task, completed=completed),
            )
            for number, result in enumerate(answers):
                done(number, result)
        else:
            processes.run(attempt, items, done, lambda number: done(number, killed))
    return [results[number] for number in range(len(items))]


@dataclass
class _Attempt:
    """A task that returns an error as a Failure, so that it stops no other task."""

    task: Callable[[Any], Any]

    def __call__(self, item: Any) -> Any:
        try:
            return self.task(item)
        except Exception as error:
            return Failure(memory_error_message(error) or in_a_line(error), is_of_machine(error))


def by_spark() -> bool:
    """Return whether Spark runs the tasks. Raises UserError if it should, and is not installed."""
    if MASTER in os.environ:
        require("spark", MASTER)
        return True
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _tasks_run_here() -> bool:
    """Return whether all tasks run on this machine; other hosts compile for themselves."""
    if not by_spark():
        return True
    from spark_jobs.engine.spark import spark_session

    return (spark_session().sparkContext.master or "").startswith("local")


def parallel_tasks() -> int:
    """Return how many tasks can run at the same time."""
    if not by_spark():
        return len(os.sched_getaffinity(0))
    from spark_jobs.engine.spark import spark_session

    return spark_session().sparkContext.defaultParallelism


def threads_per_task(tasks: int) -> int:
    """Return how many threads each of some tasks may use.

    In Spark, each core of an executor has a task. Otherwise tasks share this machine's cores.
    """
    return 1 if by_spark() else max(1, parallel_tasks() // tasks)


def _run_by_spark(
    task: Callable[[Item], Result],
    items: list[Item],
    label: str,
    on_progress: Callable[[int], object],
) -> list[Result | Failure]:
    """Return task(item) for each item; each runs again alone if a worker was killed."""
    from spark_jobs.engine.spark import as_user_error, spark_session

    try:
        with as_user_error(label), ThreadPoolExecutor(1) as pool:
            context = spark_session().sparkContext
            work = context.parallelize(items, len(items)).map(task)
            job = pool.submit(_collect, context, work, label)
            while not job.done():
                time.sleep(POLL_S)
                on_progress(_tasks_done(context, label))
            return job.result()
    except UserError as error:
        if str(error) != WORKER_KILLED.format(label):
            raise
        if len(items) == 1:
            return [Failure(str(error))]
        return [_run_by_spark(task, [item], label, lambda _: None)[0] for item in items]


def _collect(context: Any, work: Any, group: str) -> list:
    context.setJobGroup(group, group)
    return work.collect()


def _tasks_done(context: Any, group: str) -> int:
    tracker = context.statusTracker()
    running = set(tracker.getActiveJobsIds())
    stages = [
        tracker.getStageInfo(stage)
        for job in tracker.getJobIdsForGroup(group)
        if job in running
        for stage in tracker.getJobInfo(job).stageIds
    ]
    return sum(stage.numCompletedTasks for stage in stages if stage)


def _progress() -> Progress:
    # Here, because a command that finds nothing to do needs no progress bar.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    )
