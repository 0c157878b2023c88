"""The Spark source "rocketmq": the records of a store's CommitLog files, with no broker, or live topics.

::

    spark.read.format("rocketmq").option("topic", "orders").load("store")
    spark.readStream.format("rocketmq").options(namesrv="127.0.0.1:9876", subscribe="orders").load()

``options`` and ``live.options`` list what can be asked for, ``schema`` the columns.
"""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from cometmq import kernels
from cometmq.errors import SettingsError, StoreDamaged
from cometmq.kernels.ops import TIME_MAX, Longs, Ops, Scan
from cometmq.spark.bodies import whole_bodies
from cometmq.spark.gathering import gather
from cometmq.spark.live import sink
from cometmq.spark.live.batch import FilteringReader, LiveReader
from cometmq.spark.live.options import parse as parse_live
from cometmq.spark.live.rows import check_columns
from cometmq.spark.live.sink import BatchWriter, StreamWriter
from cometmq.spark.live.stream import LiveStreamReader
from cometmq.spark.options import ReadOptions, parse
from cometmq.spark.remote import matching, opened
from cometmq.spark.schema import COLUMNS, columns_of, spark_schema
from cometmq.spark.splits import LogFile, Piece, gaps, log_files, splits
from cometmq.spark.walk import Damage, scans

NAMESRV: Final = "namesrv"
"""The option that asks for live topics instead of files."""

log = logging.getLogger(__name__)


class RocketMQSource(DataSource):
    """What Spark asks for a schema and a reader. Both raise SettingsError for what cannot be used."""

    @classmethod
    def name(cls) -> str:
        """Give the name to be used in ``format(…)``."""
        return "rocketmq"

    def schema(self) -> StructType:
        """Give the columns that the options ask for."""
        options = parse_live(self.options) if NAMESRV in self.options else parse(self.options)
        return spark_schema(options.columns or COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Give the reader of the columns in ``schema``: of files, or of live topics."""
        if NAMESRV not in self.options:
            return LogReader(parse(self.options), columns_of(schema))
        options = parse_live(self.options, stream=False)
        reader = FilteringReader if options.push_filters else LiveReader
        return reader(options, columns_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        """Give the reader of what comes to live topics."""
        if NAMESRV not in self.options:
            raise SettingsError(
                "option namesrv is missing: streams are read from live topics, not from files"
            )
        return LiveStreamReader(parse_live(self.options, stream=True), columns_of(schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Give what sends the rows of a frame."""
        options = sink.parse(self.options)
        if overwrite:
            raise SettingsError('mode("overwrite"): topics can only be added to, use mode("append")')
        check_columns(schema, options.topic)
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802, ARG002  Spark's
        """Give what sends the rows of micro-batches; in each mode of output they are added."""
        options = sink.parse(self.options)
        check_columns(schema, options.topic)
        return StreamWriter(options)


class LogReader(DataSourceReader):
    """Plans the tasks of a read, on the driver, and reads one of them, on an executor."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """Give one partition for each split of the files; a single one for all when there is a limit.

        Raises:
            SettingsError: there are no such files.
            StoreDamaged: files are missing between others (FAILFAST).
        """
        stores = [store for path in self._options.paths for store in matching(path)]
        limited, most = self._options.limit is not None, self._options.bytes_per_partition
        made = [
            split
            for store in stores
            for split in splits(self._files(store), sys.maxsize if limited else most)
        ]
        if limited:
            made = [[piece for split in made for piece in split]]
        return [InputPartition(pieces) for pieces in made]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Give the records of a partition that are asked for, in batches.

        Raises:
            StoreDamaged: bytes before other records are no record (FAILFAST).
            OSError: a file is gone, or cannot be read.
        """
        pieces: list[Piece] = (partition and partition.value) or []  # a read without partitions gets None
        ops = kernels.load()
        left = self._options.limit or sys.maxsize
        for piece in pieces:
            found = opened(piece.file.path, piece.file.size)
            data = found.data
            for scan in scans(found, piece, ops, on_damage=self._tell):
                rows = self._select(ops, data, scan)[:left]
                if len(rows):
                    yield from self._batches(ops, data, scan, rows)
                left -= len(rows)
                if left == 0:
                    return

    def _files(self, store: Path) -> list[LogFile]:
        files = log_files(store)
        for end, begin in gaps(files):
            self._tell(f"{store}: the CommitLog has no file with the offsets {end} to {begin}")
        return files

    def _batches(self, ops: Ops, data: memoryview, scan: Scan, rows: Longs) -> Iterator[pa.RecordBatch]:
        broker = pa.scalar(self._options.broker, pa.string())
        batch = gather(ops, data, scan, rows, self._columns, lambda: pa.repeat(broker, len(rows)))
        if not self._options.decompress:
            return iter((batch,))
        return whole_bodies(batch, scan.sys_flag[rows], on_damage=self._tell)

    def _select(self, ops: Ops, data: memoryview, scan: Scan) -> Longs:
        begin, end = self._options.starting_time, self._options.ending_time
        return ops.select(
            data,
            scan,
            topics=self._options.topics,
            begin_time=0 if begin is None else begin,
            end_time=TIME_MAX if end is None else end,
        )

    def _tell(self, damage: Damage | str) -> None:
        if self._options.fail_on_damage:
            raise StoreDamaged(f"{damage}; mode PERMISSIVE passes over it")
        log.warning("%s", damage)
