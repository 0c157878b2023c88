"""How much one read gives at most."""

from typing import NamedTuple, Self

import numpy as np

from cometmq.format.queue_entry import SIZE
from cometmq.kernels.ops import Longs
from cometmq.kernels.pulls.plain_choice import ReadLimits
from cometmq.kernels.pulls.rows import CHOSEN_SIZE, LogBytes
from cometmq.store.settings import StoreSettings


class GetLimits(NamedTuple):
    """How much a read gives at most; the tighter limits are for what counts as on the disk."""

    scan_count: int
    memory_bytes: int
    memory_count: int
    memory_size: int
    disk_count: int
    disk_size: int

    @property
    def most_count(self) -> int:
        """No read gives more messages."""
        return max(self.memory_count, self.disk_count)

    def within(self, written_offset: int, max_count: int, max_bytes: int) -> ReadLimits:
        """Return the limits of a read that asks for so much, in a log that ends at an offset."""
        return ReadLimits(
            written_offset - self.memory_bytes,
            (min(max_count, self.memory_count), min(max_bytes, self.memory_size)),
            (min(max_count, self.disk_count), min(max_bytes, self.disk_size)),
        )

    def numbers(self, file: LogBytes, written_offset: int, max_count: int, max_bytes: int) -> Longs:
        """Return the bounds of such a read of one file: see ``pulls.FILE_BEGIN`` and the others."""
        near_offset, memory, disk = self.within(written_offset, max_count, max_bytes)
        return np.array((file.begin, file.end, near_offset, *memory, *disk), np.int64)

    def room(self) -> Longs:
        """Return room for what a read chooses: see ``pulls.RECORD_AT`` and the others."""
        return np.empty((CHOSEN_SIZE, self.most_count), np.int64)

    @classmethod
    def of(cls, settings: StoreSettings) -> Self:
        """Give the limits that are set."""
        return cls(
            settings.max_filter_message_size // SIZE,
            settings.in_memory_bytes,
            settings.max_transfer_count_on_message_in_memory,
            settings.max_transfer_bytes_on_message_in_memory,
            settings.max_transfer_count_on_message_in_disk,
            settings.max_transfer_bytes_on_message_in_disk,
        )
