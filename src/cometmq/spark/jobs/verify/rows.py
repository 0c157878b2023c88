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
from cometmq.spark.files.splits import FilePiece
from cometmq.spark.jobs.piece_scan import PieceScan
from cometmq.spark.jobs.rebuild.entries import QUEUE_ROW, Rules, topic_bytes
from cometmq.store.log.log_scan import Chunk
from cometmq.store.recovery.replay import EntriesByQueue
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

    def rows(self) -> Iterator[Row]:
        """Yield the rows of the piece's records, then that of the piece."""
        part = self._part
        scan = PieceScan(self._piece, part.rules.crc, part.vouched_time)
        for chunk in scan.chunks():
            yield from self._stretch_rows(chunk)
        begin = self._piece.file.base_offset + self._piece.start
        yield self._row(PIECE, begin, pickle.dumps(scan.seen(with_data_end=True)))

    def _stretch_rows(self, chunk: Chunk) -> Iterator[Row]:
        rules, begin = self._part.rules, int(chunk.scan.physical_offset[0])
        dispatch = kernels.loading.ops.dispatch(chunk.buffer, chunk.scan, rules.delay_levels)
        found = EntriesByQueue(chunk, dispatch)
        for (topic, queue_id), first, behind, *_ in found.stretches():
            rows = np.empty(behind - first, QUEUE_ROW)
            rows["queue_offset"], rows["entry"] = found.queue_offsets[first:behind], found.all[first:behind]
            times = found.store_times(first, behind).astype("<i8") if topic == SCHEDULE_TOPIC else None
            queue = {"topic": topic_bytes(topic), "queue_id": queue_id}
            yield (
                self._row(QUEUE, begin, rows.tobytes())
                | queue
                | {"times": None if times is None else times.tobytes()}
            )
        if rules.indexed:
            keys = keys_of(chunk, dispatch)
            rows = np.empty(len(keys.key_hash), KEY_ROW)
            for name, values in keys._asdict().items():
                rows[name] = values
            yield self._row(KEYS, begin, rows.tobytes())

    def _row(self, kind: str, begin: int, data: bytes) -> Row:
        return {
            "kind": kind,
            "store": self._part.store,
            "place": self._piece.file.base_offset,
            "begin": begin,
            "data": data,
        }
