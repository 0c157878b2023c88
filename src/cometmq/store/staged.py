"""Queue entries of sends that were appended in bulk, until somebody looks at the queues.

Messages of one batch go to many queues, few to each. To put them there one by one would cost more than all
the rest; so they are collected, and put by the hundred, queue by queue: see ``Queues``.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from cometmq.format.queue_entry import SIZE
from cometmq.kernels.ops import Longs
from cometmq.store.consume_queue import ENTRY_DTYPE, ConsumeQueue

CAPACITY: Final = 32_768
"""So many entries wait at most: putting them takes some milliseconds …"""
ENTRIES_PER_QUEUE: Final = 16
"""… or so many for each queue, if that is more: each costs as much as some entries."""
QUEUE, QUEUE_OFFSET, PHYSICAL_OFFSET, ENTRY_SIZE, TAGS_CODE = range(5)
"""What the numbers of a row are."""


class Staged:
    """Entries in the order of the log.

    Attributes:
        queues: by their numbers; those that are gone are passed over.
        count: how many entries wait.
    """

    def __init__(self, queues: Mapping[int, ConsumeQueue]) -> None:
        self.count = 0
        self.queues = queues
        self._rows: Longs = np.empty((0, 5), np.int64)

    def add(self, rows: Longs) -> None:
        """Take entries: see ``kernels.sends.SendBatch.entries``."""
        end = self.count + len(rows)
        if end > len(self._rows):
            self.put()
            end = len(rows)
            room = max(CAPACITY, ENTRIES_PER_QUEUE * len(self.queues), end)
            if room > len(self._rows):
                self._rows = np.empty((room, 5), np.int64)
        self._rows[self.count : end] = rows
        self.count = end

    def put(self) -> None:
        """Put what waits into its queues."""
        if not self.count:
            return
        rows, self.count = self._rows[: self.count], 0
        narrow = np.uint16 if rows[:, QUEUE].max() < 1 << 16 else np.int64  # numpy sorts short numbers faster
        rows = rows[np.argsort(rows[:, QUEUE].astype(narrow), kind="stable")]
        numbers = rows[:, QUEUE]
        firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
        lasts = np.append(firsts[1:], len(rows)) - 1
        entries = np.empty(len(rows), ENTRY_DTYPE)
        entries["physical_offset"] = rows[:, PHYSICAL_OFFSET]
        entries["size"] = rows[:, ENTRY_SIZE]
        entries["tags_code"] = rows[:, TAGS_CODE]
        data = entries.tobytes()
        runs = (
            numbers[firsts],
            rows[firsts, QUEUE_OFFSET],
            firsts * SIZE,
            (lasts + 1) * SIZE,
            rows[lasts, PHYSICAL_OFFSET] + rows[lasts, ENTRY_SIZE],
        )
        for number, queue_offset, begin, end, physical_end in zip(
            *(run.tolist() for run in runs), strict=True
        ):
            queue = self.queues.get(number)
            if queue is not None:
                queue.put_new(queue_offset, data[begin:end], physical_end)
