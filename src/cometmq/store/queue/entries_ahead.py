"""Entries that were read with others, for whoever reads on: consumers read a queue from one end to the other.

To read some entries of a file is a call of the system, whatever their number; an answer to a pull takes 32 of
them, usually. What is known lies where kernels find it, too: see ``kernels.pulls.asks``.
"""

from array import array
from collections.abc import Callable
from typing import Final

import numpy as np

from cometmq.format.queue_entry import SIZE
from cometmq.kernels.ops import Bytes, Longs
from cometmq.kernels.pulls.rows import WINDOW_SIZE
from cometmq.message import Buffer

AHEAD: Final = 204
"""So many entries are read together: nearly a page."""
QUEUES_MAX: Final = 1_024
"""Those of so many queues are kept (4 MiB), the latest ones."""

_ROOM: Final = 64
_NOTHING: Final = array("q", bytes(8 * WINDOW_SIZE))


class EntriesAhead:
    """Entries of queues by the queues' numbers; of each those that were read last.

    Attributes:
        windows: a row for each number: see ``kernels.pulls.rows.FIRST`` and the others.
        entries: the entries themselves.
    """

    def __init__(self) -> None:
        self.entries: Bytes = np.empty(0, np.uint8)
        self._slots: dict[int, int] = {}  # by number, the one that was read longest ago first
        self._free: list[int] = []
        self._rows = array("q")
        self._make_room(_ROOM)

    def get(
        self,
        number: int,
        begin: int,
        end: int,
        ahead_max: int,
        min_offset: int,
        read: Callable[[int, int], Buffer | None],
    ) -> Buffer | None:
        """Give a queue's entries from queue offset ``begin`` to before ``end``: those known, or read now.

        Args:
            ahead_max: those up to this queue offset may be read together; none of them changes any more.
            min_offset: the queue's; if another becomes it the queue is to be forgotten.
            read: gives the entries from one queue offset to before another, None if that has to wait.
        """
        if number in self._slots:
            first, known_end, at, _ = self._rows[number * WINDOW_SIZE : (number + 1) * WINDOW_SIZE]
            if first <= begin and end <= known_end:
                return self.entries.data[at + (begin - first) * SIZE : at + (end - first) * SIZE].tobytes()
        ahead_end = min(begin + AHEAD, ahead_max)
        if end < ahead_end and (found := read(begin, ahead_end)) is not None:
            self._keep(number, begin, ahead_end, min_offset, found)
            return found[: (end - begin) * SIZE]
        return read(begin, end)

    def forget(self, number: int) -> None:
        """Forget a queue's entries: others will be in their place, or another one the first."""
        if (slot := self._slots.pop(number, None)) is not None:
            self._free.append(slot)
            self._put(number, _NOTHING)

    def _keep(self, number: int, first: int, end: int, min_offset: int, found: Buffer) -> None:
        at = self._take_slot(number) * AHEAD * SIZE
        self.entries.data[at : at + len(found)] = found
        self._put(number, array("q", (first, end, at, min_offset)))

    def _take_slot(self, number: int) -> int:
        """Give where there is room for a queue's entries, which are the latest now."""
        slots = self._slots
        if number not in slots and len(slots) == QUEUES_MAX:
            self.forget(next(iter(slots)))
        if not len(self.entries):
            self.entries = np.empty(QUEUES_MAX * AHEAD * SIZE, np.uint8)  # memory is taken as it is used
            self._free = list(range(QUEUES_MAX - 1, -1, -1))
        slot = slots.pop(number) if number in slots else self._free.pop()
        slots[number] = slot
        return slot

    def _put(self, number: int, row: "array[int]") -> None:
        if number >= len(self.windows):
            self._make_room(max(number + 1, 2 * len(self.windows)))
        self._rows[number * WINDOW_SIZE : (number + 1) * WINDOW_SIZE] = row

    def _make_room(self, count: int) -> None:
        """Have rows for so many queues."""
        self._rows = self._rows + array("q", bytes(8 * WINDOW_SIZE * count - 8 * len(self._rows)))
        self.windows: Longs = np.frombuffer(self._rows, np.int64).reshape(-1, WINDOW_SIZE)
