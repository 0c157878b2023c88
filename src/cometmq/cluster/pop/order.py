"""Pops in order: when a queue is blocked, how often its messages were popped, what its offset becomes.

A group has one pop at a time in a queue. Its messages *block* the queue until each is acknowledged or visible
again; the next pop then begins at the first one that is not acknowledged::

    popped 1 2 3 ─► blocked ─► 1 and 3 acknowledged ─► 2 becomes visible ─► popped 2 3 4
                     │  ▲
                     └──┘ popped again by the same attempt: the client has not got the answer

So a message that was acknowledged comes once more if it lies behind one that was not.

There are no check points, and nothing goes to a retry topic: the queue stands still until a consumer
acknowledges the message. How often it was popped is in the answer; what follows from that is the consumer's
affair.

Pure: times are arguments. (RocketMQ: QueueLevelConsumerManager.java.)
"""

import heapq
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from cometmq.cluster.pop.hold import Place

_NONE: Final[Mapping[int, int]] = MappingProxyType({})


class QueueOrder(NamedTuple):
    """The last pop of a group in a queue, and what has become of its messages.

    Attributes:
        pop_time_ms: when the messages were popped, ms since the epoch: acknowledgements name it.
        invisible_ms: how long they are hidden after that, unless ``visible_ms`` has another time.
        offsets: their queue offsets, ascending; at least one.
        attempt_id: the client's name for the pop, the same if it tries again; None if it gave none.
        acknowledged: the offsets that are acknowledged.
        visible_ms: when messages are visible again whose time was changed, by offset, ms since the epoch.
        consumed: how often messages were popped before, by offset; without those that were not.
    """

    pop_time_ms: int
    invisible_ms: int
    offsets: tuple[int, ...]
    attempt_id: str | None = None
    acknowledged: frozenset[int] = frozenset()
    visible_ms: Mapping[int, int] = _NONE
    consumed: Mapping[int, int] = _NONE

    @property
    def unblocked_ms(self) -> int | None:
        """When the last message that is not acknowledged is visible again; None if all are acknowledged."""
        hidden = [offset for offset in self.offsets if offset not in self.acknowledged]
        usual_ms = self.pop_time_ms + self.invisible_ms
        return max([self.visible_ms.get(offset, usual_ms) for offset in hidden], default=None)

    @property
    def next_offset(self) -> int:
        """The offset to commit: of the first message not acknowledged, or the one behind the last message."""
        for offset in self.offsets:
            if offset not in self.acknowledged:
                return offset
        return self.offsets[-1] + 1

    def is_blocked(self, attempt_id: str | None, now_ms: int) -> bool:
        """Check whether a pop has to wait; one that is tried again need not."""
        unblocked_ms = self.unblocked_ms
        return unblocked_ms is not None and now_ms < unblocked_ms and not self.is_repeated(attempt_id)

    def is_repeated(self, attempt_id: str | None) -> bool:
        """Check whether a pop is the last one, tried again."""
        return attempt_id is not None and attempt_id == self.attempt_id

    def is_waiting(self, offset: int, pop_time_ms: int) -> bool:
        """Check whether a message is one of this pop, not of an earlier one, and not acknowledged."""
        is_own = pop_time_ms == self.pop_time_ms and offset in self.offsets
        return is_own and offset not in self.acknowledged

    def acknowledge(self, offset: int) -> "QueueOrder":
        """Return the state after a message of this pop is acknowledged."""
        return self._replace(acknowledged=self.acknowledged | {offset})

    def hide_until(self, offset: int, visible_ms: int) -> "QueueOrder":
        """Return the state after a message of this pop got another time, ms since the epoch."""
        return self._replace(visible_ms={**self.visible_ms, offset: visible_ms})


class Unblocks:
    """When queues that somebody waits for are unblocked: the first time of each.

    Queues are topic, group and queue id; times are ms of the caller's clock.
    """

    def __init__(self) -> None:
        self._times: dict[Place, int] = {}
        self._by_time: list[tuple[int, Place]] = []  # heap; entries of replaced times are passed over

    def add(self, queue: Place, time_ms: int) -> None:
        """Add a queue's time, unless an earlier one is known."""
        known = self._times.get(queue)
        if known is None or time_ms < known:
            self._times[queue] = time_ms
            heapq.heappush(self._by_time, (time_ms, queue))

    def next_ms(self) -> int | None:
        """Return the first time; None if no queue is known."""
        while self._by_time:
            time_ms, queue = self._by_time[0]
            if self._times.get(queue) == time_ms:
                return time_ms
            heapq.heappop(self._by_time)
        return None

    def take(self, now_ms: int) -> list[Place]:
        """Remove and return the queues whose time has come."""
        due: list[Place] = []
        while (time_ms := self.next_ms()) is not None and time_ms <= now_ms:
            _, queue = heapq.heappop(self._by_time)
            del self._times[queue]
            due.append(queue)
        return due


def pop_in_order(
    before: QueueOrder | None,
    offsets: tuple[int, ...],
    pop_time_ms: int,
    invisible_ms: int,
    attempt_id: str | None,
) -> QueueOrder:
    """Return the state after a pop that was not blocked.

    A message of the last pop counts as popped once more, unless that pop is only tried again.

    Args:
        before: the state before; None if the group has popped nothing in this queue.
        offsets: those of the messages, ascending; at least one.
    """
    consumed: Mapping[int, int] = _NONE
    if before is not None and before.is_repeated(attempt_id):
        consumed = before.consumed
    elif before is not None:
        known = before.consumed
        consumed = {offset: known.get(offset, 0) + 1 for offset in offsets if offset in before.offsets}
    return QueueOrder(pop_time_ms, invisible_ms, offsets, attempt_id, consumed=consumed)
