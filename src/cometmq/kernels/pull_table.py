"""Who may be given what: what pulls were found to be allowed, as arrays that kernels can search.

A hash table with open addressing: ``slots`` hold row numbers (-1 for none), a row says where its key stands
in ``keys``. The keys are made by the kernel that reads pulls, and mean something only to it; each is so long
that words can be compared. What a row stands for is remembered with its number by whoever fills the table.
"""

from typing import Final

import numpy as np

from cometmq.kernels.ops import Bytes, Longs

ROW_SIZE: Final = 2
KEY_AT: Final = 0
KEY_SIZE: Final = 1
KEY_SIZE_MAX: Final = 1024
"""Pulls whose filters, names and the like take more bytes are none for kernels."""
SLOTS_MIN: Final = 64
MIX: Final = 0x9E3779B97F4A7C15


class PullTable:
    """Keys by number, in the order in which they were put.

    Attributes:
        count: how many there are.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self.count = self._keys_end = 0
        self.keys: Bytes = np.zeros(1024, np.uint8)
        self.rows: Longs = np.zeros(SLOTS_MIN // 2 * ROW_SIZE, np.int64)
        self.slots: Longs = np.full(SLOTS_MIN, -1, np.int64)
        self._hashes: list[int] = []
        self._numbers: dict[bytes, int] = {}

    def put(self, key: Bytes, key_hash: int) -> int:
        """Add a key, if it is not there; give its number."""
        row = self._numbers.setdefault(key.tobytes(), self.count)
        if row < self.count:
            return row
        self.count += 1
        self.keys = _with_room(self.keys, self._keys_end + len(key))
        self.rows = _with_room(self.rows, self.count * ROW_SIZE)
        self.keys[self._keys_end : self._keys_end + len(key)] = key
        self.rows[row * ROW_SIZE : self.count * ROW_SIZE] = self._keys_end, len(key)
        self._keys_end += len(key)
        self._hashes.append(key_hash)
        if 2 * self.count > len(self.slots):
            self.slots = np.full(2 * len(self.slots), -1, np.int64)
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


def _with_room(array: np.ndarray, size: int) -> np.ndarray:
    """Give ``array``, or a longer one that begins the same."""
    if size <= len(array):
        return array
    longer = np.zeros(max(2 * len(array), size), array.dtype)
    longer[: len(array)] = array
    return longer
