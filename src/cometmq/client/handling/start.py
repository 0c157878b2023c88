"""Where a consumer group begins in a queue without a committed offset."""

from dataclasses import dataclass
from typing import ClassVar, Final

from cometmq.arguments import check, number
from cometmq.client.requests.queue_requests import QueueRequests
from cometmq.format.layout import RETRY_PREFIX
from cometmq.message import MessageQueue
from cometmq.wire.bodies.heartbeat import ConsumeFromWhere


@dataclass(frozen=True)
class Start:
    """A place in a queue: ``Start.LAST``, ``Start.FIRST`` or ``Start.at(time_ms)``.

    LAST is behind the last message, but at the first one in a queue so new that its first message is still in
    memory: no message of a new queue is missed. A queue that a running consumer finds only later begins with
    what was stored since the consumer has started. The group's retry topic is always read from its beginning.
    """

    where: ConsumeFromWhere
    time_ms: int = 0

    LAST: ClassVar["Start"]
    FIRST: ClassVar["Start"]

    @classmethod
    def at(cls, time_ms: int) -> "Start":
        """Return the place of the first message stored at or after a time in ms since the epoch.

        Raises IllegalType.
        """
        check(number(0), time_ms=time_ms)
        return cls(ConsumeFromWhere.TIMESTAMP, time_ms)

    async def offset(self, requests: QueueRequests, queue: MessageQueue, since_ms: int | None = None) -> int:
        """Query the queue's broker for the queue offset. Raises NetworkError, NoRoute or RemoteError.

        Args:
            since_ms: for LAST, when the group began with the topic, in ms since the epoch; None for now.
        """
        if self.where is _FIRST or queue.topic.startswith(RETRY_PREFIX):
            return await requests.min_offset(queue)
        if self.where is _LAST:
            if since_ms is None:
                return await requests.max_offset(queue)
            return await requests.offset_by_time(queue, since_ms)
        return await requests.offset_by_time(queue, self.time_ms)


_FIRST: Final = ConsumeFromWhere.FIRST_OFFSET
_LAST: Final = ConsumeFromWhere.LAST_OFFSET
Start.LAST = Start(_LAST)
Start.FIRST = Start(_FIRST)
