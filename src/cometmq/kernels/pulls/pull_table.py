"""The targets of pulls that a broker has checked and permitted, as arrays that kernels can search.

A hash table with open addressing: ``slots`` hold row numbers (-1 for none), and a row says where its key is
in ``keys``. What a key holds is known only to ``plain.key_of`` and to the kernel that parses pulls; each is
padded to whole words of 8 bytes, so that words can be compared. The broker keeps the target of each row under
its row number.
"""

from typing import Final

import numpy as np

from cometmq.kernels.arrays import ArrayTable, Bytes, Longs

ROW_SIZE: Final = 2
KEY_AT: Final = 0
KEY_SIZE: Final = 1
KEY_SIZE_MAX: Final = 1024
"""The most bytes of a key; a pull with a longer one is left to the plain path."""
SLOTS_MIN: Final = 64

KEYS, KEY_ROWS, SLOTS = range(3)
"""The arrays of ``PullTable.table``."""
MIX: Final = 0x9E3779B97F4A7C15
NO_TARGET: Final = -1
"""In place of a number: the table does not have the key."""

_WORD_MASK: Final = 2**64 - 1


class PullTable:
    """A table of keys, numbered from 0 in the order in which they were added.

    Attributes:
        count: how many keys there are.
        numbers: the number of each.
        keys: uint8[], the bytes of all keys, one after another.
        rows: int64[2 × rows], for each row the position and the size of its key in bytes.
        table: these arrays: see ``KEYS`` and the others.
        slots: int64[slots], for each slot a row number, or -1; a power of two of slots.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove all keys."""
        self.count = self._keys_end = 0
        self.keys: Bytes = np.zeros(1024, np.uint8)
        self.rows: Longs = np.zeros(SLOTS_MIN // 2 * ROW_SIZE, np.int64)
        self.slots: Longs = np.full(SLOTS_MIN, -1, np.int64)
        self.table = ArrayTable(self.keys, self.rows, self.slots)
        self._hashes: list[int] = []
        self.numbers: dict[bytes, int] = {}

    def put(self, key: Bytes, key_hash: int) -> int:
        """Add a key (uint8[]) unless the table has it; return its row number."""
        row = self.numbers.setdefault(key.tobytes(), self.count)
        if row < self.count:
            return row
        self.count += 1
        self.keys = _with_room(self.keys, self._keys_end + len(key))
        self.rows = _with_room(self.rows, self.count * ROW_SIZE)
        self.table.put(KEYS, self.keys)
        self.table.put(KEY_ROWS, self.rows)
        self.keys[self._keys_end : self._keys_end + len(key)] = key
        self.rows[row * ROW_SIZE : self.count * ROW_SIZE] = self._keys_end, len(key)
        self._keys_end += len(key)
        self._hashes.append(key_hash)
        if 2 * self.count > len(self.slots):
            self.slots = np.full(2 * len(self.slots), -1, np.int64)
            self.table.put(SLOTS, self.slots)
            for other, other_hash in enumerate(self._hashes):
                self._place(other, other_hash)
        else:
            self._place(row, key_hash)
        return row

    def _place(self, row: int, key_hash: int) -> None:
        mask = len(self.slots) - 1
        slot = key_hash & mask
        while self.slots[slot] >= 0:
            slot = slot + 1 & mask
        self.slots[slot] = row


def hash_of(key: bytes) -> int:
    """Return the hash by which kernels find a key, whose size is a multiple of 8."""
    value = 0
    for at in range(0, len(key), 8):
        value = (value ^ int.from_bytes(key[at : at + 8], "little")) * MIX & _WORD_MASK
        value ^= value >> 29
    return value - 2**64 if value >> 63 else value


def _with_room(array: np.ndarray, size: int) -> np.ndarray:
    """Return ``array``, or a longer copy of it if it has fewer than ``size`` items."""
    if size <= len(array):
        return array
    longer = np.zeros(max(2 * len(array), size), array.dtype)
    longer[: len(array)] = array
    return longer
