"""The answers to pulls as Arrow batches: the kernels read the records, and nobody makes objects of them."""

from collections.abc import Callable, Collection, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cometmq import kernels
from cometmq.errors import DamagedRecord
from cometmq.format.scan import Stop, check
from cometmq.kernels.arrow.plain import TYPES
from cometmq.kernels.ops import Longs, Ops, Scan
from cometmq.message import Buffer
from cometmq.spark.files.bodies import whole_bodies

RECORDS_MAX: Final = 32_768
"""Of one batch: more would not stay in the processor's caches."""


def batches(
    body: Buffer,
    columns: Collection[str] = tuple(TYPES),
    *,
    on_damage: Callable[[str], None],
    tags: Collection[str] | None = None,
    ops: Ops | None = None,
) -> Iterator[pa.RecordBatch]:
    """Give the messages of a pull's answer, in its order, in batches of the types of the kernels.

    Args:
        body: of an answer with code SUCCESS, as it came: CommitLog records back to back, of any places in
            the log. Those of many answers may be joined: a larger batch costs less for each message.
        columns: which columns, in which order.
        on_damage: told why a body cannot be decompressed; unless it raises, that body is null.
        tags: only messages with one of these tags, or None for all. A broker compares hashes alone.
        ops: by default the compiled kernels, which are loaded if need be.

    Raises:
        DamagedRecord: the bytes are no records; the batches before them have been given.
        KeyError: there is no such column.
    """
    ops = ops or kernels.load_if_possible()
    position = 0
    while position < len(body):
        scan = ops.scan(body, base_offset=None, start=position, max_records=RECORDS_MAX)
        if scan.count == 0:
            raise _damage(body, position)
        rows = _rows(ops, body, scan, tags)
        if len(rows):
            batch = ops.arrow(body, scan, rows, columns)
            yield from whole_bodies(batch, scan.sys_flag[rows], on_damage=on_damage)
        position = scan.stop_position


def _rows(ops: Ops, body: Buffer, scan: Scan, tags: Collection[str] | None) -> Longs:
    rows = np.arange(scan.count)
    if tags is None:
        return rows
    found = ops.arrow(body, scan, rows, ("tags",)).column(0)
    is_wanted = pc.is_in(found, value_set=pa.array(tags, pa.string()))
    return np.flatnonzero(is_wanted.to_numpy(zero_copy_only=False))


def _damage(body: Buffer, position: int) -> DamagedRecord:
    found = check(body, position, len(body), base_offset=None)
    return DamagedRecord(
        position, found.detail if isinstance(found, Stop) and found.detail else "no record begins here"
    )
