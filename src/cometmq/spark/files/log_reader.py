"""Read a store's files in Spark: plan the tasks on the driver, read one of them on an executor."""

import sys
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from cometmq.errors import StoreDamaged
from cometmq.format.scan import find_next_record
from cometmq.kernels.arrays import Longs
from cometmq.kernels.ops import Ops, Scan
from cometmq.logs import get_logger
from cometmq.message import Buffer
from cometmq.spark import worth_loading
from cometmq.spark.files.bodies import decompress_bodies
from cometmq.spark.files.gathering import gather
from cometmq.spark.files.log_end import LogEnd
from cometmq.spark.files.patterns import matching
from cometmq.spark.files.record_choice import RecordChoice
from cometmq.spark.files.remote import FileBytes, Listed, opened
from cometmq.spark.files.splits import FilePiece, LogFile, gaps, log_file, log_files, pieces_of, plain, splits
from cometmq.spark.files.walk import DamagedPart, scans
from cometmq.spark.filters import FILES, Pushed, push, spark_pushes
from cometmq.spark.options import ReadOptions
from cometmq.spark.values import CLOCK_SLACK_MS
from cometmq.spark.worker import tune_worker

PROBE_BYTES: Final = 256 * 1024
"""Bytes read at each end of a piece: an object store takes as long for a kilobyte."""
PROBES_MIN: Final = 8
"""Pieces smaller than so many probes are not probed."""

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


def lies_outside(found: FileBytes, piece: FilePiece, ops: Ops, choice: RecordChoice) -> bool:
    """Check whether no record of a piece can have been stored in the range of times, by those at its ends.

    A log is in the order of store times, except where a clock was set back. So a piece is skipped if the
    records at both its ends were stored a minute or more before the range, or after it: two small reads.
    """
    is_small = piece.end - piece.start < PROBES_MIN * PROBE_BYTES
    if is_small or (choice.begin_time is None and choice.end_time is None):
        return False
    sides = _sides(found, piece, ops, choice, piece.start)
    if not sides:
        return False
    end = LogEnd(found, piece.file).bound(piece.end)
    return bool(sides & _sides(found, piece, ops, choice, max(end - PROBE_BYTES, piece.start)))


def _sides(found: FileBytes, piece: FilePiece, ops: Ops, choice: RecordChoice, position: int) -> set[str]:
    """Return the sides of the range of times on which all records probed at a position lie."""
    times = _times(found.peek(position, position + PROBE_BYTES), piece.file.base_offset + position, ops)
    if not len(times):
        return set()
    is_before = choice.begin_time is not None and times.max() < choice.begin_time - CLOCK_SLACK_MS
    is_behind = choice.end_time is not None and times.min() >= choice.end_time + CLOCK_SLACK_MS
    return {side for side, is_there in (("before", is_before), ("behind", is_behind)) if is_there}


def _times(data: Buffer, base_offset: int, ops: Ops) -> Longs:
    """Return the store times of the records in some bytes of a log, ms, ``int64[n]``."""
    position = find_next_record(data, 0, base_offset=base_offset)
    start = len(data) if position is None else position
    return ops.scan(data, base_offset=base_offset, start=start).store_time
