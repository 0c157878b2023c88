from threading import Event

import pytest
from pyspark.sql import SparkSession

from cometmq.spark.jobs import watch


class Tracker:
    """What Spark says of one stage of five tasks, of which two are done."""

    numTasks, numCompletedTasks = 5, 2  # noqa: N815  Spark's names

    def getActiveStageIds(self) -> list[int]:  # noqa: N802  Spark's name
        return [7, 8]

    def getStageInfo(self, stage: int) -> "Tracker | None":  # noqa: N802  Spark's name
        return self if stage == 7 else None

    @property
    def sparkContext(self) -> "Tracker":  # noqa: N802  Spark's name
        return self

    def statusTracker(self) -> "Tracker":  # noqa: N802  Spark's name
        return self


def test_tasks_are_told_while_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "EVERY_S", 0.001)
    steps, told = set(), Event()

    def progress(*step: object) -> None:
        steps.add(step)
        told.set()

    tracker: SparkSession = Tracker()  # type: ignore[assignment]  # as far as the watch looks
    with watch.watched(tracker, "scan", progress):
        assert told.wait(60)
    assert steps == {("scan", 2, 5)}


def test_nobody_watches_for_nobody(spark: SparkSession) -> None:
    with watch.watched(spark, "scan", None):
        pass
