"""Exporting a store's messages by topic and day, run after run what is new: to Parquet, or to a Delta table.

::

    target/topic=orders/day=2026-01-31/<begin>-part-….parquet    messages; the day of their store time, UTC
    target/_export/<begin>/                                      a run under way, from a CommitLog offset on
    target/_export/next.json                                     where the next run begins, of Parquet files

A run writes all its files aside; when they are complete, and what they hold is noted in ``summary.json``,
they are moved to where readers find them, and the next run's begin is noted. Whatever is killed in between,
the next run takes it up there: each message is in the target once. Readers of a Delta table see a run's
files all at once, by the transaction that also notes the next begin (``delta``).

The messages of a topic and day are brought together before they are written, so that a run makes one file of
them for each GiB of log it has read, not one for each task.
"""

import logging
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count, date_from_unix_date, expr
from pyspark.sql.functions import max as greatest
from pyspark.sql.types import DateType

from cometmq.errors import SettingsError
from cometmq.format.layout import offset_name
from cometmq.io.files import Disk, FileLayer
from cometmq.spark.jobs.paths import DELTA_LOG, check_delta_package, spark_path
from cometmq.spark.jobs.ranges import Range, records
from cometmq.spark.jobs.targets import LOCK, held
from cometmq.spark.jobs.watch import Progress, watched
from cometmq.spark.options import BYTES_PER_PARTITION
from cometmq.spark.remote import path_of
from cometmq.spark.schema import COLUMNS, no_column, spark_schema
from cometmq.spark.splits import log_files
from cometmq.store.rebuild import remove_tree

if TYPE_CHECKING:
    from cometmq.spark.jobs.delta import Table

log = logging.getLogger(__name__)

STATE: Final = "_export"
"""Spark passes over names that begin so."""
NEXT: Final = "next.json"
SUMMARY: Final = "summary.json"
ALWAYS: Final = ("topic", "physical_offset", "store_time")
"""Columns that are there whatever is asked for."""
DAY: Final = "day"
BY: Final = ("topic", DAY)
DAY_US: Final = 86_400_000_000
LOG_BYTES_PER_FILE: Final = 1024 * 1024 * 1024
TIME_TYPE: Final = "spark.sql.parquet.outputTimestampType"
"""Of Spark; its default is one that Parquet has given up, and Delta does not know."""


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


class _Summary(msgspec.Struct):
    """The file ``summary.json``: what a run did, and its files, as they lie in its directory."""

    done: Exported
    files: list[str]


def export(
    spark: SparkSession,
    store: Path | str,
    target: Path | str,
    *,
    topics: Collection[str] | None = None,
    columns: Collection[str] | None = None,
    broker: str | None = None,
    as_delta: bool = False,
    progress: Progress | None = None,
    bytes_per_task: int = BYTES_PER_PARTITION,
) -> Exported:
    """Export what the store's log has got since the last run with this target; a broker may serve it.

    Args:
        target: a directory for this store alone, that all executors see at this path.
        topics: which ones; all by default. Keep to the same ones from run to run.
        columns: which ones, besides topic, physical_offset and store_time; all by default.
        broker: name of the broker whose store it is, for the column ``broker``, which is null without.
        as_delta: make the target a Delta table, not a directory of Parquet files.
        bytes_per_task: bytes of the log that one task reads.

    Raises:
        SettingsError: there is no store, or no such column; the target is of the other kind, or is another
            table; a Delta table is asked for without the package for it.
        StoreLocked: another job fills the target.
        OSError: the disk refuses; the next run goes on.
    """
    root, place, layer = path_of(store).absolute(), Path(target).absolute(), Disk()
    files = log_files(root)
    first = files[0].base_offset if files else 0
    names, chosen = _names(columns), None if topics is None else frozenset(topics)
    _check_kind(layer, place, as_delta=as_delta)
    with held(layer, place, STATE) as state:
        table = _table(place, names) if as_delta else None
        begin = _load_next(layer, state) if table is None else table.begin()
        missing = max(first - begin, 0) if begin else 0
        if missing:
            log.warning(
                "%s: %d bytes from %d on were removed before they were exported", root, missing, begin
            )
        run = state / offset_name(begin)
        for name in set(layer.names(state)) - {LOCK, NEXT, run.name}:
            remove_tree(layer, state / name)  # of a run that was killed when all else was done
        if not layer.exists(run / SUMMARY):
            new = records(
                spark, files, names, Range(begin), topics=chosen, broker=broker, bytes_per_task=bytes_per_task
            )
            with watched(spark, "export", progress):
                _write(new, run)
            layer.save(run / SUMMARY, msgspec.json.encode(_summary(spark, run, begin, missing)))
        return _publish(layer, place, run, table)


def _names(columns: Collection[str] | None) -> tuple[str, ...]:
    for name in columns or ():
        if name not in COLUMNS:
            raise SettingsError(no_column(name))
    return tuple(name for name in COLUMNS if columns is None or name in {*columns, *ALWAYS})


def _check_kind(layer: FileLayer, place: Path, *, as_delta: bool) -> None:
    if as_delta:
        check_delta_package()
    if as_delta and layer.exists(place / STATE / NEXT):
        raise SettingsError(f"{place} was filled with Parquet files: give a Delta table a target of its own")
    if not as_delta and layer.exists(place / DELTA_LOG):
        raise SettingsError(f"{place} is a Delta table: ask for that format, or give another target")


def _table(place: Path, names: Collection[str]) -> "Table":
    from cometmq.spark.jobs.delta import Table  # noqa: PLC0415 - an extra

    return Table(place, spark_schema(names).add(DAY, DateType()), BY)


def _load_next(layer: FileLayer, state: Path) -> int:
    path = state / NEXT
    return msgspec.json.decode(layer.load(path), type=_Next).begin if layer.exists(path) else 0


def _write(messages: DataFrame, run: Path) -> None:
    """Write messages to files by topic and day, each in the order of the log."""
    day = date_from_unix_date(expr(f"cast(floor(unix_micros(store_time) / {DAY_US}) as int)"))
    part = expr(f"physical_offset div {LOG_BYTES_PER_FILE}")
    files = messages.withColumn(DAY, day).repartition(*BY, part)
    ordered = files.sortWithinPartitions(*BY, "physical_offset")
    conf = messages.sparkSession.conf
    before = conf.get(TIME_TYPE) or ""
    conf.set(TIME_TYPE, "TIMESTAMP_MICROS")
    try:
        ordered.write.partitionBy(*BY).mode("overwrite").parquet(spark_path(run))
    finally:
        conf.set(TIME_TYPE, before)


def _summary(spark: SparkSession, run: Path, begin: int, missing: int) -> _Summary:
    """Tell from a run's files what they hold."""
    frame = spark.read.schema("topic string, physical_offset bigint").parquet(spark_path(run))
    found = frame.groupBy("topic").agg(
        count("*").alias("messages"), greatest("physical_offset").alias("last")
    )
    rows = found.orderBy("topic").collect()
    last = max((row["last"] for row in rows), default=begin - 1)
    messages = {row["topic"]: row["messages"] for row in rows}
    files = sorted(path.relative_to(run).as_posix() for path in run.rglob("*.parquet"))
    return _Summary(Exported(begin=begin, next=last + 1, messages=messages, missing=missing), files)


def _publish(layer: FileLayer, place: Path, run: Path, table: "Table | None") -> Exported:
    """Move a run's files to where readers find them, those that are not there yet; note the next begin."""
    summary = msgspec.json.decode(layer.load(run / SUMMARY), type=_Summary)
    done, published = summary.done, []
    for name in summary.files:
        made = run / name
        path = place / made.parent.relative_to(run) / f"{run.name}-{made.name}"
        if layer.exists(made):
            layer.make_directory(path.parent)
            layer.sync(made)
            layer.rename(made, path)
        published.append(path)
    if table is None:
        layer.save(run.with_name(NEXT), msgspec.json.encode(_Next(done.next)))
    elif published:
        table.add(layer, published, done.next)
    remove_tree(layer, run)
    return done
