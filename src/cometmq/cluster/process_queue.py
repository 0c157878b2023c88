"""What a consumer has pulled of one queue and not handled yet, and how far it may commit.

Theory of operation: messages come in the order of their queue offsets and are done in any order. The
**commit offset** is that of the first message that is not done, or, if there is none, the **cursor**: the
queue offset to pull from next, which also passes over messages that nobody here wants. So all before the
commit offset is done, and one slow message holds it back; that is why not only the count is limited, but the
span, too.

Pure: no clock, no sockets. (RocketMQ: ProcessQueue.java.)
"""

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

ItemT = TypeVar("ItemT")


class Limits(NamedTuple):
    """How much of one queue may wait; no more is pulled above any of these.

    Attributes:
        messages: how many.
        size: bytes of bodies.
        span: queue offsets between the first message that waits and the last.
    """

    messages: int = 1000
    size: int = 100 * 1024 * 1024
    span: int = 2000


class Pulled(NamedTuple, Generic[ItemT]):
    """A message that came: its queue offset, the bytes of its body, and whatever stands for it."""

    queue_offset: int
    size: int
    item: ItemT


class ProcessQueue(Generic[ItemT]):
    """The messages of one queue that wait or are being handled.

    Attributes:
        cursor: the queue offset to pull from next.
        size: bytes of the bodies that wait.
    """

    def __init__(self, cursor: int) -> None:
        self.restart(cursor)

    def __len__(self) -> int:
        return len(self._waiting)

    def restart(self, cursor: int) -> None:
        """Forget all that waits and go on at ``cursor``: what is being handled does not count any more."""
        self.cursor = cursor
        self.size = 0
        self._order: deque[int] = deque()
        self._waiting: dict[int, Pulled[ItemT]] = {}

    def put(self, pulled: Iterable[Pulled[ItemT]], cursor: int) -> None:
        """Take what a pull gave, in order, and where the next one begins."""
        for message in pulled:
            self._order.append(message.queue_offset)
            self._waiting[message.queue_offset] = message
            self.size += message.size
        self.cursor = cursor

    def done(self, queue_offsets: Iterable[int]) -> None:
        """Note that messages are handled; those of before a restart are passed over."""
        for queue_offset in queue_offsets:
            if (message := self._waiting.pop(queue_offset, None)) is not None:
                self.size -= message.size
        while self._order and self._order[0] not in self._waiting:
            self._order.popleft()

    def head(self, count: int) -> list[ItemT]:
        """Give the first messages that are not done, for a consumer that takes them in order."""
        waiting = (message for offset in self._order if (message := self._waiting.get(offset)) is not None)
        return [message.item for message in islice(waiting, count)]

    @property
    def commit_offset(self) -> int:
        """The queue offset before which everything is done."""
        return self._order[0] if self._order else self.cursor

    @property
    def span(self) -> int:
        """How far the last message that came is from the first that waits."""
        return self._order[-1] - self._order[0] if self._order else 0

    def is_full(self, limits: Limits, *, spans: bool = True) -> bool:
        """Tell whether pulling should wait until some messages are done.

        Args:
            spans: whether the span counts: it does not where messages are done in order.
        """
        return len(self) > limits.messages or self.size > limits.size or (spans and self.span > limits.span)
