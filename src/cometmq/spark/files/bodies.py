"""Decompress the bodies in a batch of records."""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from cometmq.errors import FormatError
from cometmq.format.compression import decompress
from cometmq.format.sys_flag import COMPRESSED
from cometmq.kernels.arrays import Flags, Ints
from cometmq.spark.schema import BODY, BODY_ERROR

BYTES_MAX: Final = 64 * 1024 * 1024
"""Of decompressed bodies in one batch, unless one alone is larger: few compressed bytes can become many."""


class Decompressed(NamedTuple):
    """A decompressed body, or why it cannot be decompressed."""

    body: bytes | None
    error: str | None


def decompress_bodies(
    batch: pa.RecordBatch, sys_flags: Ints, *, on_damage: Callable[[str], None], bytes_max: int = BYTES_MAX
) -> Iterator[pa.RecordBatch]:
    """Decompress the bodies of a batch, and split the batch where that makes it large.

    Args:
        batch: records; returned as it is if it has no column ``body``.
        sys_flags: by record, how its body is stored, ``int32[n]``.
        on_damage: called with the reason if a body cannot be decompressed; unless it raises, that body is
            null, and the column ``body_error`` holds the reason, if it is there.
        bytes_max: of decompressed bodies in one batch.
    """
    if BODY not in batch.schema.names:
        yield batch
        return
    first, size = 0, 0
    bodies: dict[int, Decompressed] = {}
    for row in np.flatnonzero(sys_flags & COMPRESSED).tolist():
        one = _decompressed(batch, row, int(sys_flags[row]), on_damage)
        length = len(one.body or b"")
        if bodies and size + length > bytes_max:
            yield _replaced(batch, bodies, first, row)
            first, size, bodies = row, 0, {}
        bodies[row] = one
        size += length
    yield _replaced(batch, bodies, first, batch.num_rows)


def _decompressed(
    batch: pa.RecordBatch, row: int, sys_flag: int, on_damage: Callable[[str], None]
) -> Decompressed:
    body = batch.column(BODY)[row].as_py()
    try:
        return Decompressed(decompress(body, sys_flag), None)
    except FormatError as error:
        on_damage(str(error))
        return Decompressed(None, str(error))


def _replaced(batch: pa.RecordBatch, bodies: dict[int, Decompressed], first: int, end: int) -> pa.RecordBatch:
    """Return the rows from ``first`` to before ``end``, with ``bodies`` in place of the compressed ones."""
    part = batch.slice(first, end - first)
    if not bodies:
        return part
    mask = np.zeros(part.num_rows, np.bool_)
    mask[[row - first for row in bodies]] = True
    part = _with_values(part, BODY, mask, pa.array([one.body for one in bodies.values()], pa.binary()))
    if BODY_ERROR not in part.schema.names:
        return part
    return _with_values(part, BODY_ERROR, mask, pa.array([one.error for one in bodies.values()], pa.string()))


def _with_values(part: pa.RecordBatch, name: str, mask: Flags, values: Any) -> pa.RecordBatch:
    import pyarrow.compute as pc  # noqa: PLC0415  it takes 40 ms, which few reads need

    replaced = pc.replace_with_mask(part.column(name), pa.array(mask), values)
    return part.set_column(part.schema.get_field_index(name), part.schema.field(name), replaced)
