"""Messages from wherever jobs find or leave them: a store, an archive, exported Parquet, a Delta table."""

from collections.abc import Collection
from pathlib import Path
from typing import Final

from pyarrow.parquet import read_schema
from pyspark.sql import DataFrame, SparkSession

from cometmq.errors import SettingsError
from cometmq.spark.jobs.paths import DELTA_LOG, check_delta_package, spark_path
from cometmq.spark.jobs.ranges import Range, records
from cometmq.spark.options import BYTES_PER_PARTITION
from cometmq.spark.remote import RemotePath
from cometmq.spark.schema import spark_schema
from cometmq.spark.splits import log_files

EXPORTED: Final = "topic=*/day=*/*.parquet"
ARCHIVED: Final = "log=*/*.parquet"


def stored(
    spark: SparkSession,
    source: Path,
    columns: tuple[str, ...],
    *,
    topics: frozenset[str] | None = None,
    bytes_per_task: int = BYTES_PER_PARTITION,
) -> DataFrame:
    """Give columns of the messages in a directory.

    Args:
        topics: None for all.
        bytes_per_task: bytes of a store's log that one task reads.

    Raises:
        SettingsError: it is none of these, or has not all columns; a Delta table without the package for it.
    """
    found = None if isinstance(source, RemotePath) else _files(spark, source, columns)
    if found is None:
        return records(
            spark, log_files(source), columns, Range(), topics=topics, bytes_per_task=bytes_per_task
        )
    return found if topics is None else found.where(found.topic.isin(*topics))


def _files(spark: SparkSession, source: Path, columns: tuple[str, ...]) -> DataFrame | None:
    """Give what is in a directory of Parquet files; None if it is none."""
    if (source / DELTA_LOG).exists():
        check_delta_package()
        from cometmq.spark.jobs.delta import columns_of, files_of  # noqa: PLC0415 - an extra

        _check_columns(source, columns_of(source), columns)
        files = files_of(source)
    else:
        kinds = (EXPORTED, ARCHIVED)
        first = next((file for kind in kinds for file in source.glob(kind)), None)
        if first is None:
            return None
        _check_columns(source, {"topic", *read_schema(first).names}, columns)
        files = [source]
    schema = spark_schema(columns)
    if not files:
        return spark.createDataFrame([], schema)
    reader = spark.read.schema(schema).option("basePath", spark_path(source))
    return reader.parquet(*map(spark_path, files)).select(*columns)


def _check_columns(source: Path, there: Collection[str], columns: Collection[str]) -> None:
    if missing := [name for name in columns if name not in there]:
        raise SettingsError(f"{source} has no column {', '.join(missing)}: export all columns")
