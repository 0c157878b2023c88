"""Read the parts of a store for a check, in tasks: pieces of the log, and index files.

======= ============================================================================
kind    content of ``data``
======= ============================================================================
piece   PieceSeen of a piece, pickled
queue   QUEUE_ROW for each record of a queue in a stretch of the log; with their
        store times in ``times`` if the queue is one of the schedule
keys    KEY_ROW for each key of the records in a stretch
index   IndexSeen of an index file, pickled
entries ENTRY_ROW for some of its entries that point into one CommitLog file
error   why a part cannot be read
======= ============================================================================

``place`` is the CommitLog offset at which a file of the log begins, -1 for entries that point to none;
``begin`` is that of the first record of a stretch, or that to which one of the entries points.
"""

import pickle
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from cometmq import kernels
from cometmq.errors import CometMQError
from cometmq.format.delay_level import SCHEDULE_TOPIC
from cometmq.format.record import MAGIC_AT, MAGIC_BLANK, START_SIZE
from cometmq.spark.files.remote import opened
from cometmq.spark.files.splits import FilePiece
from cometmq.spark.files.walk import BYTES_MAX, PieceWalk, Records
from cometmq.spark.jobs.rebuild.entries import QUEUE_ROW, Rules, topic_bytes
from cometmq.spark.jobs.verify.log import Blank, PieceSeen, Segment
from cometmq.store.recovery.log_scan import Chunk
from cometmq.store.recovery.replay import EntriesByQueue
from cometmq.store.recovery.torn import cut_torn
from cometmq.store.verify.keys import keys_of

PIECE, QUEUE, KEYS, INDEX, ENTRIES, ERROR = "piece", "queue", "keys", "index", "entries", "error"
SCHEMA: Final = (
    "kind string, store int, topic binary, queue_id int, place bigint, begin bigint, "
    "data binary, times binary"
)
_COLUMNS: Final[dict[str, pa.DataType]] = {
    "kind": pa.string(),
    "store": pa.int32(),
    "topic": pa.binary(),
    "queue_id": pa.int32(),
    "place": pa.int64(),
    "begin": pa.int64(),
    "data": pa.binary(),
    "times": pa.binary(),
}
_ARROW: Final = pa.schema(_COLUMNS)
_MANY_BYTES: Final = 8 * 1024 * 1024
"""Bytes of the rows in one batch."""
KEY_ROW: Final = np.dtype(
    [("key_hash", "<i8"), ("physical_offset", "<i8"), ("store_time", "<i8"), ("may_miss", "?")]
)
STRETCH_BYTES: Final = 32 * 1024 * 1024
"""Bytes of the log in a stretch: the more, the fewer rows; a task has the arrays of one in memory."""

Row: TypeAlias = dict[str, Any]


class Rows(Protocol):
    """A part of a store that a task reads."""

    @property
    def store(self) -> int:
        """The store's number."""
        ...

    def rows(self) -> Iterator[Row]:
        """Read the rows to check. Raises OSError, CometMQError."""
        ...


def read_rows(part: Rows) -> Iterator[pa.RecordBatch]:
    """Read the rows of a part in batches; if it cannot be read, the last row is the error."""
    kernels.load_if_possible()
    waiting: list[Row] = []
    size = 0
    try:
        for row in part.rows():
            waiting.append(row)
            size += len(row["data"])
            if size >= _MANY_BYTES:
                yield pa.RecordBatch.from_pylist(waiting, _ARROW)
                waiting, size = [], 0
    except (CometMQError, OSError) as failed:
        error = str(failed) or type(failed).__name__
        waiting.append({"kind": ERROR, "store": part.store, "data": error.encode(errors="replace")})
    yield pa.RecordBatch.from_pylist(waiting, _ARROW)


class LogPart(NamedTuple):
    """The part of one task: pieces of the log of a store.

    Attributes:
        store: the store's number.
        vouched_time: store time, ms, up to which the log is known to have been on the disk.
    """

    store: int
    pieces: list[FilePiece]
    rules: Rules
    vouched_time: int

    def rows(self) -> Iterator[Row]:
        """Read the rows of the pieces. Raises OSError."""
        for piece in self.pieces:
            yield from _PieceRows(self, piece).rows()


class _PieceRows:
    """Scans one piece."""

    def __init__(self, part: LogPart, piece: FilePiece) -> None:
        self._part = part
        self._piece = piece
        self._found = opened(piece.file.path, piece.file.size, piece.end)
        self._walk = PieceWalk(self._found, piece, part.rules.crc)
        self._segments: list[Segment] = []

    def rows(self) -> Iterator[Row]:
        """Yield the rows of the piece's records, then that of the piece."""
        piece, ops = self._piece, kernels.current()
        position = self._walk.first_record()
        while position is not None and position < piece.end:
            whole = self._walk.scan(position, ops, STRETCH_BYTES)
            if whole is None:  # behind the last record
                break
            chunk = self._chunk(whole)
            scan = chunk.scan
            if scan.count:
                yield from self._stretch_rows(chunk)
                self._add(chunk)
            position += scan.stop_position
            if scan.count == 0 or scan.count < whole.scan.count:
                if self._blank_at(position) is not None:
                    break
                position = self._walk.next_record(position + 1, piece.end)
        yield self._row(PIECE, self._piece.start, pickle.dumps(self._seen()))

    def _chunk(self, records: Records) -> Chunk:
        """Return the records that are not torn."""
        buffer = np.frombuffer(records.data, np.uint8)
        position = records.base_offset - self._walk.base_offset
        scan = cut_torn(buffer, records.scan, self._part.vouched_time, position)
        return Chunk(buffer, records.base_offset, scan)

    def _add(self, chunk: Chunk) -> None:
        scan, times = chunk.scan, chunk.scan.store_time
        begin, end = int(scan.physical_offset[0]), chunk.end_offset
        last = self._segments[-1] if self._segments else None
        if last is not None and last.end == begin:
            self._segments[-1] = last._replace(
                end=end, messages=last.messages + scan.count, last_time=int(times[-1])
            )
        else:
            self._segments.append(Segment(begin, end, scan.count, int(times[0]), int(times[-1])))

    def _stretch_rows(self, chunk: Chunk) -> Iterator[Row]:
        rules = self._part.rules
        position = int(chunk.scan.physical_offset[0]) - self._walk.base_offset
        dispatch = kernels.current().dispatch(chunk.buffer, chunk.scan, rules.delay_levels)
        found = EntriesByQueue(chunk, dispatch)
        for (topic, queue_id), first, behind, *_ in found.stretches():
            rows = np.empty(behind - first, QUEUE_ROW)
            rows["queue_offset"], rows["entry"] = found.queue_offsets[first:behind], found.all[first:behind]
            times = found.store_times(first, behind).astype("<i8") if topic == SCHEDULE_TOPIC else None
            queue = {"topic": topic_bytes(topic), "queue_id": queue_id}
            yield (
                self._row(QUEUE, position, rows.tobytes())
                | queue
                | {"times": None if times is None else times.tobytes()}
            )
        if rules.indexed:
            keys = keys_of(chunk, dispatch)
            rows = np.empty(len(keys.key_hash), KEY_ROW)
            for name, values in keys._asdict().items():
                rows[name] = values
            yield self._row(KEYS, position, rows.tobytes())

    def _seen(self) -> PieceSeen:
        piece, base = self._piece, self._walk.base_offset
        end = self._segments[-1].end - base if self._segments else piece.start
        return PieceSeen(
            begin=base + piece.start,
            end=base + piece.end,
            segments=self._segments,
            blank=self._blank_at(end) if self._segments else None,
            data_end=base + self._data_end(end),
        )

    def _blank_at(self, position: int) -> Blank | None:
        """Return the blank at a position, if there is one."""
        if position + START_SIZE > self._piece.file.size:
            return None
        start = bytes(self._found.read(position, position + START_SIZE))
        size, magic = int.from_bytes(start[:MAGIC_AT], "big"), int.from_bytes(start[MAGIC_AT:], "big")
        return Blank(self._walk.base_offset + position, size) if magic == MAGIC_BLANK else None

    def _data_end(self, begin: int) -> int:
        """Return the position behind the last byte of the piece, from ``begin`` on, that is not 0."""
        last = begin
        for first in range(begin, self._piece.end, BYTES_MAX):
            end = min(first + BYTES_MAX, self._piece.end)
            used = np.flatnonzero(np.frombuffer(self._found.read(first, end), np.uint8))
            last = first + int(used[-1]) + 1 if len(used) else last
        return last

    def _row(self, kind: str, position: int, data: bytes) -> Row:
        base = self._walk.base_offset
        return {
            "kind": kind,
            "store": self._part.store,
            "place": base,
            "begin": base + position,
            "data": data,
        }
