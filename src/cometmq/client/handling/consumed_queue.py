"""A queue that is consumed: its pulling and, for an ordered topic, the handling of its messages."""

import asyncio
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any

from cometmq.client.handling.ordered import OrderedHandling
from cometmq.client.handling.pulling import Pulling
from cometmq.message import StoredMessage


class ConsumedQueue:
    """A queue that is consumed.

    Args:
        handle_in_order: creates the handling of an ordered queue; None if shared workers handle its messages.
    """

    def __init__(
        self, pulling: Pulling, handle_in_order: Callable[[Pulling], OrderedHandling] | None = None
    ) -> None:
        self.pulling = pulling
        self._handle_in_order = handle_in_order
        self._handling: OrderedHandling | None = None

    def begin(self, settle_s: float) -> None:
        """Begin to consume after ``settle_s`` seconds."""
        if self._handle_in_order is not None:
            self._handling = self._handle_in_order(self.pulling)
        self.pulling.begin(settle_s)

    def arrived(self, _: list[StoredMessage]) -> None:
        """Wake the handling of an ordered queue: messages arrived."""
        if self._handling is not None:
            self._handling.wake()

    def request_stop(self) -> None:
        """Start to handle no further ordered message."""
        if self._handling is not None:
            self._handling.request_stop()

    async def finish(
        self, timeout_s: float | None = None, own: AbstractSet[asyncio.Task[Any]] = frozenset()
    ) -> bool:
        """Wait for the end of the ordered handling, after ``request_stop``; return whether it was in time.

        The messages of ``own``, whose handler calls this, are done, and it is not waited for.
        """
        return True if self._handling is None else await self._handling.finish(timeout_s, own)

    async def stop(self) -> None:
        """Stop consuming, and wait until no ordered message is being handled."""
        self.request_stop()
        await self.finish()
        await self.pulling.stop()

    @property
    def to_commit(self) -> int | None:
        """The offset that is not committed yet, or None."""
        return self.pulling.to_commit

    def committed(self, queue_offset: int | None) -> None:
        """Set the committed offset; None if it is unknown."""
        self.pulling.committed_offset = queue_offset
