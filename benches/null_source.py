"""A source for Spark whose rows are at hand: the most that a source reaches which is written in Python.

It asks nobody, keeps its batches in the worker, and plans by arithmetic. Its tasks and batches are as many as
those of a topic with as many rows. What is left is what Spark itself takes to read by Python.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from cometmq.spark.live.batch import even_share
from cometmq.spark.live.reading import BATCH_BYTES

NAME: Final = "null"
COLUMNS: Final = ("topic", "queue_id", "queue_offset", "store_time", "body")
TYPES: Final = {
    "topic": ("string", pa.string()),
    "queue_id": ("int", pa.int32()),
    "queue_offset": ("long", pa.int64()),
    "store_time": ("timestamp", pa.timestamp("us", "UTC")),
    "body": ("binary", pa.binary()),
}
"""Of each column, in Spark and in Arrow."""
RECORD_OVERHEAD_BYTES: Final = 150
"""Of a record of the bench besides its body, about."""


class NullSource(DataSource):
    """Rows in topics.

    Options: ``subscribe``, ``columns`` and ``maxOffsetsPerTrigger`` as of a topic; of each topic
    ``<topic>.rows`` and ``<topic>.size``, the bytes of a body.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> str:
        """Return the columns that are asked for."""
        return ", ".join(f"{column} {TYPES[column][0]}" for column in self._columns)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  it is this source's own
        """Return the reader of all rows."""
        return NullReader(self._number("rows"), self._number("size"), self._columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802  Spark's name
        """Return the reader of a stream that ends with the rows."""
        limit = int(self.options.get("maxOffsetsPerTrigger", self._number("rows")))
        return NullStreamReader(self._number("rows"), self._number("size"), self._columns, limit)

    @property
    def _columns(self) -> tuple[str, ...]:
        return tuple(self.options.get("columns", ",".join(COLUMNS)).split(","))

    def _number(self, what: str) -> int:
        return int(self.options[f"{self.options['subscribe']}.{what}"])


class NullReader(DataSourceReader):
    """Reads the rows at once."""

    def __init__(self, rows: int, size: int, columns: tuple[str, ...]) -> None:
        self._rows = rows
        self._size = size
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """Cut the rows into tasks."""
        return tasks(self._rows)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a task."""
        return batches(partition.value, self._size, self._columns)


class NullStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the rows in micro-batches."""

    def __init__(self, rows: int, size: int, columns: tuple[str, ...], limit: int) -> None:
        self._rows = rows
        self._size = size
        self._columns = columns
        self._limit = limit

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  Spark's name
        """Begin with the first row."""
        return {"row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name
        """Return the limit of a micro-batch."""
        return ReadMaxRows(self._limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        """Do nothing: there will be no more rows."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802  Spark's name
        """Return the end of the next micro-batch."""
        return {"row": min(start["row"] + self._limit, self._rows)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Cut a micro-batch into tasks."""
        return tasks(end["row"] - start["row"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a task."""
        return batches(partition.value, self._size, self._columns)


def tasks(rows: int) -> list[InputPartition]:
    """Cut rows as those of a topic are cut."""
    share = even_share(rows)
    return [InputPartition(min(share, rows - begin)) for begin in range(0, rows, share)]


def batches(rows: int, size: int, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Yield so many rows, in batches of the usual bytes."""
    at_once = BATCH_BYTES // (size + RECORD_OVERHEAD_BYTES)
    for start in range(0, rows, at_once):
        yield batch(at_once, size, columns)[: rows - start]


@cache
def batch(rows: int, size: int, columns: tuple[str, ...]) -> pa.RecordBatch:
    """Return a batch, which the worker keeps."""
    row = {
        "topic": "bench-0",
        "queue_id": 0,
        "queue_offset": 0,
        "store_time": datetime.now(UTC),
        "body": b"." * size,
    }
    arrays = {column: pa.array([row[column]] * rows, TYPES[column][1]) for column in columns}
    return pa.record_batch(arrays)
