"""Looking up keys inside kernels: see ``key_table``."""

from typing import Any

from cometmq.kernels.arrays import Bytes, Longs
from cometmq.kernels.compiling.buffers import array_of, bytes_of, longs_of, word_at
from cometmq.kernels.compiling.jit import inlined, int64, uint64
from cometmq.kernels.compiling.signatures import types
from cometmq.kernels.text.key_table import (
    KEY_AT,
    KEY_SIZE,
    KEYS,
    MIX,
    NO_ROW,
    ROW_SIZE,
    ROWS,
    SLOTS,
    WORD_SIZE,
)

key_rows_of = array_of(types.int64, ROW_SIZE)


@inlined
def keys_of(table: Longs) -> Any:
    """Return the arrays of a ``KeyTable`` that ``find_key`` searches."""
    return bytes_of(table, KEYS), key_rows_of(table, ROWS), longs_of(table, SLOTS)


@inlined
def _mixed(value: int, word: int) -> Any:
    value = (uint64(value) ^ word) * uint64(MIX)
    return value ^ value >> uint64(29)


@inlined
def find_key(data: Bytes, begin: int, end: int, table: Any) -> Any:
    """Return the number of a key in a table, NO_ROW if it does not have it.

    Args:
        data: has the key from ``begin`` to ``end``, which is not among its first 7 bytes.
        table: see ``keys_of``.
    """
    keys, rows, slots = table
    size = end - begin
    rest_size = size % WORD_SIZE
    words_size = size - rest_size
    rest, value = uint64(0), uint64(0)  # the bytes behind the last whole word, as the table has them
    for at in range(begin, begin + words_size, WORD_SIZE):
        value = _mixed(value, word_at(data, at))
    if rest_size:
        rest = word_at(data, end - WORD_SIZE) >> uint64(8 * (WORD_SIZE - rest_size))
        value = _mixed(value, rest)
    mask = len(slots) - 1
    slot = int64(value) & mask
    while slots[slot] != NO_ROW:
        row = rows[slots[slot]]
        key_at = row[KEY_AT]
        if row[KEY_SIZE] == size and (not rest_size or word_at(keys, key_at + words_size) == rest):
            same = True
            for i in range(0, words_size, WORD_SIZE):
                if word_at(keys, key_at + i) != word_at(data, begin + i):
                    same = False
                    break
            if same:
                return slots[slot]
        slot = slot + 1 & mask
    return int64(NO_ROW)
