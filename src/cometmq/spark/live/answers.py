"""The answers to pulls, seen by the kernels: which of their records are wanted, and which are not there."""

import logging
from collections.abc import Collection, Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cometmq.format.scan import Stop, check
from cometmq.kernels.ops import Flags, Longs, Ops, Scan
from cometmq.spark.files.gathering import Names, gather
from cometmq.spark.live.pulls import PulledPiece
from cometmq.spark.live.ranges import QueueRange

_SIZE: Final = Struct(">i")

log = logging.getLogger(__name__)


class RowFilter(NamedTuple):
    """What a message must be like.

    Attributes:
        tags: it has one of these; None for any.
        begin_time: earliest store time, ms since the epoch, None for any; ``end_time`` is not included.
    """

    tags: frozenset[str] | None = None
    begin_time: int | None = None
    end_time: int | None = None


class Answers:
    """The records of pieces that were pulled.

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
        """Give scans of the records, and the places in each of those that lie in their ranges.

        A damaged record is passed over, and logged.
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
        """Give those of some rows that are wanted."""
        if wanted.begin_time is not None:
            rows = rows[scan.store_time[rows] >= wanted.begin_time]
        if wanted.end_time is not None:
            rows = rows[scan.store_time[rows] < wanted.end_time]
        if wanted.tags is None or not len(rows):
            return rows
        tags = self._ops.arrow(self.data, scan, rows, ("tags",)).column(0)
        is_one = pc.is_in(tags, value_set=pa.array(wanted.tags, pa.string()))
        kept: Flags = is_one.to_numpy(zero_copy_only=False)
        return rows[kept]

    def batch(self, scan: Scan, rows: Longs, columns: Collection[str]) -> pa.RecordBatch:
        """Give columns of some rows, bodies as they are stored."""

        def brokers() -> Names:
            names = pa.array([piece.range.queue.broker_name for piece in self._pieces], pa.string())
            return names.take(self._numbers(scan.position[rows]))

        return gather(self._ops, self.data, scan, rows, columns, brokers)

    def missing(self) -> list[QueueRange]:
        """Give what of the ranges no scan has found, where brokers did not filter."""
        numbers = np.concatenate([number for number, _ in self._found] or [np.empty(0, np.int64)])
        counts = np.bincount(numbers, minlength=len(self._pieces))
        missing: list[QueueRange] = []
        for number in np.flatnonzero(counts != self._ends - self._begins).tolist():
            found = np.concatenate([offsets[which == number] for which, offsets in self._found] or [[]])
            missing += _gaps(self._pieces[number].range, sorted(found.tolist()))
        return missing

    def _numbers(self, positions: Longs) -> Longs:
        """Give which piece each position is in."""
        return np.searchsorted(self._data_ends, positions, side="right")

    def _behind_damage(self, position: int) -> int:
        """Give where the next record should begin: what a record says of its own size is all there is."""
        found = check(self.data, position, len(self.data), base_offset=None)
        log.warning(
            "a record in a broker's answer is damaged: %s", found.detail if isinstance(found, Stop) else ""
        )
        (size,) = _SIZE.unpack_from(self.data, position) if position + _SIZE.size <= len(self.data) else (0,)
        end = int(self._data_ends[np.searchsorted(self._data_ends, position, side="right")])
        return position + size if 0 < size < end - position else end


def _gaps(whole: QueueRange, offsets: Sequence[int]) -> list[QueueRange]:
    """Give the parts of a range between offsets."""
    gaps = []
    start = whole.start
    for offset in [*offsets, whole.end]:
        if start < offset:
            gaps.append(QueueRange(whole.queue, start, offset))
        start = offset + 1
    return gaps
