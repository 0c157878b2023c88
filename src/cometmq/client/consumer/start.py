"""Where a consumer group begins in a queue of which it has committed nothing."""

from dataclasses import dataclass
from typing import ClassVar, Final

from cometmq.arguments import check, number
from cometmq.client.consumer.queue_requests import QueueRequests
from cometmq.format.layout import RETRY_PREFIX
from cometmq.message import MessageQueue
from cometmq.wire.bodies.heartbeat import ConsumeFromWhere


@dataclass(frozen=True)
class Start:
    """A place in a queue: ``Start.LAST``, ``Start.FIRST`` or ``Start.at(time_ms)``.

    LAST is behind the last message, except in a queue so young that its first message is still in memory:
    of a new queue nothing is missed. The group's own retry topic is always read from its beginning.
    """

    where: ConsumeFromWhere
    time_ms: int = 0

    LAST: ClassVar["Start"]
    FIRST: ClassVar["Start"]

    @classmethod
    def at(cls, time_ms: int) -> "Start":
        """Begin with the first message stored at or after a time, ms since the epoch. Raises IllegalType."""
        check(number(0), time_ms=time_ms)
        return cls(ConsumeFromWhere.TIMESTAMP, time_ms)

    async def offset(self, requests: QueueRequests, queue: MessageQueue) -> int:
        """Ask the queue's broker for the queue offset. Raises NetworkError, NoRoute or RemoteError."""
        if self.where is _FIRST or queue.topic.startswith(RETRY_PREFIX):
            return await requests.min_offset(queue)
        if self.where is _LAST:
            return await requests.max_offset(queue)
        return await requests.offset_by_time(queue, self.time_ms)


_FIRST: Final = ConsumeFromWhere.FIRST_OFFSET
_LAST: Final = ConsumeFromWhere.LAST_OFFSET
Start.LAST = Start(_LAST)
Start.FIRST = Start(_FIRST)
