"""Scan a CommitLog in many tasks for the entries of its ConsumeQueues and Index.

A row is not one entry but all entries of a queue, or all keys, in one stretch of the log: Spark sorts and
moves a hundred times fewer rows, and no entry becomes a Python object.

======= =================================================================
kind    content of ``data``
======= =================================================================
queue   QUEUE_ROW for each of ``count`` entries of one queue
keys    KEY_ROW for each of ``count`` keys, in the order of the index
piece   PieceSeen of a piece, pickled
======= =================================================================
"""

import pickle
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from cometmq import kernels
from cometmq.format.checksum import Crc
from cometmq.format.delay_level import DelayLevels
from cometmq.kernels.ops import Dispatch
from cometmq.spark.files.splits import FilePiece
from cometmq.spark.jobs.memory import peak_bytes
from cometmq.spark.jobs.piece_scan import PieceScan
from cometmq.store.log.log_scan import Chunk
from cometmq.store.queue.consume_queue import ENTRY_DTYPE
from cometmq.store.queue.queues import QueueKey
from cometmq.store.recovery.replay import EntriesByQueue

QUEUE, KEYS, PIECE = "queue", "keys", "piece"
SCHEMA: Final = (
    "kind string, begin bigint, topic binary, queue_id int, count bigint, data binary, peak_bytes bigint"
)
"""``begin`` is the CommitLog offset of the stretch."""

QUEUE_ROW: Final = np.dtype([("queue_offset", "<i8"), ("entry", ENTRY_DTYPE)])
KEY_ROW: Final = np.dtype([("key_hash", "<i4"), ("physical_offset", "<i8"), ("store_time", "<i8")])
Row: TypeAlias = dict[str, Any]

_COLUMNS: Final[dict[str, pa.DataType]] = {
    "kind": pa.string(),
    "begin": pa.int64(),
    "topic": pa.binary(),
    "queue_id": pa.int32(),
    "count": pa.int64(),
    "data": pa.binary(),
    "peak_bytes": pa.int64(),
}
_ARROW: Final = pa.schema(_COLUMNS)


class Rules(NamedTuple):
    """The settings for the scan of a log.

    Attributes:
        crc: the checksum that a record must have.
        indexed: whether there is an index.
    """

    crc: Crc
    delay_levels: DelayLevels
    indexed: bool


def scanned(split: Iterable[FilePiece], rules: Rules, vouched_time: int) -> Iterator[Row]:
    """Scan a split; yield its rows, stretch by stretch. Raises OSError if a file is missing.

    Args:
        vouched_time: store time, ms, up to which the log is known to have been on the disk.
    """
    ops = kernels.load_if_possible()
    for piece in split:
        scan = PieceScan(piece, rules.crc, vouched_time)
        for chunk in scan.chunks():
            dispatch = ops.dispatch(chunk.buffer, chunk.scan, rules.delay_levels)
            yield from _stretch_rows(chunk, dispatch, indexed=rules.indexed)
        seen = scan.seen()
        yield {"kind": PIECE, "begin": seen.begin, "data": pickle.dumps(seen), "peak_bytes": peak_bytes()}


def batches(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Build a batch of the rows of each stretch."""
    stretch: list[Row] = []
    for row in rows:
        if stretch and row["begin"] != stretch[0]["begin"]:
            yield pa.RecordBatch.from_pylist(stretch, _ARROW)
            stretch = []
        stretch.append(row)
    if stretch:
        yield pa.RecordBatch.from_pylist(stretch, _ARROW)


def topic_bytes(topic: str) -> bytes:
    """Encode a topic for a row: that of a damaged record may be no text."""
    return topic.encode("utf-8", "surrogateescape")


def queue_key(topic: bytes, queue_id: int) -> QueueKey:
    """Decode the queue of a row."""
    return topic.decode("utf-8", "surrogateescape"), queue_id


def _stretch_rows(chunk: Chunk, dispatch: Dispatch, *, indexed: bool) -> Iterator[Row]:
    begin = int(chunk.scan.physical_offset[0])
    for (topic, queue_id), offsets, entries in EntriesByQueue(chunk, dispatch):
        queue = {"topic": topic_bytes(topic), "queue_id": queue_id}
        rows = np.empty(len(offsets), QUEUE_ROW)
        rows["queue_offset"], rows["entry"] = offsets, entries
        yield {"kind": QUEUE, "begin": begin, **queue, "count": len(rows), "data": rows.tobytes()}
    if indexed and len(dispatch.key_hash):
        keys = np.empty(len(dispatch.key_hash), KEY_ROW)
        keys["key_hash"] = dispatch.key_hash
        keys["physical_offset"] = chunk.scan.physical_offset[dispatch.key_record]
        keys["store_time"] = chunk.scan.store_time[dispatch.key_record]
        yield {"kind": KEYS, "begin": begin, "count": len(keys), "data": keys.tobytes()}
