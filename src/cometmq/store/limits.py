"""How much one read gives at most."""

from typing import NamedTuple, Self

from cometmq.format.queue_entry import SIZE
from cometmq.store.settings import StoreSettings


class Limits(NamedTuple):
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
