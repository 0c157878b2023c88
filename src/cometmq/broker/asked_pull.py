"""A pull that passed the checks, on its way to its answer."""

from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from cometmq.broker.subscriptions import Wanted
from cometmq.net.server import Session
from cometmq.wire.frame import FRAME_LENGTH_MAX, Command
from cometmq.wire.headers import PullHeader

BYTES_MIN: Final = 100
BYTES_MAX: Final = FRAME_LENGTH_MAX - 65_536
"""Bounds of what a pull may ask for; RocketMQ has 128 MiB, which no client's frame could hold."""


@dataclass(slots=True, eq=False)
class AskedPull:
    """A pull that passed the checks (a ``cluster.hold.HeldPull``).

    Attributes:
        queue_offset: where to look: behind what was looked at before it was held.
        deadline_ms: when it has been held long enough, on the monotonic clock; 0 unless it is held.
    """

    session: Session
    command: Command
    header: PullHeader
    wanted: Wanted
    queue_offset: int
    deadline_ms: int = 0

    @property
    def max_count(self) -> int:
        """The most messages that it may be given."""
        return max(self.header.max_message_count, 1)

    @property
    def max_bytes(self) -> int:
        """The most bytes of records that it may be given."""
        most = self.header.max_message_bytes
        return bytes_within_bounds(BYTES_MAX if most is None else most)

    @property
    def owner(self) -> Session:
        """The connection that it came over."""
        return self.session

    @property
    def queue(self) -> tuple[str, int]:
        """Topic and id of its queue."""
        return self.header.topic, self.header.queue_id

    @property
    def tags_codes(self) -> Container[int] | None:
        """The hashes of the wanted tags; None for any."""
        return self.wanted.tags_codes


def bytes_within_bounds(size: int) -> int:
    """Give how many bytes a pull that asks for ``size`` may be given."""
    return min(max(size, BYTES_MIN), BYTES_MAX)
