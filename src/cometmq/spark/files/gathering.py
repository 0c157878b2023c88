"""Gather records into Arrow batches: the kernels' columns, and those that are in no record."""

from collections.abc import Callable, Collection
from typing import Any, TypeAlias

import pyarrow as pa

from cometmq.kernels.arrays import Longs
from cometmq.kernels.ops import Ops, Scan
from cometmq.message import Buffer
from cometmq.spark.schema import BODY_ERROR, BROKER, NOT_IN_RECORDS, arrow_schema

Names: TypeAlias = "pa.Array[Any]"


def gather(
    ops: Ops, data: Buffer, scan: Scan, rows: Longs, columns: Collection[str], brokers: Callable[[], Names]
) -> pa.RecordBatch:
    """Return columns of some records of a scan: bodies as stored, ``body_error`` null.

    Args:
        rows: which records of the scan, ``int64[n]``.
        brokers: returns the broker's name of each row; called if the column ``broker`` is among ``columns``.

    Raises KeyError if there is no such column.
    """
    if not any(name in columns for name in NOT_IN_RECORDS):
        return ops.arrow(data, scan, rows, columns)
    gathered = ops.arrow(data, scan, rows, [name for name in columns if name not in NOT_IN_RECORDS])
    no_errors: Names = pa.nulls(len(rows), pa.string())
    others: dict[str, Callable[[], Names]] = {BROKER: brokers, BODY_ERROR: lambda: no_errors}
    arrays = [others[name]() if name in others else gathered.column(name) for name in columns]
    return pa.record_batch(arrays, schema=arrow_schema(columns))
