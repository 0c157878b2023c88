"""The messages that a consumer has pulled from one queue and not handled yet, and its commit offset.

Theory of operation: messages arrive in the order of their queue offsets and are handled in any order. The
**commit offset** is that of the first message that is not handled, or, if there is none, the **cursor**: the
queue offset to pull from next, which also skips messages that the filter rejects. So all messages before the
commit offset are handled, and one slow message holds it back; that is why not only the number of messages is
limited but also the span.

Pure: no clock, no sockets. (RocketMQ: ProcessQueue.java.)
"""

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

ItemT = TypeVar("ItemT")


class Limits(NamedTuple):
    """The limits of waiting messages of one queue; pulling pauses while one of them is exceeded.

    Attributes:
        messages: number of messages.
        size: bytes of their bodies.
        span: queue offsets between the first waiting message and the last.
    """

    messages: int = 1000
    size: int = 100 * 1024 * 1024
    span: int = 2000


class PulledItem(NamedTuple, Generic[ItemT]):
    """A pulled message: its queue offset, the size of its body in bytes, and the message itself."""

    queue_offset: int
    size: int
    item: ItemT


class ProcessQueue(Generic[ItemT]):
    """The messages of one queue that wait or are being handled.

    Attributes:
        cursor: the queue offset to pull from next.
        size: bytes of the waiting bodies.
    """

    def __init__(self, cursor: int) -> None:
        self.restart(cursor)

    def __len__(self) -> int:
        return len(self._waiting)

    def restart(self, cursor: int) -> None:
        """Drop all waiting messages and continue at ``cursor``; messages being handled no longer count."""
        self.cursor = cursor
        self.size = 0
        self._order: deque[int] = deque()
        self._waiting: dict[int, PulledItem[ItemT]] = {}

    def put(self, pulled: Iterable[PulledItem[ItemT]], cursor: int) -> None:
        """Add the messages of a pull, in order, and set the queue offset of the next pull."""
        for message in pulled:
            self._order.append(message.queue_offset)
            self._waiting[message.queue_offset] = message
            self.size += message.size
        self.cursor = cursor

    def done(self, queue_offsets: Iterable[int]) -> None:
        """Mark messages as handled; messages from before a restart are ignored."""
        for queue_offset in queue_offsets:
            if (message := self._waiting.pop(queue_offset, None)) is not None:
                self.size -= message.size
        while self._order and self._order[0] not in self._waiting:
            self._order.popleft()

    def is_waiting(self, queue_offset: int) -> bool:
        """Return whether a message was put, not done and not dropped by a restart."""
        return queue_offset in self._waiting

    def head(self, count: int) -> list[ItemT]:
        """Return the first ``count`` messages that are not handled, for a consumer that handles in order."""
        waiting = (message for offset in self._order if (message := self._waiting.get(offset)) is not None)
        return [message.item for message in islice(waiting, count)]

    @property
    def commit_offset(self) -> int:
        """The queue offset before which all messages are handled."""
        return self._order[0] if self._order else self.cursor

    @property
    def span(self) -> int:
        """Queue offsets between the first waiting message and the last one that arrived."""
        return self._order[-1] - self._order[0] if self._order else 0

    def is_full(self, limits: Limits, *, spans: bool = True) -> bool:
        """Return whether pulling should pause until some messages are handled.

        Args:
            spans: whether to check the span; a consumer that handles in order does not.
        """
        return len(self) > limits.messages or self.size > limits.size or (spans and self.span > limits.span)
