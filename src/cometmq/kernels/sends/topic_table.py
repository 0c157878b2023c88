"""The topics that sends may go to without further checks, as arrays that kernels can search.

A hash table with open addressing: ``slots`` hold row numbers (-1 for none), and a row says where the topic's
name is, how many queues it has, and where its ``cells`` begin: for each queue id the number of the queue in
the array of next queue offsets, -1 as long as that is unknown.
"""

from typing import Final

import numpy as np

from cometmq.format.java.java_hash import java_hash
from cometmq.kernels.ops import Bytes, Longs

ROW_SIZE: Final = 4
NAME_AT: Final = 0
NAME_LENGTH: Final = 1
QUEUE_COUNT: Final = 2
CELLS_AT: Final = 3
SLOTS_MIN: Final = 64
MIX: Final = 0x9E3779B1
"""Similar names have similar hashes: multiplied by this, they differ in their high bits."""
_MASK: Final = 0xFFFFFFFF


class TopicHashTable:
    """A table of topics by name. A row stays until ``clear``; sends to one without queues are not taken.

    Attributes:
        count: how many rows there are.
        names: uint8[], the names of all topics in ASCII, one after another.
        rows: int64[4 × rows], see ``NAME_AT`` and the others.
        slots: int64[slots], for each slot a row number, or -1; a power of two of slots.
        cells: int64[], for each queue of each topic its number, or -1.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove all topics."""
        self.count = 0
        self.names: Bytes = np.zeros(1024, np.uint8)
        self.rows: Longs = np.zeros((SLOTS_MIN // 2) * ROW_SIZE, np.int64)
        self.slots: Longs = np.full(SLOTS_MIN, -1, np.int64)
        self.cells: Longs = np.full(1024, -1, np.int64)
        self._row_of: dict[str, int] = {}
        self._rooms: list[int] = []  # for each row, how many cells it has
        self._names_end = self._cells_end = 0

    def put(self, topic: str, queue_count: int, queue_id: int, queue: int) -> None:
        """Store that queue ``queue_id`` of a topic, whose name is ASCII, has the number ``queue``."""
        row = self._row_of.get(topic)
        if row is None:
            row = self._add(topic)
        if self.rows[row * ROW_SIZE + QUEUE_COUNT] != queue_count:
            self._set_queue_count(row, queue_count)
        self.cells[self.rows[row * ROW_SIZE + CELLS_AT] + queue_id] = queue

    def forget(self, topic: str) -> None:
        """Remove a topic's queues, because it has changed."""
        if (row := self._row_of.get(topic)) is not None:
            self.rows[row * ROW_SIZE + QUEUE_COUNT] = 0

    def _set_queue_count(self, row: int, queue_count: int) -> None:
        """Reserve cells for a topic's queues, all of whose numbers are unknown."""
        if queue_count > self._rooms[row]:
            self.cells = _with_room(self.cells, self._cells_end + queue_count, -1)
            self.rows[row * ROW_SIZE + CELLS_AT] = self._cells_end
            self._rooms[row] = queue_count
            self._cells_end += queue_count
        begin = self.rows[row * ROW_SIZE + CELLS_AT]
        self.cells[begin : begin + queue_count] = -1
        self.rows[row * ROW_SIZE + QUEUE_COUNT] = queue_count

    def _add(self, topic: str) -> int:
        name = topic.encode("ascii")
        row = self._row_of[topic] = self.count
        self.count += 1
        self.names = _with_room(self.names, self._names_end + len(name), 0)
        self.rows = _with_room(self.rows, self.count * ROW_SIZE, 0)
        self.names[self._names_end : self._names_end + len(name)] = np.frombuffer(name, np.uint8)
        self.rows[row * ROW_SIZE : self.count * ROW_SIZE] = (self._names_end, len(name), 0, 0)
        self._rooms.append(0)
        self._names_end += len(name)
        if 2 * self.count > len(self.slots):
            self.slots = np.full(2 * len(self.slots), -1, np.int64)
            for other, number in self._row_of.items():
                self._place(other, number)
        else:
            self._place(topic, row)
        return row

    def _place(self, topic: str, row: int) -> None:
        slot = slot_of(java_hash(topic), len(self.slots))
        while self.slots[slot] >= 0:
            slot = (slot + 1) % len(self.slots)
        self.slots[slot] = row


def slot_of(name_hash: int, slot_count: int) -> int:
    """Return the slot where the search for a name begins."""
    return ((name_hash * MIX & _MASK) >> 8) % slot_count


def _with_room(array: np.ndarray, size: int, empty: int) -> np.ndarray:
    """Return ``array``, or a longer copy filled up with ``empty`` if it has fewer than ``size`` items."""
    if size <= len(array):
        return array
    longer = np.full(max(2 * len(array), size), empty, array.dtype)
    longer[: len(array)] = array
    return longer
