"""Build a row of numbers for each message in the logs of many stores, without bodies, for a report."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from cometmq import kernels
from cometmq.format.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NOT
from cometmq.kernels.ops import Ops, Scan
from cometmq.logs import get_logger
from cometmq.spark.files.remote import opened, path_of
from cometmq.spark.files.splits import FilePiece, log_files, splits
from cometmq.spark.files.walk import DamagedPart, scans
from cometmq.spark.jobs.parts import on_parts
from cometmq.spark.options import BYTES_PER_PARTITION

GATHERED: Final = ("topic", "queue_id", "unique_id", "keys", "store_time")
"""Columns with the names and types of the source's."""
SCHEMA: Final = (
    "topic string, queue_id int, unique_id string, keys array<string>, store_time timestamp, "
    "store string, bytes int, body_bytes int, latency_ms bigint, "
    "physical_offset bigint, next_offset bigint"
)
"""``bytes`` are the record's, ``body_bytes`` its body's as stored; ``latency_ms`` is from born time to store
time, and can be negative, as clocks differ. ``next_offset`` is the queue offset behind the message; null if
it is in no queue, in an uncommitted transaction."""

log = get_logger(__name__)


def measures(
    spark: SparkSession, stores: Sequence[Path | str], *, bytes_per_task: int = BYTES_PER_PARTITION
) -> DataFrame:
    """Build a row for each message; damage is logged and skipped.

    Raises SettingsError or OSError if a store cannot be read.
    """
    parts = [
        (str(path_of(store)), split)
        for store in stores
        for split in splits(log_files(path_of(store).absolute()), bytes_per_task)
    ]

    return on_parts(spark, parts, lambda part: piece_measures(*part), SCHEMA)


def piece_measures(store: str, pieces: Iterable[FilePiece]) -> Iterator[pa.RecordBatch]:
    """Build the rows of some pieces of a store's log. Raises OSError if a file is missing."""
    ops = kernels.load_if_possible()
    for piece in pieces:
        found = opened(piece.file.path, piece.file.size, piece.end)
        for data, _, scan in scans(found, piece, ops, on_damage=_log_damage):
            yield _rows(ops, store, data, scan)


def _rows(ops: Ops, store: str, data: memoryview, scan: Scan) -> pa.RecordBatch:
    gathered = ops.arrow(data, scan, np.arange(scan.count), GATHERED)
    in_queue = np.isin(scan.sys_flag & TRANSACTION_MASK, (TRANSACTION_NOT, TRANSACTION_COMMIT))
    columns = {
        **{name: gathered.column(name) for name in GATHERED},
        "store": pa.array([store] * scan.count, pa.string()),
        "bytes": pa.array(scan.size, pa.int32()),
        "body_bytes": pa.array(scan.body_length, pa.int32()),
        "latency_ms": pa.array(scan.store_time - scan.born_time, pa.int64()),
        "physical_offset": pa.array(scan.physical_offset, pa.int64()),
        "next_offset": pa.array(scan.queue_offset + 1, pa.int64(), mask=~in_queue),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _log_damage(damage: DamagedPart) -> None:
    log.warning("%s", damage)
