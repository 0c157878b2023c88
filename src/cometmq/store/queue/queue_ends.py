"""The ends of queues: of one, and of all at once with the entries before them, for statistics.

A copy of one array shows which queues have got messages, however many queues there are, and no append pays
for it.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cometmq.kernels.arrays import Longs
from cometmq.store.queue.consume_queue import ENTRY_DTYPE
from cometmq.store.queue.queues import QueueKey, Queues
from cometmq.store.reading import Reading

Entries: TypeAlias = NDArray[np.void]
"""Queue entries: ``[n]`` of ENTRY_DTYPE."""

_NO_ENTRIES: Entries = np.empty(0, ENTRY_DTYPE)


class QueueEnds(NamedTuple):
    """The first readable queue offset of a queue, and the one behind its last readable message."""

    low: int
    high: int


class EndsOfAllQueues:
    """The ends of a store's queues; the number of a queue is never used for another one."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues

    def copy(self) -> Longs:
        """Return the next queue offset of each queue, ``int64[n]`` by its number; -1 for a deleted queue."""
        next_offsets = self._queues.next_offsets
        copied: Longs = next_offsets.longs[: next_offsets.count].copy()
        return copied

    def numbers_of(self, topic: str) -> dict[int, int]:
        """Return the numbers of a topic's queues by queue id."""
        return self._queues.numbers_of(topic)

    def key_of(self, number: int) -> QueueKey | None:
        """Return topic and id of a queue, or None if it was deleted."""
        queue = self._queues.by_number.get(number)
        return None if queue is None else (queue.topic, queue.queue_id)

    def entries(self, key: QueueKey, begin: int, end: int) -> Reading[Entries]:
        """Read a queue's entries from queue offset ``begin`` to before ``end``; fewer if they are gone.

        Entries of messages that are not readable yet are missing, too.
        """
        queue = self._queues.find(*key)
        if queue is None:
            return _NO_ENTRIES
        begin = max(begin, queue.min_offset)
        data = yield from queue.entries(begin, end - begin)
        return np.frombuffer(data, ENTRY_DTYPE)
