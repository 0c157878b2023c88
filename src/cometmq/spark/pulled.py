"""Build Arrow batches from the responses to pulls, by kernels, without a Python object per message."""

from collections.abc import Callable, Collection, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from cometmq import kernels
from cometmq.errors import DamagedRecord
from cometmq.format.scan import Stop, check
from cometmq.kernels.arrays import Flags, Longs
from cometmq.kernels.arrow.plain import TYPES
from cometmq.kernels.ops import Ops, Scan
from cometmq.message import Buffer
from cometmq.spark.files.bodies import decompress_bodies

RECORDS_MAX: Final = 32_768
"""Of one batch: more would not fit the processor's caches."""


def batches(
    body: Buffer,
    columns: Collection[str] = tuple(TYPES),
    *,
    on_damage: Callable[[str], None],
    tags: Collection[str] | None = None,
    ops: Ops | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read the messages of a pull's response, in order, into batches with the kernels' column types.

    Args:
        body: of a response with code SUCCESS: CommitLog records back to back, of any positions in the log.
            Bodies of many responses may be joined: a larger batch costs less for each message.
        columns: which columns, in which order.
        on_damage: called with the reason if a body cannot be decompressed; unless it raises, that body is
            null.
        tags: only messages with one of these tags; None for all. Brokers compare hashes of tags alone.
        ops: by default the compiled kernels, loaded if necessary.

    Raises:
        DamagedRecord: the bytes are no records; the batches before them have been yielded.
        KeyError: there is no such column.
    """
    ops = ops or kernels.load_if_possible()
    position = 0
    while position < len(body):
        scan = ops.scan(body, base_offset=None, start=position, max_records=RECORDS_MAX)
        if scan.count == 0:
            raise DamagedRecord(position, damage_at(body, position) or "no record begins here")
        rows: Longs = np.arange(scan.count)
        if tags is not None:
            rows = rows_with_tags(ops, body, scan, rows, tags)
        if len(rows):
            batch = ops.arrow(body, scan, rows, columns)
            yield from decompress_bodies(batch, scan.sys_flag[rows], on_damage=on_damage)
        position = scan.stop_position


def rows_with_tags(ops: Ops, body: Buffer, scan: Scan, rows: Longs, tags: Collection[str]) -> Longs:
    """Return those of the ``rows`` of a scan, ``int64[n]``, whose record has one of the tags."""
    import pyarrow.compute as pc  # noqa: PLC0415  it takes 40 ms, which few reads need

    found = ops.arrow(body, scan, rows, ("tags",)).column(0)
    flags: Flags = pc.is_in(found, value_set=pa.array(tags, pa.string())).to_numpy(zero_copy_only=False)
    return rows[flags]


def damage_at(body: Buffer, position: int) -> str:
    """Return why no record can be read at a position of a response's body; empty if unknown."""
    found = check(body, position, len(body), base_offset=None)
    return found.detail if isinstance(found, Stop) else ""
