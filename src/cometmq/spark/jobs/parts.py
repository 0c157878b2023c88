"""Run a task for each part of a job, and send it its own part only."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from cometmq.spark.options import BYTES_PER_PARTITION

P = TypeVar("P")

SHUFFLE_TASKS_MAX: Final = 10_000
"""Each has a block in the output of every task before it, of which Spark keeps the sizes on the driver."""


def shuffle_tasks(log_bytes: int) -> int:
    """Return how many tasks share what was read of a log: one for each 128 MiB of it.

    It does not depend on the cores that are there now: with dynamic allocation they come with the tasks.
    """
    return min(max(-(-log_bytes // BYTES_PER_PARTITION), 1), SHUFFLE_TASKS_MAX)


def on_parts(
    spark: SparkSession,
    parts: Sequence[P],
    work: Callable[[P], Iterator[pa.RecordBatch]],
    schema: StructType | str,
) -> DataFrame:
    """Return the rows that ``work`` yields for each part; it runs when Spark evaluates them.

    Ten terabytes are some 80,000 parts. In the closure of ``work`` all would be sent to each task; here they
    are rows of a DataFrame, with a partition for each.

    Args:
        parts: values that can be pickled; ``work`` and its closure, too.
        schema: of the batches that ``work`` yields.
    """
    numbers = pa.array(range(len(parts)), pa.int32())
    table = pa.table({"task": numbers, "part": pa.array(map(pickle.dumps, parts), pa.binary())})

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in batch.column("part").to_pylist():
                yield from work(pickle.loads(part or b""))  # noqa: S301  the driver made it

    placed = spark.createDataFrame(table).repartitionById(max(len(parts), 1), "task")
    return placed.mapInArrow(run, schema)
