"""Read a range of a store's CommitLog as a DataFrame."""

import sys
from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from cometmq.logs import get_logger
from cometmq.spark.files.log_reader import LogReader
from cometmq.spark.files.splits import LogFile, gaps, splits, within
from cometmq.spark.jobs.parts import on_parts
from cometmq.spark.options import BYTES_PER_PARTITION, ReadOptions
from cometmq.spark.schema import spark_schema

log = get_logger(__name__)


class LogRange(NamedTuple):
    """The records that begin at CommitLog offsets from ``begin`` to before ``end``."""

    begin: int = 0
    end: int = sys.maxsize


def records(
    spark: SparkSession,
    files: Sequence[LogFile],
    columns: Sequence[str],
    log_range: LogRange,
    *,
    topics: frozenset[str] | None = None,
    broker: str | None = None,
    bytes_per_task: int = BYTES_PER_PARTITION,
) -> DataFrame:
    """Return columns of the records in a range of a log; damage and missing files are logged.

    Nothing of the log before the range is read. ``broker`` is the value of the column of this name.
    """
    for end, begin in gaps(files):
        if log_range.begin < begin and end < log_range.end:
            folder = files[0].path.parent
            log.warning("%s: the CommitLog has no file with the offsets %d to %d", folder, end, begin)
    parts = [within(split, *log_range) for split in splits(files, bytes_per_task)]
    parts = [part for part in parts if part]
    reader = LogReader(ReadOptions((), topics, broker=broker), tuple(columns))
    return on_parts(spark, parts, reader.read_pieces, spark_schema(columns))
