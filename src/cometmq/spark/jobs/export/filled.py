"""Read back the targets of jobs: an archive, exported Parquet, a Delta table.

Only files before the end of the last finished round count. Files on disks are read by Spark itself; others by
tasks in Python, as Spark's own reader needs Java packages for them.
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.errors import SettingsError
from cometmq.format.layout import offset_name
from cometmq.spark.files.remote import RemotePath, spark_path
from cometmq.spark.jobs.export.export_files import hive_value
from cometmq.spark.jobs.export.rounds import DoneRounds, RoundDone
from cometmq.spark.jobs.export.targets import (
    DELTA_LOG,
    JobTarget,
    TargetFile,
    check_delta_package,
    target_of,
)
from cometmq.spark.jobs.parts import on_parts
from cometmq.spark.options import BYTES_PER_PARTITION
from cometmq.spark.schema import arrow_schema, spark_schema

FOLDERS: Final = {"topic=": "_export", "log=": "_archive"}
"""By the prefix of the folders of exported Parquet and of an archive, the job's own folder."""
SUFFIX: Final = ".parquet"


def filled(
    spark: SparkSession, source: Path, columns: tuple[str, ...], *, topics: frozenset[str] | None = None
) -> DataFrame | None:
    """Return columns of the messages in a target; None if no job has filled it.

    Args:
        topics: None for all.

    Raises:
        SettingsError: it lacks columns, or is a Delta table whose package is not installed.
    """
    target = target_of(source, "")
    if target.exists(DELTA_LOG):
        check_delta_package()
        from cometmq.spark.jobs.export.delta import columns_of, files_of  # noqa: PLC0415 - an extra

        _check_columns(target, columns_of(target), columns)
        own = set(files_of(target))
        return _messages(
            spark, source, [file for file in target.files() if file.name in own], columns, topics
        )
    prefix = next((one for one in FOLDERS if any(name.startswith(one) for name in target.names(""))), None)
    if prefix is None:
        return None
    last = DoneRounds(target, FOLDERS[prefix], RoundDone).last()
    files = _files(target, prefix, None if last is None else last.next)
    if files:
        with target.open(files[0].name) as first:
            _check_columns(target, {"topic", *pq.read_schema(first).names}, columns)
    return _messages(spark, source, files, columns, topics)


def archived(
    spark: SparkSession, source: Path, end: int, columns: tuple[str, ...], topics: frozenset[str] | None
) -> DataFrame:
    """Return columns of the messages of an archive before a CommitLog offset."""
    return _messages(spark, source, _files(target_of(source, ""), "log=", end), columns, topics)


def _files(target: JobTarget, prefix: str, end: int | None) -> list[TargetFile]:
    """Return the files in folders with a prefix; if ``end`` is set, those before this CommitLog offset."""
    found = (file for file in target.files() if file.name.startswith(prefix) and file.name.endswith(SUFFIX))
    return [file for file in found if end is None or file.name.rpartition("/")[2] < offset_name(end)]


def _messages(
    spark: SparkSession,
    source: Path,
    files: list[TargetFile],
    columns: tuple[str, ...],
    topics: frozenset[str] | None,
) -> DataFrame:
    files = [file for file in files if _may_hold(file.name, topics)]
    read = columns if topics is None or "topic" in columns else (*columns, "topic")
    schema = spark_schema(read)
    if not files:
        found = spark.createDataFrame([], schema)
    elif isinstance(source, RemotePath):
        found = on_parts(spark, _parts(files), lambda names: _batches(source, names, read), schema)
    else:
        reader = spark.read.schema(schema).option("basePath", spark_path(source))
        found = reader.parquet(*(spark_path(source / file.name) for file in files))
    chosen = found if topics is None else found.where(f.col("topic").isin(*topics))
    return chosen.select(*columns)


def _may_hold(name: str, topics: frozenset[str] | None) -> bool:
    """Check whether a file can hold messages of some topics, by its folder; an archive's can hold any."""
    folder, _, value = name.partition("/")[0].partition("=")
    return topics is None or folder != "topic" or hive_value(value) in topics


def _parts(files: list[TargetFile]) -> list[list[str]]:
    """Group files into parts of a task each; return their names."""
    parts: list[list[str]] = []
    room = 0
    for file in files:
        if room < file.size:
            parts.append([])
            room = BYTES_PER_PARTITION
        parts[-1].append(file.name)
        room -= file.size
    return parts


def _batches(source: RemotePath, names: list[str], columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    target, schema = target_of(source, ""), arrow_schema(columns)
    for name in names:
        folder = name.partition("/")[0]
        with target.open(name) as opened, pq.ParquetFile(opened) as file:
            inside = [column for column in columns if column in file.schema_arrow.names]
            for batch in file.iter_batches(columns=inside):
                topic = pa.repeat(hive_value(folder.partition("=")[2]), batch.num_rows)
                arrays = [batch.column(column) if column in inside else topic for column in columns]
                yield pa.RecordBatch.from_arrays(arrays, list(columns)).cast(schema)


def _check_columns(target: JobTarget, there: Collection[str], columns: Collection[str]) -> None:
    if missing := [name for name in columns if name not in there]:
        raise SettingsError(f"{target.address} has no column {', '.join(missing)}: export all columns")
