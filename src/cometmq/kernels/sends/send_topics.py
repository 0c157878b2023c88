"""The topics that sends may go to without further checks, as arrays that kernels can search.

The row of a topic in the ``KeyTable`` says how many queues it has, and where its ``cells`` begin: for each
queue id the number of the queue in the array of next queue offsets, or NO_QUEUE as long as that is unknown.
"""

from typing import Final, Generic, TypeVar

import numpy as np

from cometmq.kernels.arrays import ArrayTable, Longs
from cometmq.kernels.text.key_table import OWN, KeyTable, with_room

QUEUE_COUNT: Final = OWN
CELLS_AT: Final = OWN + 1
"""Columns of a topic's row."""

CELLS: Final = 3
"""The array that ``SendTopics.table`` has beside those of a ``KeyTable``."""
NO_QUEUE: Final = -1

TargetT = TypeVar("TargetT")


class SendTopics(KeyTable, Generic[TargetT]):
    """Topics by name: what sends to each go by, and the numbers of its queues.

    A topic that is forgotten keeps its row until ``clear``, without queues.

    Attributes:
        queues: for Python what ``cells`` has: of each topic the numbers of its queues that are known.
        cells: int64[], for each queue of each topic its number, or NO_QUEUE.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove all topics."""
        super().__init__()
        self.cells: Longs = np.full(1024, NO_QUEUE, np.int64)
        self.table = ArrayTable(self.keys, self.rows, self.slots, self.cells)  # see ``CELLS``
        self._targets: dict[str, TargetT] = {}
        self.queues: dict[str, dict[int, int]] = {}
        self._rooms: dict[str, int] = {}  # how many cells each topic has
        self._cells_end = 0

    def find(self, topic: str) -> TargetT | None:
        """Return what was put for a topic, None if it is not known."""
        return self._targets.get(topic)

    def put_topic(self, topic: str, target: TargetT, queue_count: int) -> None:
        """Store a topic, whose name is ASCII; the numbers of its queues are unknown unless it is known."""
        row = self._row(topic)
        self._targets[topic] = target
        self.queues.setdefault(topic, {})
        if row[QUEUE_COUNT] == queue_count:
            return
        if queue_count > self._rooms.get(topic, 0):
            row[CELLS_AT] = self._cells_end
            self._rooms[topic] = queue_count
            self._cells_end += queue_count
            self.cells = with_room(self.cells, self._cells_end, NO_QUEUE)
            self.table.put(CELLS, self.cells)
        self.cells[row[CELLS_AT] : row[CELLS_AT] + queue_count] = NO_QUEUE
        self.queues[topic] = {}
        row[QUEUE_COUNT] = queue_count

    def put_queue(self, topic: str, queue_id: int, number: int) -> None:
        """Store the number of a queue of a known topic."""
        numbers = self.queues[topic]
        if numbers.get(queue_id) != number:
            numbers[queue_id] = number
            self.cells[self._row(topic)[CELLS_AT] + queue_id] = number

    def forget(self, topic: str) -> None:
        """Remove a topic and its queues, because it has changed."""
        if self._targets.pop(topic, None) is not None:
            self._row(topic)[QUEUE_COUNT] = 0
            self.queues[topic] = {}

    def _row(self, topic: str) -> Longs:
        """Return the row of a topic, which it gets if it has none."""
        number = self.put(topic.encode("ascii"))
        row: Longs = self.rows[number]
        return row
