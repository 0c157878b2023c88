"""Handle popped messages concurrently.

When a handler returns, its messages are acknowledged. When it raises, they are hidden for a time that grows
with each delivery, and then delivered again. (RocketMQ: ConsumeMessagePopConcurrentlyService.java.)
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Container, Coroutine
from typing import Any, Final

from cometmq.client.consumer.concurrent import Work, Workers, ids
from cometmq.client.consumer.pop.loop import PopLoop
from cometmq.client.consumer.pop.receipts import PopReceipts, is_from
from cometmq.client.consumer.pop.requests import PopRequests
from cometmq.client.consumer.send_back import DEAD_LETTER, FIRST_DELAY_LEVEL, SendBack
from cometmq.client.consumer.subscription import Handle, Subscription
from cometmq.errors import CometMQError, ReceiptExpired
from cometmq.format.delay_level import DelayLevels
from cometmq.message import MessageQueue, StoredMessage

DELAYS: Final = DelayLevels.parse()

_log = logging.getLogger(__name__)


class PopHandling(Workers[PopLoop]):
    """The workers of one consumer that pops.

    Args:
        find, slots, workers, handle: as for ``Workers``.
        requests: acknowledge messages, and hide them.
        send_back: makes dead letters of messages.
        max_reconsume_times: a message that fails after so many retries becomes a dead letter.
    """

    def __init__(
        self,
        find: Callable[[str], Subscription | None],
        slots: asyncio.Semaphore,
        workers: int,
        handle: Handle,
        *,
        requests: PopRequests,
        receipts: PopReceipts,
        send_back: SendBack,
        max_reconsume_times: int,
    ) -> None:
        super().__init__(find, slots, workers, handle)
        self._requests = requests
        self._receipts = receipts
        self._send_back = send_back
        self._max_reconsume_times = max_reconsume_times
        self._to_ack: defaultdict[str, list[StoredMessage]] = defaultdict(list)
        self._acking: set[asyncio.Task[None]] = set()

    async def hand_back(self) -> None:
        """Hand back the messages that no handler has begun, and wait for all acknowledgements.

        Call it after ``finish``, when nothing is popped any more.
        """
        left: list[StoredMessage] = []
        while not self._work.empty():
            if (work := self._work.get_nowait()) is not None:
                left += work.messages
        await asyncio.gather(*(self._hide(message, 0, counts=False) for message in left))
        while self._acking or self._to_ack:
            await asyncio.sleep(0)  # the acknowledgements of this turn are about to start
            await asyncio.gather(*self._acking)

    def drop(self, queues: Container[MessageQueue]) -> None:
        """Acknowledge the messages of some queues that no handler has begun: their offsets were reset."""
        for _ in range(self._work.qsize()):
            work = self._work.get_nowait()
            if work is None:  # wakes a worker
                self._work.put_nowait(None)
                continue
            dropped = [message for message in work.messages if is_from(message, queues)]
            if dropped:
                self._succeed(work._replace(messages=dropped))
            if left := [message for message in work.messages if message not in dropped]:
                self._work.put_nowait(work._replace(messages=left))

    def _is_wanted(self, work: Work[PopLoop]) -> bool:
        """Return whether no message's time has passed; queue the others of a batch again by themselves."""
        late = [message for message in work.messages if self._receipts.is_expired(message)]
        if not late:
            return True
        _log.warning("not handled in time, they are delivered again: %s", ids(work._replace(messages=late)))
        work.source.done(late)
        if in_time := [message for message in work.messages if message not in late]:
            self.put(work.source, in_time)
        return False

    def _succeed(self, work: Work[PopLoop]) -> None:
        work.source.done(work.messages)
        for message in work.messages:
            self._ack(message)

    async def _fail(self, work: Work[PopLoop], delay_level: int) -> None:
        work.source.done(work.messages)
        for message in work.messages:
            if delay_level == DEAD_LETTER or message.reconsume_times >= self._max_reconsume_times:
                await self._bury(work.source, message)
            else:
                await self._hide(message, retry_delay_ms(message, delay_level))

    async def _bury(self, loop: PopLoop, message: StoredMessage) -> None:
        """Send a message to the dead letters, and acknowledge it."""
        try:
            self._receipts.find(message)
            await self._send_back.send(loop.queue, message, DEAD_LETTER)
        except CometMQError as error:
            _log.warning("no dead letter, the message comes again: %s: %s", message.message_id, error)
        else:
            self._ack(message)

    async def _hide(self, message: StoredMessage, invisible_ms: int, *, counts: bool = True) -> None:
        """Hide a message for a time, after which it is delivered again."""
        try:
            handle = self._receipts.find(message)
            await self._requests.change_invisible(message.topic, handle, invisible_ms, counts=counts)
        except CometMQError as error:
            _log.warning("a message comes again at another time: %s: %s", message.message_id, error)

    def _ack(self, message: StoredMessage) -> None:
        """Acknowledge a message, together with others of this turn of the loop."""
        if not self._to_ack:
            asyncio.get_running_loop().call_soon(self._send_acks)
        self._to_ack[message.topic].append(message)

    def _send_acks(self) -> None:
        for topic, messages in self._to_ack.items():
            self._start(self._ack_all(topic, messages))
        self._to_ack.clear()

    async def _ack_all(self, topic: str, messages: list[StoredMessage]) -> None:
        handles = []
        for message in messages:
            try:
                handles.append(self._receipts.find(message))
            except ReceiptExpired as error:
                _log.warning("handled too late: %s", error)
        try:
            await self._requests.ack_all(topic, handles)
        except CometMQError as error:
            _log.warning("%d handled messages come again, not acknowledged: %s", len(handles), error)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="acknowledge")
        self._acking.add(task)
        task.add_done_callback(self._acking.discard)


def retry_delay_ms(message: StoredMessage, delay_level: int) -> int:
    """Return how long to hide a message whose handler raised: at level 0 longer with each delivery.

    The delays are those of RocketMQ's default levels, with and without pops: 10 s, 30 s, 1 min … 2 h.
    """
    level = delay_level or FIRST_DELAY_LEVEL + message.reconsume_times
    return DELAYS.delays_ms[DELAYS.nearest(level) - 1]
