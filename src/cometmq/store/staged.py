"""Queue entries of what was appended, until somebody looks at the queues.

Messages of one batch go to many queues, few to each. To put them there one by one would cost more than all
the rest of a send in bulk, and more the more queues there are, for they are in no cache of the processor. So
entries are collected, and put by the hundred, queue by queue: see ``Queues``.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from cometmq import kernels
from cometmq.kernels.ops import Longs
from cometmq.store.consume_queue import ConsumeQueue

CAPACITY: Final = 32_768
"""So many entries wait at most: putting them takes up to some milliseconds …"""
ENTRIES_PER_QUEUE: Final = 16
"""… or so many for each queue, if that is more: each costs as much as some entries."""
FEW: Final = 24
"""So many are put faster one by one: somebody reads right behind the producer."""


class Staged:
    """Entries in the order of the log.

    ::

        rows    0 ──── can be read ──── count ──── not yet ──── end ──── free ────

    Attributes:
        queues: by their numbers; those that are gone are passed over.
        rows: the entries, a row of numbers each (see ``kernels.sends``); kernels fill it from ``end`` on.
        count: how many entries wait that may be read; whoever lets more be read moves it on.
        end: how many wait in all; the others are not on the disk yet, under SYNC_FLUSH.
    """

    def __init__(self, queues: Mapping[int, ConsumeQueue]) -> None:
        self.count = self.end = 0
        self.queues = queues
        self.rows: Longs = np.empty((0, 5), np.int64)

    def with_room(self, count: int) -> Longs:
        """Give the rows, with room for ``count`` more; put what can be read if need be."""
        if self.end + count > len(self.rows):
            self.put()
            room = max(CAPACITY, ENTRIES_PER_QUEUE * len(self.queues), self.end + count)
            if room > len(self.rows):
                waiting, self.rows = self.rows[: self.end], np.empty((room, 5), np.int64)
                self.rows[: self.end] = waiting
        return self.rows

    def add(self, rows: Longs) -> None:
        """Take entries that can be read; those that wait are of later messages."""
        self.with_room(len(rows))
        begin, end = self.count, self.end
        self.count, self.end = begin + len(rows), end + len(rows)
        self.rows[self.count : self.end] = self.rows[begin:end]
        self.rows[begin : self.count] = rows

    def put(self) -> None:
        """Put what can be read into its queues."""
        if not self.count:
            return
        self._put(self.rows[: self.count])
        waiting = self.rows[self.count : self.end]
        self.rows[: len(waiting)] = waiting
        self.count, self.end = 0, len(waiting)

    def _put(self, rows: Longs) -> None:
        if len(rows) <= FEW:
            self._put_each(rows)
        else:
            self._put_by_queue(rows)

    def _put_each(self, rows: Longs) -> None:
        for number, queue_offset, physical_offset, size, tags_code in rows.tolist():
            queue = self.queues.get(number)
            if queue is not None:
                queue.put(queue_offset, physical_offset, size, tags_code)

    def _put_by_queue(self, rows: Longs) -> None:
        runs, entries = kernels.current().group_entries(rows)
        for number, queue_offset, begin, end, physical_end in runs.tolist():
            queue = self.queues.get(number)
            if queue is not None:
                queue.put_new(queue_offset, entries[begin:end], physical_end)
