"""Records as Arrow batches of the source's columns: what the kernels gather, and what no record says."""

from collections.abc import Callable, Collection
from typing import Any, TypeAlias

import pyarrow as pa

from cometmq.kernels.ops import Longs, Ops, Scan
from cometmq.message import Buffer
from cometmq.spark.schema import BROKER, arrow_schema

Names: TypeAlias = "pa.Array[Any]"


def gather(
    ops: Ops, data: Buffer, scan: Scan, rows: Longs, columns: Collection[str], brokers: Callable[[], Names]
) -> pa.RecordBatch:
    """Give columns of the records at ``rows`` of a scan, bodies as they are stored.

    ``brokers`` gives the broker of each row, and is asked if that is one of the columns. Raises KeyError if
    there is no such column.
    """
    if BROKER not in columns:
        return ops.arrow(data, scan, rows, columns)
    gathered = ops.arrow(data, scan, rows, [name for name in columns if name != BROKER])
    arrays = [brokers() if name == BROKER else gathered.column(name) for name in columns]
    return pa.record_batch(arrays, schema=arrow_schema(columns))
