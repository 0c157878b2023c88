"""The ways of writing that the campaigns compare, by RocketMQ's settings."""

from typing import Final, NamedTuple


class Strategy(NamedTuple):
    """A flush strategy on a write path.

    Attributes:
        settings: by RocketMQ's names.
    """

    flush: str
    path: str
    settings: dict[str, str]

    @property
    def name(self) -> str:
        """How it is shown."""
        return f"{self.flush}, {self.path}"

    @property
    def is_sync(self) -> bool:
        """Whether a send is answered once its message is on the disk."""
        return self.flush == "SYNC_FLUSH"

    @property
    def has_pool(self) -> bool:
        """Whether a send is answered before its message is in the page cache."""
        return self.path == "pool"


CHANNEL: Final = {"writeWithoutMmap": "true"}
MAPPED: Final = {"writeWithoutMmap": "false"}
SYNC: Final = {"flushDiskType": "SYNC_FLUSH"}
ASYNC: Final = {"flushDiskType": "ASYNC_FLUSH"}
POOL: Final = {"transientStorePoolEnable": "true"}

STRATEGIES: Final = (
    Strategy("SYNC_FLUSH", "file channel", SYNC | CHANNEL),
    Strategy("SYNC_FLUSH", "mapped file", SYNC | MAPPED),
    Strategy("ASYNC_FLUSH", "file channel", ASYNC | CHANNEL),
    Strategy("ASYNC_FLUSH", "mapped file", ASYNC | MAPPED),
    Strategy("ASYNC_FLUSH", "pool", ASYNC | POOL),
)
