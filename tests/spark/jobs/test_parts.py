import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from cometmq.spark.jobs.parts import SHUFFLE_TASKS_MAX, on_parts, shuffle_tasks

pytestmark = pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy

SCHEMA = "task int"


class Once:
    """A part that makes a directory when it is unpacked, and so can be unpacked once."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._path),)


def test_each_part_is_the_work_of_one_task(spark: SparkSession) -> None:
    def work(part: str) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext  # noqa: PLC0415  there is none here, in a worker there is

        context = TaskContext.get()
        assert context is not None and part == f"part {context.partitionId()}"
        yield pa.RecordBatch.from_pydict({"task": pa.array([context.partitionId()], pa.int32())})

    rows = on_parts(spark, [f"part {number}" for number in range(7)], work, SCHEMA)
    assert sorted(row["task"] for row in rows.collect()) == list(range(7))


def test_no_task_is_sent_the_part_of_another(spark: SparkSession, tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(5)]
    rows = on_parts(spark, [Once(path) for path in paths], lambda _: iter(()), SCHEMA)
    assert rows.collect() == []
    assert sorted(tmp_path.iterdir()) == paths


def test_without_parts_there_are_no_rows(spark: SparkSession) -> None:
    assert on_parts(spark, [], lambda _: iter(()), SCHEMA).collect() == []


@pytest.mark.parametrize(
    ("log_bytes", "tasks"), [(0, 1), (1, 1), (1 << 27, 1), ((1 << 27) + 1, 2), (1 << 40, 8_192)]
)
def test_the_size_of_the_log_decides_how_many_tasks_share_a_shuffle(log_bytes: int, tasks: int) -> None:
    assert shuffle_tasks(log_bytes) == tasks
    assert shuffle_tasks(1 << 60) == SHUFFLE_TASKS_MAX
