"""Looking up keys inside kernels: see ``key_table``."""

from typing import Any

from cometmq.kernels.arrays import Bytes, Longs
from cometmq.kernels.compiling.buffers import array_of, bytes_of, longs_of, put_word, word_at
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
def find_key(data: Bytes, begin: int, end: int, table: Longs) -> Any:
    """Return the number of a key in a ``KeyTable``, NO_ROW if it does not have it.

    The bytes of ``data`` behind the key are overwritten, up to a whole word.
    """
    keys, rows, slots = bytes_of(table, KEYS), key_rows_of(table, ROWS), longs_of(table, SLOTS)
    put_word(data, end, uint64(0))
    value = uint64(0)
    for at in range(begin, end, WORD_SIZE):
        value = (value ^ word_at(data, at)) * uint64(MIX)
        value ^= value >> uint64(29)
    mask = len(slots) - 1
    slot = int64(value) & mask
    while slots[slot] != NO_ROW:
        row = rows[slots[slot]]
        if row[KEY_SIZE] == end - begin:
            same = True
            for i in range(0, end - begin, WORD_SIZE):
                if word_at(keys, row[KEY_AT] + i) != word_at(data, begin + i):
                    same = False
                    break
            if same:
                return slots[slot]
        slot = slot + 1 & mask
    return int64(NO_ROW)
