"""Keys that kernels look up, as arrays: the topics that sends may go to, and the targets of pulls.

A hash table with open addressing: ``slots`` hold the numbers of rows. A row says where its key lies in
``keys``, and has two numbers more, of whoever fills the table. Kernels search it by ``key_search``, in words
of 8 bytes: so keys lie there with zeros up to a whole word.
"""

from typing import Final

import numpy as np

from cometmq.kernels.arrays import ArrayTable, Bytes, Longs

# The columns of a row.
(
    KEY_AT,
    KEY_SIZE,  # bytes, without the zeros
    OWN,  # the two numbers of whoever fills the table
) = range(3)
ROW_SIZE: Final = 4

KEYS, ROWS, SLOTS = range(3)
"""The arrays of ``KeyTable.table``."""
SLOTS_MIN: Final = 64
NO_ROW: Final = -1
"""In place of a row's number: a slot is free, or the table does not have a key."""
MIX: Final = 0x9E3779B97F4A7C15
WORD_SIZE: Final = 8

_WORD_MASK: Final = 2**64 - 1


class KeyTable:
    """A table of keys, numbered from 0 in the order in which they were added.

    Attributes:
        numbers: the number of each.
        keys: uint8[], the bytes of all keys, one after another.
        rows: int64[rows, ROW_SIZE], a row for each number: see ``KEY_AT`` and the others.
        slots: int64[slots], for each slot a row's number, or NO_ROW; a power of two of slots.
        table: these arrays: see ``KEYS`` and the others.
    """

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}
        self.keys: Bytes = np.zeros(1024, np.uint8)
        self.rows: Longs = np.zeros((SLOTS_MIN // 2, ROW_SIZE), np.int64)
        self.slots: Longs = np.full(SLOTS_MIN, NO_ROW, np.int64)
        self.table = ArrayTable(self.keys, self.rows, self.slots)
        self._keys_end = 0

    def __len__(self) -> int:
        """Return how many keys there are."""
        return len(self.numbers)

    def put(self, key: bytes) -> int:
        """Add a key unless the table has it; return its number."""
        count = len(self.numbers)
        number = self.numbers.setdefault(key, count)
        if number < count:
            return number
        begin, end = self._keys_end, self._keys_end + len(key)
        self._keys_end += padded_size(len(key))
        self.keys = with_room(self.keys, self._keys_end, 0)
        self.table.put(KEYS, self.keys)
        self.keys[begin:end] = np.frombuffer(key, np.uint8)
        if number == len(self.rows):
            self.rows = np.concatenate((self.rows, np.zeros_like(self.rows)))
            self.table.put(ROWS, self.rows)
            self.slots = np.full(2 * len(self.slots), NO_ROW, np.int64)
            self.table.put(SLOTS, self.slots)
            for other, row in self.numbers.items():
                self._place(row, other)
        else:
            self._place(number, key)
        self.rows[number, :OWN] = begin, len(key)
        return number

    def _place(self, number: int, key: bytes) -> None:
        mask = len(self.slots) - 1
        slot = hash_of(key) & mask
        while self.slots[slot] != NO_ROW:
            slot = slot + 1 & mask
        self.slots[slot] = number


def hash_of(key: bytes) -> int:
    """Return the hash by which kernels find a key."""
    value = 0
    for at in range(0, len(key), WORD_SIZE):
        value = (value ^ int.from_bytes(key[at : at + WORD_SIZE], "little")) * MIX & _WORD_MASK
        value ^= value >> 29
    return value


def padded_size(size: int) -> int:
    """Return the size of the whole words that so many bytes take."""
    return -(-size // WORD_SIZE) * WORD_SIZE


def with_room(array: np.ndarray, size: int, empty: int) -> np.ndarray:
    """Return ``array``, or a longer copy filled up with ``empty`` if it has fewer than ``size`` items."""
    if size <= len(array):
        return array
    longer = np.full(max(2 * len(array), size), empty, array.dtype)
    longer[: len(array)] = array
    return longer
