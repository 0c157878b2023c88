"""Messages from wherever jobs find or leave them: a store, an archive, exported Parquet, a Delta table."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from cometmq.spark.files.splits import log_files
from cometmq.spark.jobs.export.filled import filled
from cometmq.spark.jobs.ranges import LogRange, records
from cometmq.spark.options import BYTES_PER_PARTITION


def stored(
    spark: SparkSession,
    source: Path,
    columns: tuple[str, ...],
    *,
    topics: frozenset[str] | None = None,
    bytes_per_task: int = BYTES_PER_PARTITION,
) -> DataFrame:
    """Return columns of the messages in a directory.

    Args:
        topics: None for all.
        bytes_per_task: bytes of a store's log that one task reads.

    Raises:
        SettingsError: it is none of these, or has not all columns; a Delta table without the package for it.
    """
    found = filled(spark, source, columns, topics=topics)
    if found is not None:
        return found
    return records(
        spark, log_files(source), columns, LogRange(), topics=topics, bytes_per_task=bytes_per_task
    )
