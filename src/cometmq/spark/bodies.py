"""Compressed bodies made whole, in a batch of records."""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cometmq.errors import FormatError
from cometmq.format.compression import decompress
from cometmq.format.sys_flag import COMPRESSED
from cometmq.kernels.ops import Ints

BODY: Final = "body"
BYTES_MAX: Final = 64 * 1024 * 1024
"""Of whole bodies in one batch, unless a single body is larger: a few compressed bytes can stand for many."""


def whole_bodies(
    batch: pa.RecordBatch, sys_flags: Ints, *, on_damage: Callable[[str], None], bytes_max: int = BYTES_MAX
) -> Iterator[pa.RecordBatch]:
    """Give the batch with each body as its producer had it; in parts, if that makes it large.

    Args:
        batch: records; nothing is done if they have no column ``body``.
        sys_flags: by record, how its body is stored.
        on_damage: told why a body cannot be decompressed; unless it raises, that body is null.
    """
    if BODY not in batch.schema.names:
        yield batch
        return
    first, size = 0, 0
    whole: dict[int, bytes | None] = {}
    for row in np.flatnonzero(sys_flags & COMPRESSED).tolist():
        body = _decompressed(batch, row, int(sys_flags[row]), on_damage)
        if whole and size + len(body or b"") > bytes_max:
            yield _replaced(batch, whole, first, row)
            first, size, whole = row, 0, {}
        whole[row] = body
        size += len(body or b"")
    yield _replaced(batch, whole, first, batch.num_rows)


def _decompressed(
    batch: pa.RecordBatch, row: int, sys_flag: int, on_damage: Callable[[str], None]
) -> bytes | None:
    body = batch.column(BODY)[row].as_py()
    try:
        return decompress(body, sys_flag)
    except FormatError as error:
        on_damage(str(error))
        return None


def _replaced(batch: pa.RecordBatch, whole: dict[int, bytes | None], first: int, end: int) -> pa.RecordBatch:
    """Give the rows ``first`` to ``end`` with the bodies in ``whole`` in the place of those they have."""
    part = batch.slice(first, end - first)
    if not whole:
        return part
    mask = np.zeros(part.num_rows, np.bool_)
    mask[[row - first for row in whole]] = True
    bodies = pc.replace_with_mask(part.column(BODY), pa.array(mask), pa.array(whole.values(), pa.binary()))
    return part.set_column(part.schema.get_field_index(BODY), part.schema.field(BODY), bodies)
