"""Choose the records of pulled responses, and find those that are missing."""

from collections.abc import Collection, Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from cometmq.kernels.arrays import Longs
from cometmq.kernels.ops import Ops, Scan
from cometmq.logs import get_logger
from cometmq.spark.files.gathering import Names, gather
from cometmq.spark.live.pulls import PulledPiece
from cometmq.spark.live.ranges import QueueRange
from cometmq.spark.pulled import damage_at, rows_with_tags

_SIZE: Final = Struct(">i")

log = get_logger(__name__)


class RowFilter(NamedTuple):
    """Conditions on a message; None for no condition.

    Attributes:
        tags: it has one of these.
        begin_time: earliest store time, ms since the epoch; ``end_time`` is not included.
    """

    tags: frozenset[str] | None = None
    begin_time: int | None = None
    end_time: int | None = None


class Answers:
    """The records of pulled pieces.

    Attributes:
        data: their bytes, back to back.
    """

    def __init__(self, ops: Ops, pieces: Sequence[PulledPiece]) -> None:
        self.data = b"".join(body for piece in pieces for body in piece.bodies)
        self._ops = ops
        self._pieces = pieces
        self._begins = np.array([piece.range.start for piece in pieces], np.int64)
        self._ends = np.array([piece.range.end for piece in pieces], np.int64)
        self._data_ends = np.cumsum([sum(map(len, piece.bodies)) for piece in pieces])
        self._found: list[tuple[Longs, Longs]] = []

    def scans(self) -> Iterator[tuple[Scan, Longs]]:
        """Scan the records; yield each scan with the rows, ``int64[n]``, of those in the pieces' ranges.

        Damaged records are logged and skipped.
        """
        position = 0
        while position < len(self.data):
            scan = self._ops.scan(self.data, base_offset=None, start=position)
            if scan.count:
                number = self._numbers(scan.position)
                rows = np.flatnonzero(
                    (scan.queue_offset >= self._begins[number]) & (scan.queue_offset < self._ends[number])
                )
                self._found.append((number[rows], scan.queue_offset[rows]))
                yield scan, rows
            position = scan.stop_position
            if position < len(self.data):
                position = self._behind_damage(position)

    def choose(self, scan: Scan, rows: Longs, wanted: RowFilter) -> Longs:
        """Return those of the rows, ``int64[n]``, that meet the conditions."""
        if wanted.begin_time is not None:
            rows = rows[scan.store_time[rows] >= wanted.begin_time]
        if wanted.end_time is not None:
            rows = rows[scan.store_time[rows] < wanted.end_time]
        if wanted.tags is None or not len(rows):
            return rows
        return rows_with_tags(self._ops, self.data, scan, rows, wanted.tags)

    def batch(self, scan: Scan, rows: Longs, columns: Collection[str]) -> pa.RecordBatch:
        """Return columns of some rows, bodies as stored."""

        def brokers() -> Names:
            names = pa.array([piece.range.queue.broker_name for piece in self._pieces], pa.string())
            return names.take(self._numbers(scan.position[rows]))

        return gather(self._ops, self.data, scan, rows, columns, brokers)

    def missing(self) -> list[QueueRange]:
        """Return the parts of the ranges that no scan has found. Only where brokers did not filter."""
        numbers = np.concatenate([number for number, _ in self._found] or [np.empty(0, np.int64)])
        counts = np.bincount(numbers, minlength=len(self._pieces))
        missing: list[QueueRange] = []
        for number in np.flatnonzero(counts != self._ends - self._begins).tolist():
            found = np.concatenate([offsets[which == number] for which, offsets in self._found] or [[]])
            missing += _gaps(self._pieces[number].range, sorted(found.tolist()))
        return missing

    def _numbers(self, positions: Longs) -> Longs:
        """Return the number of the piece that each position, ``int64[n]``, lies in."""
        return np.searchsorted(self._data_ends, positions, side="right")

    def _behind_damage(self, position: int) -> int:
        """Log the damage; return the position of the next record, by the damaged one's size if it is sane."""
        log.warning("a record in a broker's answer is damaged: %s", damage_at(self.data, position))
        (size,) = _SIZE.unpack_from(self.data, position) if position + _SIZE.size <= len(self.data) else (0,)
        end = int(self._data_ends[np.searchsorted(self._data_ends, position, side="right")])
        return position + size if 0 < size < end - position else end


def _gaps(whole: QueueRange, offsets: Sequence[int]) -> list[QueueRange]:
    """Return the parts of a range between offsets."""
    gaps = []
    start = whole.start
    for offset in [*offsets, whole.end]:
        if start < offset:
            gaps.append(QueueRange(whole.queue, start, offset))
        start = offset + 1
    return gaps
