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

from spark_jobs.engine import processes
from spark_jobs.errors import UserError
from spark_jobs.extras import require

if TYPE_CHECKING:
    from rich.progress import Progress

Item = TypeVar("Item")
Result = TypeVar("Result")

MASTER = "GISCOPE_MASTER"
POLL_S = 0.05


def run_tasks(
    task: Callable[[Item], Result],
    items: list[Item],
    label: str,
    on_done: Callable[[Item, Result], object] = lambda item, result: None,
    compiled: bool = True,
) -> list[Result]:
    """Return task(item) for each item, in the items' order.

    on_done(item, result) is called in this process when a task is done, while other tasks run; with
    Spark, when all tasks are done. compiled: the task calls compiled functions.

    Items and results are small. Tasks read and write the warehouse themselves, so that no packet
    crosses from one process to another, or into the JVM.
    """
    if not items:
        return []
    if compiled and _tasks_run_here():
        processes.compile_functions()
    with _progress() as progress:
        progress_task = progress.add_task(label, total=len(items))
        if by_spark():
            results = _run_by_spark(
                task,
                items,
                label,
                lambda completed: progress.update(progress_task, completed=completed),
            )
            for item, result in zip(items, results, strict=True):
                on_done(item, result)
            return results

        def advance(item: Item, result: Result) -> None:
            on_done(item, result)
            progress.advance(progress_task)

        return processes.run(task, items, label, advance)


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
) -> list[Result]:
    from spark_jobs.engine.spark import as_user_error, spark_session

    context = spark_session().sparkContext
    work = context.parallelize(items, len(items)).map(_ReturningErrors(task))
    with as_user_error(label), ThreadPoolExecutor(1) as pool:
        job = pool.submit(_collect, context, work, label)
        while not job.done():
            time.sleep(POLL_S)
            on_progress(_tasks_done(context, label))
        on_progress(len(items))
        answers = job.result()
    for _, error in answers:
        if error:
            raise error
    return [answer for answer, _ in answers]


@dataclass
class _ReturningErrors:
    """A task for Spark that returns errors that the user can mend.

    If it raised them, they would come back as text between Java's.
    """

    task: Callable[[Any], Any]

    def __call__(self, item: Any) -> tuple[Any, Exception | None]:
        try:
            return self.task(item), None
        except (UserError, OSError) as error:
            return None, error


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
