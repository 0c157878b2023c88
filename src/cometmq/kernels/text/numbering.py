"""The kernel that numbers texts: equal ones get the same number, counted from 0 in order of appearance."""

from typing import Any, Final

import numpy as np

from cometmq.kernels.arrays import Bytes, Ints, Longs
from cometmq.kernels.compiling.buffers import byte_at, doubled
from cometmq.kernels.compiling.jit import array_maker, inlined, int64, kernel, uint32
from cometmq.kernels.compiling.signatures import bytes_in, ints_in, ints_out, longs_in, longs_out
from cometmq.kernels.text.utf8 import hash_on

_EMPTY: Final = -1
_ROOM: Final = 32


@inlined
def _place(table: Longs, value: Any) -> Any:
    """Return where the search for a hash begins; mixed, because similar texts have similar hashes."""
    return int64(uint32(value * uint32(0x9E3779B1)) >> uint32(8)) % len(table)


@inlined
def _next(table: Longs, place: Any) -> Any:
    return (place + 1) % len(table)


@array_maker
def _table_of(hashes: Any, count: int) -> Longs:
    """Build a hash table of twice the size of ``hashes``: for each place the number of its text, or -1."""
    table = np.full(2 * len(hashes), _EMPTY, np.int64)
    for number in range(count):
        place = _place(table, hashes[number])
        while table[place] != _EMPTY:
            place = _next(table, place)
        table[place] = number
    return table


@inlined
def _same(buffer: Bytes, a: int, b: int, length: int) -> bool:
    for k in range(length):
        if byte_at(buffer, a + k) != byte_at(buffer, b + k):
            return False
    return True


@kernel(longs_out(bytes_in, longs_in, ints_in, ints_in, ints_out), makes_arrays=True)
def number_texts(buffer: Bytes, positions: Longs, lengths: Ints, seconds: Ints, numbers: Ints) -> Longs:
    """Number pairs of a text and a second number; return the item at which each distinct pair first appears.

    Args:
        positions, lengths: int64[items] and int32[items], where each text is in the buffer.
        seconds: int32[items], the second number of each.
        numbers: int32[items], written: the number of each pair.

    Returns:
        int64[distinct pairs], indices of items.
    """
    firsts, hashes = np.empty(_ROOM, np.int64), np.empty(_ROOM, np.uint32)
    count = 0
    table = _table_of(hashes, count)
    for i in range(len(numbers)):
        value = uint32(seconds[i])
        for k in range(lengths[i]):
            value = hash_on(value, byte_at(buffer, positions[i] + k))
        place = _place(table, value)
        while table[place] != _EMPTY:
            first = firsts[table[place]]
            if (
                hashes[table[place]] == value
                and seconds[first] == seconds[i]
                and lengths[first] == lengths[i]
                and _same(buffer, positions[first], positions[i], lengths[i])
            ):
                break
            place = _next(table, place)
        if table[place] != _EMPTY:
            numbers[i] = table[place]
            continue
        if count == len(firsts):
            firsts, hashes = doubled(firsts), doubled(hashes)
        firsts[count], hashes[count] = i, value
        numbers[i] = table[place] = count
        count += 1
        if len(table) < 2 * len(hashes):
            table = _table_of(hashes, count)
    return firsts[:count].copy()
