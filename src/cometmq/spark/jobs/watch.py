"""Report the progress of a job from Spark's status while it runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

from pyspark.sql import SparkSession

Progress = Callable[[str, int, int], None]
"""Called with the present step, the number of its finished tasks, and that of all its tasks."""

EVERY_S: Final = 0.25


@contextmanager
def watched(spark: SparkSession, step: str, progress: Progress | None) -> Iterator[None]:
    """Report the progress of Spark's work inside the block, from a thread."""
    if progress is None:
        yield
        return
    ended = Event()
    thread = Thread(target=_watch, args=(spark, step, progress, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _watch(spark: SparkSession, step: str, progress: Progress, ended: Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not ended.wait(EVERY_S):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        running = [stage for stage in stages if stage is not None]  # one may have ended since
        tasks = sum(stage.numTasks for stage in running)
        if tasks:
            progress(step, sum(stage.numCompletedTasks for stage in running), tasks)
