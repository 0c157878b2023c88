"""Exporting a store's messages to Parquet, by topic and day, run after run what is new.

::

    target/topic=orders/day=2026-01-31/<begin>-part-….parquet    messages; the day of their store time, UTC
    target/_export/<begin>/                                      a run under way, from a CommitLog offset on
    target/_export/next.json                                     where the next run begins

A run writes all its files aside; when they are complete, and what they hold is noted in ``summary.json``,
they are moved to where readers find them, and the next run's begin is noted. Whatever is killed in between,
the next run takes it up there: each message is in the target once.

The messages of a topic and day are brought together before they are written, so that a run makes one file of
them for each GiB of log it has read, not one for each task.
"""

import logging
from collections.abc import Collection
from pathlib import Path
from typing import Final

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.functions import count, date_from_unix_date, expr
from pyspark.sql.functions import max as greatest

from cometmq.format.layout import offset_name
from cometmq.io.files import Disk, FileLayer
from cometmq.spark.jobs.paths import spark_path
from cometmq.spark.jobs.ranges import Range, records
from cometmq.spark.jobs.watch import Progress, watched
from cometmq.spark.options import BYTES_PER_PARTITION
from cometmq.spark.remote import path_of
from cometmq.spark.schema import COLUMNS
from cometmq.spark.splits import log_files
from cometmq.store.rebuild import remove_tree

log = logging.getLogger(__name__)

STATE: Final = "_export"
"""Spark passes over names that begin so."""
NEXT: Final = "next.json"
SUMMARY: Final = "summary.json"
ALWAYS: Final = ("topic", "physical_offset", "store_time")
"""Columns that are there whatever is asked for."""
DAY_US: Final = 86_400_000_000
LOG_BYTES_PER_FILE: Final = 1024 * 1024 * 1024


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What a run did.

    Attributes:
        begin: CommitLog offset from which the log was read.
        next: from which the next run will.
        messages: how many were exported, by topic.
        missing: bytes of the log that were removed before they could be exported.
    """

    begin: int
    next: int
    messages: dict[str, int]
    missing: int = 0


class _Next(msgspec.Struct):
    """The file ``next.json``."""

    begin: int = 0


def export(
    spark: SparkSession,
    store: Path | str,
    target: Path | str,
    *,
    topics: Collection[str] | None = None,
    columns: Collection[str] | None = None,
    progress: Progress | None = None,
    bytes_per_task: int = BYTES_PER_PARTITION,
) -> Exported:
    """Export what the store's log has got since the last run with this target; a broker may serve it.

    Args:
        target: a directory that all executors see at this path.
        topics: which ones; all by default. Keep to the same ones from run to run.
        columns: which ones, besides topic, physical_offset and store_time; all by default.
        bytes_per_task: bytes of the log that one task reads.

    Raises:
        SettingsError: there is no store, or no such column.
        OSError: the disk refuses; the next run goes on.
    """
    root, place, layer = path_of(store).absolute(), Path(target).absolute(), Disk()
    state = place / STATE
    layer.make_directory(state)
    begin = _load_next(layer, state)
    first = next((file.base_offset for file in log_files(root)), 0)
    missing = max(first - begin, 0) if begin else 0
    if missing:
        log.warning("%s: %d bytes from %d on were removed before they were exported", root, missing, begin)
    run = state / offset_name(begin)
    if not layer.exists(run / SUMMARY):
        names = tuple(name for name in COLUMNS if columns is None or name in {*columns, *ALWAYS})
        chosen = None if topics is None else frozenset(topics)
        new = records(spark, root, names, Range(begin), topics=chosen, bytes_per_task=bytes_per_task)
        day = date_from_unix_date(expr(f"cast(floor(unix_micros(store_time) / {DAY_US}) as int)"))
        part = expr(f"physical_offset div {LOG_BYTES_PER_FILE}")
        files = new.withColumn("day", day).repartition("topic", "day", part)
        with watched(spark, "export", progress):
            ordered = files.sortWithinPartitions("topic", "day", "physical_offset")
            ordered.write.partitionBy("topic", "day").mode("overwrite").parquet(spark_path(run))
        summary = _summary(spark, run, begin, missing)
        layer.save(run / SUMMARY, msgspec.json.encode(summary))
    return _publish(layer, place, run)


def _load_next(layer: FileLayer, state: Path) -> int:
    path = state / NEXT
    return msgspec.json.decode(layer.load(path), type=_Next).begin if layer.exists(path) else 0


def _summary(spark: SparkSession, run: Path, begin: int, missing: int) -> Exported:
    """Tell from a run's files what they hold."""
    frame = spark.read.schema("topic string, physical_offset bigint").parquet(spark_path(run))
    found = frame.groupBy("topic").agg(
        count("*").alias("messages"), greatest("physical_offset").alias("last")
    )
    rows = found.orderBy("topic").collect()
    last = max((row["last"] for row in rows), default=begin - 1)
    messages = {row["topic"]: row["messages"] for row in rows}
    return Exported(begin=begin, next=last + 1, messages=messages, missing=missing)


def _publish(layer: FileLayer, place: Path, run: Path) -> Exported:
    """Move a run's files to where readers find them, those that are not there yet; note the next begin."""
    summary = msgspec.json.decode(layer.load(run / SUMMARY), type=Exported)
    for made in sorted(run.rglob("*.parquet")):
        directory = place / made.parent.relative_to(run)
        layer.make_directory(directory)
        layer.sync(made)
        layer.rename(made, directory / f"{run.name}-{made.name}")
    layer.save(run.with_name(NEXT), msgspec.json.encode(_Next(summary.next)))
    remove_tree(layer, run)
    return summary
