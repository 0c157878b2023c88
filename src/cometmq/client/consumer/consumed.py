"""A queue that is consumed: what pulls it, and what handles its messages in order, if that is wanted."""

from collections.abc import Callable

from cometmq.client.consumer.ordered import OrderedHandling
from cometmq.client.consumer.pulling import Pulling
from cometmq.message import StoredMessage


class ConsumedQueue:
    """A queue's pulling, and its own handling if its messages are handled in order.

    Args:
        handle_in_order: makes the handling of an ordered queue; None for one that all workers share.
    """

    def __init__(
        self, pulling: Pulling, handle_in_order: Callable[[Pulling], OrderedHandling] | None = None
    ) -> None:
        self.pulling = pulling
        self._handle_in_order = handle_in_order
        self._handling: OrderedHandling | None = None

    def begin(self, settle_s: float) -> None:
        """Consume from now on, or after a while."""
        if self._handle_in_order is not None:
            self._handling = self._handle_in_order(self.pulling)
        self.pulling.begin(settle_s)

    def arrived(self, _: list[StoredMessage]) -> None:
        """Note that messages came to an ordered queue."""
        if self._handling is not None:
            self._handling.wake()

    def refuse(self) -> None:
        """Begin with no further ordered message."""
        if self._handling is not None:
            self._handling.refuse()

    async def finish(self, timeout_s: float | None = None) -> bool:
        """Wait for the ordered handling's end, after a refusal; tell whether it came by itself."""
        return True if self._handling is None else await self._handling.finish(timeout_s)

    async def stop(self) -> None:
        """Consume no more; wait until no ordered message is being handled."""
        self.refuse()
        await self.finish()
        await self.pulling.stop()

    @property
    def to_commit(self) -> int | None:
        """The offset that the store does not have yet, or None."""
        return self.pulling.to_commit

    def committed(self, queue_offset: int | None) -> None:
        """Note what the store has; None if that is not known."""
        self.pulling.written = queue_offset
