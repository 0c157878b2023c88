"""Entries that were read with others, for whoever reads on: consumers read a queue from one end to the other.

To read some entries of a file is a call of the system, whatever their number; an answer to a pull takes 32 of
them, usually.
"""

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

    def get(self, number: int, begin: int, end: int) -> bytes | None:
        """Give a queue's entries from queue offset ``begin`` to before ``end`` if they all are there."""
        known = self._known.get(number)
        if known is None:
            return None
        first, entries = known
        at, stop = (begin - first) * SIZE, (end - first) * SIZE
        return entries[at:stop] if 0 <= at <= stop <= len(entries) else None

    def keep(self, number: int, first: int, entries: Buffer) -> None:
        """Keep a queue's entries from queue offset ``first`` on; they are in its files and do not change."""
        self._known.pop(number, None)
        self._known[number] = first, bytes(entries)  # of a file's map no view may stay
        if len(self._known) > QUEUES_MAX:
            del self._known[next(iter(self._known))]

    def forget(self, number: int) -> None:
        """Forget a queue's entries: others will be in their place."""
        self._known.pop(number, None)
