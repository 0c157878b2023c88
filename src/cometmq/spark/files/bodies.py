"""Compressed bodies made whole, in a batch of records."""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cometmq.errors import FormatError
from cometmq.format.compression import decompress
from cometmq.format.sys_flag import COMPRESSED
from cometmq.kernels.ops import Flags, Ints
from cometmq.spark.schema import BODY, BODY_ERROR

BYTES_MAX: Final = 64 * 1024 * 1024
"""Of whole bodies in one batch, unless a single body is larger: a few compressed bytes can stand for many."""


class Whole(NamedTuple):
    """A body as its producer had it, or why it is not known."""

    body: bytes | None
    error: str | None


def whole_bodies(
    batch: pa.RecordBatch, sys_flags: Ints, *, on_damage: Callable[[str], None], bytes_max: int = BYTES_MAX
) -> Iterator[pa.RecordBatch]:
    """Give the batch with each body as its producer had it; in parts, if that makes it large.

    Args:
        batch: records; nothing is done if they have no column ``body``.
        sys_flags: by record, how its body is stored.
        on_damage: told why a body cannot be decompressed; unless it raises, that body is null, and the column
            ``body_error`` says the same, if it is there.
    """
    if BODY not in batch.schema.names:
        yield batch
        return
    first, size = 0, 0
    whole: dict[int, Whole] = {}
    for row in np.flatnonzero(sys_flags & COMPRESSED).tolist():
        one = _decompressed(batch, row, int(sys_flags[row]), on_damage)
        length = len(one.body or b"")
        if whole and size + length > bytes_max:
            yield _replaced(batch, whole, first, row)
            first, size, whole = row, 0, {}
        whole[row] = one
        size += length
    yield _replaced(batch, whole, first, batch.num_rows)


def _decompressed(batch: pa.RecordBatch, row: int, sys_flag: int, on_damage: Callable[[str], None]) -> Whole:
    body = batch.column(BODY)[row].as_py()
    try:
        return Whole(decompress(body, sys_flag), None)
    except FormatError as error:
        on_damage(str(error))
        return Whole(None, str(error))


def _replaced(batch: pa.RecordBatch, whole: dict[int, Whole], first: int, end: int) -> pa.RecordBatch:
    """Return the rows ``first`` to ``end`` with the bodies in ``whole`` in the place of those they have."""
    part = batch.slice(first, end - first)
    if not whole:
        return part
    mask = np.zeros(part.num_rows, np.bool_)
    mask[[row - first for row in whole]] = True
    part = _with_values(part, BODY, mask, pa.array([one.body for one in whole.values()], pa.binary()))
    if BODY_ERROR not in part.schema.names:
        return part
    return _with_values(part, BODY_ERROR, mask, pa.array([one.error for one in whole.values()], pa.string()))


def _with_values(part: pa.RecordBatch, name: str, mask: Flags, values: Any) -> pa.RecordBatch:
    replaced = pc.replace_with_mask(part.column(name), pa.array(mask), values)
    return part.set_column(part.schema.get_field_index(name), part.schema.field(name), replaced)
