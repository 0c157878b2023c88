"""Upper limits of one read."""

from array import array
from typing import NamedTuple, Self

import numpy as np

from cometmq.format.queue_entry import SIZE
from cometmq.kernels.arrays import Longs
from cometmq.kernels.pulls.plain import ReadLimits
from cometmq.kernels.pulls.rows import CHOSEN_SIZE, LogBytes
from cometmq.store.settings import StoreSettings


class GetLimits(NamedTuple):
    """Most entries to examine, and most records and bytes to return of those in memory and of those on disk.

    Attributes:
        scan_count: entries that a read with a filter examines.
        memory_bytes: records no further than this behind the end of the log count as in memory.
    """

    scan_count: int
    memory_bytes: int
    memory_count: int
    memory_size: int
    disk_count: int
    disk_size: int

    @property
    def most_count(self) -> int:
        """Most records that any read returns."""
        return max(self.memory_count, self.disk_count)

    def within(self, written_offset: int, max_count: int, max_bytes: int) -> ReadLimits:
        """Return the limits of a read of ``max_count`` records and ``max_bytes``, in a log of this end."""
        return ReadLimits(
            written_offset - self.memory_bytes,
            (min(max_count, self.memory_count), min(max_bytes, self.memory_size)),
            (min(max_count, self.disk_count), min(max_bytes, self.disk_size)),
        )

    def bounds(self, file: LogBytes, written_offset: int, max_count: int, max_bytes: int) -> Longs:
        """Return the bounds of such a read of one file, int64[7]: see ``pulls.rows.FILE_BEGIN``."""
        near_offset, memory, disk = self.within(written_offset, max_count, max_bytes)
        numbers = array("q", (file.begin, file.end, near_offset, *memory, *disk))
        return np.frombuffer(numbers, np.int64)  # which takes half as long as numpy's own conversion

    def room(self) -> Longs:
        """Return room for the choice of a read, int64[n, CHOSEN_SIZE]: see ``pulls.rows.RECORD_AT``."""
        return np.empty((self.most_count, CHOSEN_SIZE), np.int64)

    @classmethod
    def of(cls, settings: StoreSettings) -> Self:
        """Return the limits of a store's settings."""
        return cls(
            settings.max_filter_message_size // SIZE,
            settings.in_memory_bytes,
            settings.max_transfer_count_on_message_in_memory,
            settings.max_transfer_bytes_on_message_in_memory,
            settings.max_transfer_count_on_message_in_disk,
            settings.max_transfer_bytes_on_message_in_disk,
        )
