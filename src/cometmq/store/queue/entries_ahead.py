"""A cache of queue entries that were read ahead: consumers read a queue from one end to the other.

Reading entries of a file is one system call whatever their number, and a pull's response usually takes 32 of
them. Kernels use the cache, too: see ``kernels.pulls.compiled``.
"""

from array import array
from collections.abc import Callable
from typing import Final

import numpy as np

from cometmq.format.queue_entry import SIZE
from cometmq.kernels.arrays import Bytes, Longs
from cometmq.kernels.pulls.rows import WINDOW_SIZE
from cometmq.message import Buffer

AHEAD: Final = 204
"""Number of entries read at once: nearly a page."""
QUEUES_MAX: Final = 1_024
"""Number of queues whose entries are cached (4 MiB), the latest ones."""

_ROOM: Final = 64
_NO_WINDOW: Final = array("q", bytes(8 * WINDOW_SIZE))


class EntriesAhead:
    """The cached entries of each queue, by the queue's number: those that were read last.

    Attributes:
        windows: ``int64[n, WINDOW_SIZE]``, a row for each number: see ``kernels.pulls.rows.FIRST``.
        entries: ``uint8[n]``, the bytes of the entries.
    """

    def __init__(self) -> None:
        self.entries: Bytes = np.empty(0, np.uint8)
        self._slots: dict[int, int] = {}  # by number, the one that was read longest ago first
        self._free: list[int] = []
        self._rows = array("q")
        self._make_room(_ROOM)

    def cached(self, number: int, begin: int, end: int) -> bytes | None:
        """Return a queue's entries from queue offset ``begin`` to before ``end`` if all are cached."""
        if number not in self._slots:
            return None
        first, cached_end, at, _ = self._rows[number * WINDOW_SIZE : (number + 1) * WINDOW_SIZE]
        if begin < first or end > cached_end:
            return None
        return self.entries.data[at + (begin - first) * SIZE : at + (end - first) * SIZE].tobytes()

    def read(
        self,
        number: int,
        begin: int,
        end: int,
        ahead_max: int,
        min_offset: int,
        read: Callable[[int, int], Buffer | None],
    ) -> Buffer | None:
        """Read a queue's entries from queue offset ``begin`` to before ``end``, and cache some more.

        Args:
            ahead_max: queue offset up to which entries are final and may be read ahead.
            min_offset: the queue's; when it changes ``discard`` must be called.
            read: returns the entries from one queue offset to before another, None if that has to wait.
        """
        ahead_end = min(begin + AHEAD, ahead_max)
        if end < ahead_end and (found := read(begin, ahead_end)) is not None:
            self._cache(number, begin, ahead_end, min_offset, found)
            return found[: (end - begin) * SIZE]
        return read(begin, end)

    def discard(self, number: int) -> None:
        """Remove a queue's entries from the cache: they, or the queue's first offset, will change."""
        if (slot := self._slots.pop(number, None)) is not None:
            self._free.append(slot)
            self._set_window(number, _NO_WINDOW)

    def _cache(self, number: int, first: int, end: int, min_offset: int, found: Buffer) -> None:
        at = self._take_slot(number) * AHEAD * SIZE
        self.entries.data[at : at + len(found)] = found
        self._set_window(number, array("q", (first, end, at, min_offset)))

    def _take_slot(self, number: int) -> int:
        """Return a slot for a queue's entries, which become the latest."""
        slots = self._slots
        if number not in slots and len(slots) == QUEUES_MAX:
            self.discard(next(iter(slots)))
        if not len(self.entries):
            self.entries = np.empty(QUEUES_MAX * AHEAD * SIZE, np.uint8)  # the system allots pages on use
            self._free = list(range(QUEUES_MAX - 1, -1, -1))
        slot = slots.pop(number) if number in slots else self._free.pop()
        slots[number] = slot
        return slot

    def _set_window(self, number: int, row: "array[int]") -> None:
        if number >= len(self.windows):
            self._make_room(max(number + 1, 2 * len(self.windows)))
        self._rows[number * WINDOW_SIZE : (number + 1) * WINDOW_SIZE] = row

    def _make_room(self, count: int) -> None:
        """Grow the table of windows to ``count`` rows."""
        self._rows = self._rows + array("q", bytes(8 * WINDOW_SIZE * count - 8 * len(self._rows)))
        self.windows: Longs = np.frombuffer(self._rows, np.int64).reshape(-1, WINDOW_SIZE)
