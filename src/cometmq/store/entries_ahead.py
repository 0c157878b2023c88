"""Entries that were read with others, for whoever reads on: consumers read a queue from one end to the other.

To read some entries of a file is a call of the system, whatever their number; an answer to a pull takes 32 of
them, usually.
"""

from collections.abc import Callable
from typing import Final

from cometmq.format.queue_entry import SIZE
from cometmq.message import Buffer

AHEAD: Final = 204
"""So many entries are read together: nearly a page."""
QUEUES_MAX: Final = 1_024
"""Those of so many queues are kept (4 MiB), the latest ones."""


class EntriesAhead:
    """Entries of queues by the queues' numbers; of each those that were read last."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, bytes]] = {}  # queue offset of the first one, and the entries

    def get(
        self, number: int, begin: int, end: int, files_end: int, read: Callable[[int, int], Buffer | None]
    ) -> Buffer | None:
        """Give a queue's entries from queue offset ``begin`` to before ``end``: those known, or read now.

        Args:
            files_end: those before this queue offset are in files, where they do not change.
            read: gives the entries from one queue offset to before another, None if that has to wait.
        """
        first, entries = self._known.get(number, (0, b""))
        at, stop = (begin - first) * SIZE, (end - first) * SIZE
        if 0 <= at < stop <= len(entries):
            return entries[at:stop]
        ahead_end = min(begin + AHEAD, files_end)
        if end < ahead_end and (found := read(begin, ahead_end)) is not None:
            self._keep(number, begin, bytes(found))  # of a file's map no view may stay
            return found[: (end - begin) * SIZE]
        return read(begin, end)

    def forget(self, number: int) -> None:
        """Forget a queue's entries: others will be in their place."""
        self._known.pop(number, None)

    def _keep(self, number: int, first: int, entries: bytes) -> None:
        self._known.pop(number, None)
        self._known[number] = first, entries
        if len(self._known) > QUEUES_MAX:
            del self._known[next(iter(self._known))]
