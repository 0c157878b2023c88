"""Export a store's messages by topic and day to Parquet or a Delta table, incrementally.

::

    target/topic=orders/day=2026-01-31/<offset>.parquet    messages; the day of their store time, UTC
    target/_export/                                        finished rounds, and the plan of the next one

The messages of a topic and day are shuffled together before they are written: to one file for each GiB of the
log, named by the CommitLog offset at which that GiB, or the round, begins. ``rounds`` decides which files
count; readers of a Delta table see the files of a round all at once, by the transaction that also holds where
the next one begins (``delta``).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import date_from_unix_date, expr
from pyspark.sql.types import DateType

from cometmq.errors import SettingsError
from cometmq.logs import get_logger
from cometmq.spark.files.remote import path_of
from cometmq.spark.files.splits import log_files
from cometmq.spark.jobs.export.export_files import (
    BY,
    DAY,
    FILE_BEGIN,
    MADE,
    ExportFiles,
    MadeFile,
    made_batch,
)
from cometmq.spark.jobs.export.rounds import DONE, DoneRounds, RoundDone, RoundPlan, round_end, rounds
from cometmq.spark.jobs.export.targets import DELTA_LOG, JobTarget, check_delta_package, target_of
from cometmq.spark.jobs.parts import shuffle_tasks
from cometmq.spark.jobs.ranges import LogRange, records
from cometmq.spark.jobs.tail import records_end
from cometmq.spark.jobs.watch import Progress, watched
from cometmq.spark.options import BYTES_PER_PARTITION
from cometmq.spark.schema import COLUMNS, arrow_schema, no_column, spark_schema

if TYPE_CHECKING:
    from cometmq.spark.jobs.export.delta import Table

log = get_logger(__name__)

STATE: Final = "_export"
"""The job's own folder: Spark ignores names with an underscore in front."""
ALWAYS: Final = ("topic", "physical_offset", "store_time")
"""Columns that every export has."""
DAY_US: Final = 86_400_000_000
LOG_BYTES_PER_FILE: Final = 1024 * 1024 * 1024


class Exported(RoundDone, frozen=True, kw_only=True):
    """The result of a run.

    Attributes:
        begin: CommitLog offset from which the log was read.
        next: CommitLog offset at which the next run begins.
        messages: how many were exported, by topic.
        missing: bytes of the log that were removed before they could be exported.
    """

    messages: dict[str, int]
    missing: int = 0


class ExportPlan(RoundPlan, frozen=True, kw_only=True):
    """The plan of a round: see ``export`` for the names."""

    topics: list[str] | None
    columns: list[str]
    broker: str | None


def export(
    spark: SparkSession,
    store: Path | str,
    target: Path | str,
    *,
    topics: Collection[str] | None = None,
    columns: Collection[str] | None = None,
    broker: str | None = None,
    as_delta: bool | Mapping[str, str] = False,
    progress: Progress | None = None,
    bytes_per_task: int = BYTES_PER_PARTITION,
) -> Exported:
    """Export the messages that a store has received since the last run with this target.

    A broker may serve the store meanwhile.

    Args:
        target: a directory for this store alone, which all executors see at this path, or an address that
            fsspec writes to, ``s3://bucket/exported``.
        topics: which ones; all by default. Use the same ones in each run.
        columns: which ones, besides topic, physical_offset and store_time; all by default.
        broker: name of the store's broker, for the column ``broker``; null by default.
        as_delta: create a Delta table, not a directory of Parquet files. Instead of True, options of Delta
            for the target's file system: ``{"AWS_REGION": "eu-west-1"}``.
        bytes_per_task: bytes of the log that one task reads.

    Raises:
        SettingsError: there is no store, or no such column; the target cannot be written to, is of the other
            kind, or is another table; a package is not installed.
        StoreLocked: another job fills the target.
        OSError: the disk refuses; the next run continues.
    """
    run = _Run(spark, path_of(store).absolute(), target_of(target, STATE), bytes_per_task)
    wanted = ExportPlan(
        begin=0,
        end=0,
        topics=None if topics is None else sorted(topics),
        columns=_names(columns),
        broker=broker,
    )
    run.target.check()
    _check_kind(run.target, as_delta=as_delta is not False)
    with run.target.held(), watched(spark, "export", progress):
        if as_delta is False:
            done = DoneRounds(run.target, STATE, Exported)
            return run.run(wanted, done.next_begin, lambda _, exported: done.add(exported))
        table = _table(run.target, wanted.columns, {} if as_delta is True else as_delta)
        return run.run(wanted, table.next_begin, lambda files, exported: table.add(files, exported.next))


class _Run:
    """One run of the job."""

    def __init__(self, spark: SparkSession, root: Path, target: JobTarget, bytes_per_task: int) -> None:
        self.target = target
        self._spark = spark
        self._root = root
        self._bytes_per_task = bytes_per_task
        self._files = log_files(root)
        self._end: int | None = None

    def run(
        self,
        wanted: ExportPlan,
        next_begin: Callable[[], int],
        commit: Callable[[list[MadeFile], Exported], None],
    ) -> Exported:
        """Export round by round.

        Args:
            wanted: the plan of new rounds, without their offsets.
            next_begin: returns the CommitLog offset at which the next round begins.
            commit: commits the files and the result of a round, which ends it.
        """
        begin = end = next_begin()
        missing, messages = self._missing(begin), Counter[str]()

        def plan(begin: int) -> ExportPlan | None:
            stop = self._end_of_round(begin)
            return None if stop is None else msgspec.structs.replace(wanted, begin=begin, end=stop)

        for planned in rounds(self.target, STATE, ExportPlan, next_begin, plan):
            made = self._write(planned)
            exported = Counter[str]()
            for file in made:
                exported[file.topic] += file.messages
            done = Exported(
                begin=planned.begin,
                next=planned.end,
                messages=dict(sorted(exported.items())),
                missing=missing,
            )
            commit(made, done)
            messages += exported
            end = planned.end
        return Exported(begin=begin, next=end, messages=dict(sorted(messages.items())), missing=missing)

    def _missing(self, begin: int) -> int:
        first = self._files[0].base_offset if self._files else begin
        if not 0 < begin < first:
            return 0
        log.warning(
            "%s: %d bytes from %d on were removed before they were exported", self._root, first - begin, begin
        )
        return first - begin

    def _end_of_round(self, begin: int) -> int | None:
        """Return the CommitLog offset at which a round ends; None if there is nothing from ``begin`` on."""
        if self._end is None:  # later messages are left to the next run
            self._end = records_end(self._spark, self._files, begin, self._bytes_per_task) or begin
        if self._end <= begin:
            return None
        first = next(file for file in self._files if file.base_offset + file.size > begin)
        return min(round_end(max(begin, first.base_offset), self._end), self._end)

    def _write(self, plan: ExportPlan) -> list[MadeFile]:
        """Write the files of a round, each in the order of the log."""
        names, target = tuple(plan.columns), self.target
        schema = arrow_schema(name for name in names if name not in BY)
        new = records(
            self._spark,
            self._files,
            names,
            LogRange(plan.begin, plan.end),
            topics=None if plan.topics is None else frozenset(plan.topics),
            broker=plan.broker,
            bytes_per_task=self._bytes_per_task,
        )

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            with target.staging() as folder:
                yield made_batch(ExportFiles(target, folder, schema).write(batches))

        day = date_from_unix_date(expr(f"cast(floor(unix_micros(store_time) / {DAY_US}) as int)"))
        begin = f"greatest(physical_offset div {LOG_BYTES_PER_FILE} * {LOG_BYTES_PER_FILE}, {plan.begin})"
        dated = new.withColumn(DAY, day).withColumn(FILE_BEGIN, expr(begin))
        tasks = shuffle_tasks(plan.end - plan.begin)
        together = dated.repartition(tasks, *BY, FILE_BEGIN).sortWithinPartitions(*BY, "physical_offset")
        return [MadeFile(*row) for row in together.mapInArrow(write, MADE).collect()]


def _names(columns: Collection[str] | None) -> list[str]:
    chosen = [name.lower() for name in columns or ()]
    for name in chosen:
        if name not in COLUMNS:
            raise SettingsError(no_column(name))
    return [name for name in COLUMNS if columns is None or name in {*chosen, *ALWAYS}]


def _check_kind(target: JobTarget, *, as_delta: bool) -> None:
    if as_delta:
        check_delta_package()
    if as_delta and any(name.endswith(DONE) for name in target.names(STATE)):
        raise SettingsError(
            f"{target.address} was filled with Parquet files: give a Delta table a target of its own"
        )
    if not as_delta and target.exists(DELTA_LOG):
        raise SettingsError(f"{target.address} is a Delta table: ask for that format, or give another target")


def _table(target: JobTarget, names: Collection[str], options: Mapping[str, str]) -> "Table":
    from cometmq.spark.jobs.export.delta import Table  # noqa: PLC0415 - an extra

    return Table(target, spark_schema(names).add(DAY, DateType()), BY, options)
