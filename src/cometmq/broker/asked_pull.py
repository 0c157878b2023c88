"""A pull that passed the checks, on its way to its answer."""

from dataclasses import dataclass
from typing import Final

from cometmq.broker.subscriptions import Wanted
from cometmq.cluster.hold import HeldPull
from cometmq.net.server import Session
from cometmq.wire.frame import FRAME_LENGTH_MAX, Command
from cometmq.wire.headers import PullHeader

BYTES_MIN: Final = 100
BYTES_MAX: Final = FRAME_LENGTH_MAX - 65_536
"""Bounds of what a pull may ask for; RocketMQ has 128 MiB, which no client's frame could hold."""


@dataclass(slots=True, eq=False)
class AskedPull:
    """A pull that passed the checks.

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

    def held(self) -> "HeldPull[AskedPull]":
        """Give what a hold needs to know of it."""
        return HeldPull(
            ticket=self,
            owner=self.session,
            topic=self.header.topic,
            queue_id=self.header.queue_id,
            queue_offset=self.queue_offset,
            tags_codes=self.wanted.tags_codes,
            deadline_ms=self.deadline_ms,
        )


def bytes_within_bounds(size: int) -> int:
    """Give how many bytes a pull that asks for ``size`` may be given."""
    return min(max(size, BYTES_MIN), BYTES_MAX)
