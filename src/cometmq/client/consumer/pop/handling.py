"""Handle popped messages concurrently.

When a handler returns, its messages are acknowledged. When it raises, they are hidden for a time that grows
with each delivery, and then delivered again. (RocketMQ: ConsumeMessagePopConcurrentlyService.java.)
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Container, Coroutine
from typing import Any

from cometmq.client.consumer.pop.loop import PopLoop
from cometmq.client.consumer.pop.receipts import PopReceipts, is_from
from cometmq.client.handling.concurrent import Work, Workers, ids
from cometmq.client.handling.failure_log import DEAD, FailureLog, again_in
from cometmq.client.handling.outcome import DeadLetter
from cometmq.client.handling.send_back import DEAD_LETTER, SendBack, level_of, retry_delay_ms
from cometmq.client.handling.subscription import Handle, Subscription
from cometmq.client.requests.pop_requests import PopRequests
from cometmq.errors import CometMQError, ReceiptExpired
from cometmq.logs import get_logger
from cometmq.message import MessageQueue, StoredMessage

_log = get_logger(__name__)


class PopHandling(Workers[PopLoop]):
    """The workers of one consumer that pops.

    Args:
        find, slots, workers, handle, log: as for ``Workers``.
        requests: acknowledge messages, and hide them.
        send_back: makes dead letters of messages.
    """

    def __init__(
        self,
        find: Callable[[str], Subscription | None],
        slots: asyncio.Semaphore,
        workers: int,
        handle: Handle,
        log: FailureLog,
        *,
        requests: PopRequests,
        receipts: PopReceipts,
        send_back: SendBack,
    ) -> None:
        super().__init__(find, slots, workers, handle, log)
        self._requests = requests
        self._receipts = receipts
        self._send_back = send_back
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

    async def _fail(self, work: Work[PopLoop], error: Exception) -> None:
        level = level_of(error)

        def outlook(message: StoredMessage) -> str:
            return DEAD if self._log.is_last_try(message) else again_in(retry_delay_ms(message, level))

        self._log.failed(work.messages, error, outlook)
        work.source.done(work.messages)
        for message in work.messages:
            if isinstance(error, DeadLetter) or self._log.is_last_try(message):
                await self._bury(work.source, message, error)
            else:
                await self._hide(message, retry_delay_ms(message, level))

    async def _bury(self, loop: PopLoop, message: StoredMessage, error: Exception) -> None:
        """Send a message to the dead letters, and acknowledge it."""
        try:
            self._receipts.find(message)
            await self._send_back.send(loop.queue, message, DEAD_LETTER)
        except CometMQError as failure:
            _log.warning("no dead letter, the message comes again: %s: %s", message.message_id, failure)
        else:
            self._log.dead_letter(message, error)
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
