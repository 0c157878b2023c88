"""The topics that sends may go to without further checks, as arrays that kernels can search.

A hash table with open addressing: a row of ``slots`` says where the topic's name is, how many queues it has,
and where its ``cells`` begin: for each queue id the number of the queue in the array of next queue offsets,
or NO_QUEUE as long as that is unknown.
"""

from typing import Final, Generic, TypeVar

import numpy as np

from cometmq.format.java.java_hash import java_hash
from cometmq.kernels.arrays import ArrayTable, Bytes, Longs

# The columns of a slot.
(
    NAME_AT,  # NO_NAME if the slot is free
    NAME_LENGTH,
    QUEUE_COUNT,
    CELLS_AT,
) = range(4)
SLOT_SIZE: Final = 4

NAMES, SLOTS, CELLS = range(3)
"""The arrays of ``TopicHashTable.table``."""
SLOTS_MIN: Final = 64
NO_NAME: Final = -1
NO_QUEUE: Final = -1
MIX: Final = 0x9E3779B1
"""Similar names have similar hashes: multiplied by this, they differ in their high bits."""
_MASK: Final = 0xFFFFFFFF

TargetT = TypeVar("TargetT")


class TopicHashTable(Generic[TargetT]):
    """Topics by name: what sends to each go by, and the numbers of its queues.

    A topic that is forgotten keeps its slot until ``clear``, without queues.

    Attributes:
        table: the three arrays that follow: see ``NAMES`` and the others.
        numbers: for Python what ``cells`` has: of each topic the numbers of its queues that are known.
        names: uint8[], the names of all topics in ASCII, one after another.
        slots: int64[slots, 4], a power of two of slots: see ``NAME_AT`` and the others.
        cells: int64[], for each queue of each topic its number, or NO_QUEUE.
    """

    def __init__(self) -> None:
        self.clear()

    def __len__(self) -> int:
        """Return how many slots are taken, those of forgotten topics too."""
        return len(self._slot_of)

    def clear(self) -> None:
        """Remove all topics."""
        self.names: Bytes = np.zeros(1024, np.uint8)
        self.slots: Longs = _no_slots(SLOTS_MIN)
        self.cells: Longs = np.full(1024, NO_QUEUE, np.int64)
        self.table = ArrayTable(self.names, self.slots, self.cells)
        self._targets: dict[str, TargetT] = {}
        self.numbers: dict[str, dict[int, int]] = {}
        self._slot_of: dict[str, int] = {}
        self._rooms: dict[str, int] = {}  # how many cells each topic has
        self._names_end = self._cells_end = 0

    def find(self, topic: str) -> TargetT | None:
        """Return what was put for a topic, None if it is not known."""
        return self._targets.get(topic)

    def put(self, topic: str, target: TargetT, queue_count: int) -> None:
        """Store a topic, whose name is ASCII; the numbers of its queues are unknown unless it is known."""
        slot = self._slot_of.get(topic)
        if slot is None:
            slot = self._add(topic)
        self._targets[topic] = target
        if self.slots[slot, QUEUE_COUNT] != queue_count:
            self._set_queue_count(topic, slot, queue_count)

    def put_queue(self, topic: str, queue_id: int, number: int) -> None:
        """Store the number of a queue of a known topic."""
        numbers = self.numbers[topic]
        if numbers.get(queue_id) != number:
            numbers[queue_id] = number
            self.cells[self.slots[self._slot_of[topic], CELLS_AT] + queue_id] = number

    def forget(self, topic: str) -> None:
        """Remove a topic and its queues, because it has changed."""
        if self._targets.pop(topic, None) is not None:
            self.slots[self._slot_of[topic], QUEUE_COUNT] = 0
            self.numbers[topic] = {}

    def _set_queue_count(self, topic: str, slot: int, queue_count: int) -> None:
        """Reserve cells for a topic's queues, all of whose numbers are unknown."""
        if queue_count > self._rooms[topic]:
            self.cells = _with_room(self.cells, self._cells_end + queue_count, NO_QUEUE)
            self.table.put(CELLS, self.cells)
            self.slots[slot, CELLS_AT] = self._cells_end
            self._rooms[topic] = queue_count
            self._cells_end += queue_count
        begin = self.slots[slot, CELLS_AT]
        self.cells[begin : begin + queue_count] = NO_QUEUE
        self.numbers[topic] = {}
        self.slots[slot, QUEUE_COUNT] = queue_count

    def _add(self, topic: str) -> int:
        """Add a topic without queues; return its slot."""
        if 2 * (len(self._slot_of) + 1) > len(self.slots):
            rows, self.slots = self.slots, _no_slots(2 * len(self.slots))
            self.table.put(SLOTS, self.slots)
            self._slot_of = {other: self._place(other, rows[slot]) for other, slot in self._slot_of.items()}
        name = topic.encode("ascii")
        self.names = _with_room(self.names, self._names_end + len(name), 0)
        self.table.put(NAMES, self.names)
        self.names[self._names_end : self._names_end + len(name)] = np.frombuffer(name, np.uint8)
        slot = self._slot_of[topic] = self._place(topic, np.array((self._names_end, len(name), 0, 0)))
        self._rooms[topic], self.numbers[topic] = 0, {}
        self._names_end += len(name)
        return slot

    def _place(self, topic: str, row: Longs) -> int:
        """Write a topic's row into a free slot; return which."""
        slot = slot_of(java_hash(topic), len(self.slots))
        while self.slots[slot, NAME_AT] != NO_NAME:
            slot = (slot + 1) % len(self.slots)
        self.slots[slot] = row
        return slot


def slot_of(name_hash: int, slot_count: int) -> int:
    """Return the slot where the search for a name begins."""
    return ((name_hash * MIX & _MASK) >> 8) % slot_count


def _no_slots(count: int) -> Longs:
    """Return so many free slots."""
    slots = np.zeros((count, SLOT_SIZE), np.int64)
    slots[:, NAME_AT] = NO_NAME
    return slots


def _with_room(array: np.ndarray, size: int, empty: int) -> np.ndarray:
    """Return ``array``, or a longer copy filled up with ``empty`` if it has fewer than ``size`` items."""
    if size <= len(array):
        return array
    longer = np.full(max(2 * len(array), size), empty, array.dtype)
    longer[: len(array)] = array
    return longer
