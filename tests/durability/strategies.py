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


STRATEGIES: Final = (
    Strategy("SYNC_FLUSH", "file channel", {"flushDiskType": "SYNC_FLUSH"}),
    Strategy("ASYNC_FLUSH", "file channel", {"flushDiskType": "ASYNC_FLUSH"}),
)
