"""Read a store's files in Spark: plan the tasks on the driver, read one of them on an executor."""

import sys
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from cometmq.errors import StoreDamaged
from cometmq.kernels.ops import Longs, Ops, Scan
from cometmq.logs import get_logger
from cometmq.spark import worth_loading
from cometmq.spark.files.bodies import decompress_bodies
from cometmq.spark.files.gathering import gather
from cometmq.spark.files.patterns import matching
from cometmq.spark.files.record_choice import RecordChoice
from cometmq.spark.files.remote import Listed, opened
from cometmq.spark.files.splits import FilePiece, LogFile, gaps, log_file, log_files, pieces_of, plain, splits
from cometmq.spark.files.time_range import lies_outside
from cometmq.spark.files.walk import DamagedPart, scans
from cometmq.spark.filters import FILES, Pushed, push, spark_pushes
from cometmq.spark.options import ReadOptions
from cometmq.spark.worker import tune_worker

log = get_logger(__name__)


class LogReader(DataSourceReader):
    """The batch reader of CommitLog files."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._choice = RecordChoice.of(options, Pushed())

    def partitions(self) -> list[InputPartition]:
        """Return a partition for each split of the files, or one for all if there is a limit.

        Raises:
            SettingsError: there are no such files.
            StoreDamaged: files are missing between others (FAILFAST).
        """
        stores = [store for path in self._options.paths for store in matching(path)]
        limited, most = self._options.limit is not None, self._options.bytes_per_partition
        made = [
            self._choice.pieces(split)
            for store in stores
            for split in splits(self._files(store), sys.maxsize if limited else most)
        ]
        if limited:
            made = [[piece for split in made for piece in split]]
        tune_worker()
        return [InputPartition(plain(pieces)) for pieces in made if pieces]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Read the chosen records of a partition, in batches. Raises like ``read_pieces``."""
        return self.read_pieces([] if partition is None else pieces_of(partition.value or []))

    def read_pieces(self, pieces: Iterable[FilePiece]) -> Iterator[pa.RecordBatch]:
        """Read the chosen records of pieces of files, in batches.

        Raises:
            StoreDamaged: there is damage between records (FAILFAST).
            OSError: a file is gone, or cannot be read.
        """
        left = self._options.limit or sys.maxsize
        for piece in pieces:
            found = opened(piece.file.path, piece.file.size, piece.end)
            ops = worth_loading.ops_for(piece.end - piece.start)
            if lies_outside(found, piece, ops, self._choice):
                continue
            for data, _, scan in scans(found, piece, ops, on_damage=self._report_damage):
                rows = self._choice.rows(ops, data, scan)[:left]
                if len(rows):
                    yield from self._batches(ops, data, scan, rows)
                left -= len(rows)
                if left == 0:
                    return
        tune_worker()

    def _files(self, store: Listed) -> list[LogFile]:
        files = [log_file(store)] if store.is_file else log_files(store.path)
        for end, begin in gaps(files):
            self._report_damage(f"{store.path}: the CommitLog has no file with the offsets {end} to {begin}")
        return files

    def _batches(self, ops: Ops, data: memoryview, scan: Scan, rows: Longs) -> Iterator[pa.RecordBatch]:
        broker = pa.scalar(self._options.broker, pa.string())
        batch = gather(ops, data, scan, rows, self._columns, lambda: pa.repeat(broker, len(rows)))
        if not self._options.decompress:
            return iter((batch,))
        return decompress_bodies(batch, scan.sys_flag[rows], on_damage=self._report_damage)

    def _report_damage(self, damage: DamagedPart | str) -> None:
        if self._options.fail_on_damage:
            raise StoreDamaged(f"{damage}; mode PERMISSIVE skips it")
        log.warning("%s", damage)


class FilteringLogReader(LogReader):
    """A reader that applies WHERE clauses. Spark refuses it unless its setting allows to push them."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  Spark's name
        """Apply what clauses it can; return the filters that Spark still has to apply."""
        pushed, left = push(filters, FILES)
        self._choice = RecordChoice.of(self._options, pushed)
        return left


def reader_of(options: ReadOptions, columns: tuple[str, ...]) -> LogReader:
    """Return the reader of a read; it applies WHERE clauses if Spark has some and there is no limit.

    With a limit the clauses apply to the records within the limit, so Spark applies them.
    """
    pushes = spark_pushes() and options.limit is None
    return FilteringLogReader(options, columns) if pushes else LogReader(options, columns)
