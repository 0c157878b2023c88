"""Read back the targets of jobs: an archive, exported Parquet, a Delta table.

Only files before the end of the last finished round count. Files on disks are read by Spark itself; others by
tasks in Python, as Spark's own reader needs Java packages for them.
"""

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.errors import SettingsError
from cometmq.format.layout import offset_name
from cometmq.spark.files.remote import RemotePath, spark_path
from cometmq.spark.jobs.export.export_files import DAY, hive_name, hive_value
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

LOG: Final = "log="
FOLDERS: Final = {"topic=": "_export", LOG: "_archive"}
"""By the prefix of the folders of exported Parquet and of an archive, the job's own folder."""
SUFFIX: Final = ".parquet"
DAY_MS: Final = 24 * 60 * 60 * 1000
ALL_TIMES: Final = (-(2**63), 2**63 - 1)
"""Store times, ms: any."""


def filled(
    spark: SparkSession,
    source: Path,
    columns: tuple[str, ...],
    *,
    topics: frozenset[str] | None = None,
    times: tuple[int, int] = ALL_TIMES,
) -> DataFrame | None:
    """Return columns of the messages in a target; None if no job has filled it.

    Args:
        topics: None for all.
        times: first and last store time of interest, ms: files of other days, by their folder, are left out,
            and messages of these days are not.

    Raises:
        SettingsError: it lacks columns, or is a Delta table whose package is not installed.
    """
    target = target_of(source, "")
    if target.exists(DELTA_LOG):
        check_delta_package()
        from cometmq.spark.jobs.export.delta import columns_of, files_of  # noqa: PLC0415 - an extra

        _check_columns(target, columns_of(target), columns)
        own = {name for name in files_of(target) if _is_of(name, topics)}
        inside = {name.partition("/")[0] for name in own}
        is_chosen = topics is not None and all("/" in name for name in own)
        files = [file for file in target.files(inside if is_chosen else None) if file.name in own]
        return _messages(spark, source, _of_days(files, times), columns, topics)
    names = target.names("")
    prefix = next((one for one in FOLDERS if any(name.startswith(one) for name in names)), None)
    if prefix is None:
        return None
    last = DoneRounds(target, FOLDERS[prefix], RoundDone).last()
    folders = [name for name in names if name.startswith(prefix) and _is_of(f"{name}/", topics)]
    files = _files(target, None if last is None else last.next, folders)
    if files:
        with target.open(files[0].name) as first:
            _check_columns(target, {"topic", *pq.read_schema(first).names}, columns)
    return _messages(spark, source, _of_days(files, times), columns, topics)


def archived(
    spark: SparkSession, source: Path, end: int, columns: tuple[str, ...], topics: frozenset[str] | None
) -> DataFrame:
    """Return columns of the messages of an archive before a CommitLog offset."""
    target = target_of(source, "")
    folders = [name for name in target.names("") if name.startswith(LOG)]
    return _messages(spark, source, _files(target, end, folders), columns, topics)


def _files(target: JobTarget, end: int | None, folders: Collection[str]) -> list[TargetFile]:
    """Return the files in folders; if ``end`` is set, those before this CommitLog offset."""
    found = (file for file in target.files(folders) if file.name.endswith(SUFFIX))
    return [file for file in found if end is None or file.name.rpartition("/")[2] < offset_name(end)]


def _is_of(name: str, topics: frozenset[str] | None) -> bool:
    """Check whether a file can hold messages of topics, by its folder; an archive's can hold any."""
    column, _, value = name.partition("/")[0].partition("=")
    return topics is None or column != "topic" or hive_value(value) in topics


def _of_days(files: list[TargetFile], times: tuple[int, int]) -> list[TargetFile]:
    """Leave out the files in folders of days that are outside of times."""
    return [file for file in files if _may_hold(file.name, times)]


def _may_hold(name: str, times: tuple[int, int]) -> bool:
    first, last = times
    for folder in name.split("/")[:-1]:
        column, _, value = folder.partition("=")
        if column == DAY and value != hive_name(""):
            begin = round(datetime.fromisoformat(value).replace(tzinfo=UTC).timestamp() * 1000)
            return begin <= last and first < begin + DAY_MS
    return True


def _messages(
    spark: SparkSession,
    source: Path,
    files: list[TargetFile],
    columns: tuple[str, ...],
    topics: frozenset[str] | None,
) -> DataFrame:
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
