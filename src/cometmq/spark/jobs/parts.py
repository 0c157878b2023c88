"""Work on the parts of a job, one task for each: a task is sent its own part, not the list of all of them."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

P = TypeVar("P")


def on_parts(
    spark: SparkSession,
    parts: Sequence[P],
    work: Callable[[P], Iterator[pa.RecordBatch]],
    schema: StructType | str,
) -> DataFrame:
    """Return the rows that ``work`` makes of each part; it runs when they are asked for.

    Ten terabytes are some 80,000 parts. In the closure of ``work`` they would go to each of as many tasks;
    here they are rows of a DataFrame, with a partition for each.

    Args:
        parts: values that can be pickled, as what ``work`` refers to.
        schema: of the batches that ``work`` makes.
    """
    numbers = pa.array(range(len(parts)), pa.int32())
    table = pa.table({"task": numbers, "part": pa.array(map(pickle.dumps, parts), pa.binary())})

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in batch.column("part").to_pylist():
                yield from work(pickle.loads(part or b""))  # noqa: S301  the driver made it

    placed = spark.createDataFrame(table).repartitionById(max(len(parts), 1), "task")
    return placed.mapInArrow(run, schema)
