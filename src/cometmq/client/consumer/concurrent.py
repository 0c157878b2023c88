"""Handle messages concurrently, by workers that all queues share.

When a handler returns, its messages are done. When it raises they are sent back to the broker, which delivers
them again later; they are done here when the broker has accepted them.
(RocketMQ: ConsumeMessageConcurrentlyService.java.)
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from msgspec.structs import replace

from cometmq.client.consumer.outcome import DeadLetter, Retry
from cometmq.client.consumer.pulling import Pulling
from cometmq.client.consumer.send_back import DEAD_LETTER, SendBack
from cometmq.client.consumer.subscription import Handle, Subscription, unhandled
from cometmq.errors import CometMQError, UndecodableBody
from cometmq.message import StoredMessage

LOCAL_RETRY_S: Final = 5.0
"""How soon a message is handled here again that could not be sent back."""

_log = logging.getLogger(__name__)


class Work(NamedTuple):
    """A batch of messages for one call of a handler."""

    pulling: Pulling
    subscription: Subscription
    messages: list[StoredMessage]


class ConcurrentHandling:
    """The workers of one consumer.

    Args:
        find: returns the subscription of a topic, or None.
        slots: limits how many handlers run at a time.
        handle: calls a handler with messages.
        send_back: None for broadcasting, where failed messages are dropped.
    """

    def __init__(
        self,
        find: Callable[[str], Subscription | None],
        slots: asyncio.Semaphore,
        workers: int,
        handle: Handle,
        send_back: SendBack | None,
    ) -> None:
        self._find = find
        self._slots = slots
        self._call_handler = handle
        self._send_back = send_back
        self._work: asyncio.Queue[Work | None] = asyncio.Queue()
        self._workers = workers
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False

    def start(self) -> None:
        """Start the workers."""
        self._tasks = [asyncio.create_task(self._run(), name=f"worker {i}") for i in range(self._workers)]

    def request_stop(self) -> None:
        """Start no further handler."""
        self._stopping = True
        for _ in self._tasks:
            self._work.put_nowait(None)  # wakes one that waits

    async def finish(self, timeout_s: float) -> bool:
        """Wait for the running handlers after ``request_stop``; cancel them after the timeout.

        Returns whether all ended in time.
        """
        if not self._tasks:
            return True
        _, late = await asyncio.wait(self._tasks, timeout=timeout_s)
        for task in late:
            task.cancel()
        await asyncio.wait(self._tasks)
        return not late

    def put(self, pulling: Pulling, messages: list[StoredMessage]) -> None:
        """Queue pulled messages for the workers."""
        for work in self._split(pulling, messages):
            self._work.put_nowait(work)

    def _split(self, pulling: Pulling, messages: list[StoredMessage]) -> Iterator[Work]:
        for topic, same in groupby(messages, key=attrgetter("topic")):
            of_topic = list(same)
            subscription = self._find(topic) or unhandled(topic)
            size = subscription.batch_size or 1
            for at in range(0, len(of_topic), size):
                yield Work(pulling, subscription, of_topic[at : at + size])

    async def _run(self) -> None:
        while not self._stopping:
            work = await self._work.get()
            if work is None or work.pulling.stopped:
                continue
            async with self._slots:
                if not self._stopping:
                    await self._handle(work)

    async def _handle(self, work: Work) -> None:
        delay_level = 0
        try:
            await self._call_handler(work.subscription, work.messages)
        except Retry as retry:
            delay_level = retry.delay_level
        except DeadLetter:
            delay_level = DEAD_LETTER
        except Exception as error:  # noqa: BLE001 the application's handler may raise anything
            if isinstance(error, UndecodableBody) and len(work.messages) > 1:
                self._put_singly(work)
                return
            _log.warning("a handler failed, the message comes again: %s", _ids(work), exc_info=True)
        else:
            work.pulling.done(work.messages)
            return
        if self._send_back is None:
            _log.warning("dropped, as broadcasting has no retries: %s", _ids(work))
            work.pulling.done(work.messages)
        elif not work.pulling.stopped:  # else the queue's next owner pulls them anyway
            for message in work.messages:
                await self._send_back_one(self._send_back, work, message, delay_level)

    def _put_singly(self, work: Work) -> None:
        """Queue the messages of a batch one by one: one bad body, or too large ones, must not fail all."""
        for message in work.messages:
            self._work.put_nowait(work._replace(messages=[message]))

    async def _send_back_one(
        self, send_back: SendBack, work: Work, message: StoredMessage, delay_level: int
    ) -> None:
        try:
            await send_back.send(work.pulling.queue, message, delay_level)
        except CometMQError as error:
            _log.warning("not sent back, it is handled here again: %s: %s", message.message_id, error)
            again = replace(message, reconsume_times=message.reconsume_times + 1)
            asyncio.get_running_loop().call_later(LOCAL_RETRY_S, self.put, work.pulling, [again])
        else:
            work.pulling.done([message])


def _ids(work: Work) -> str:
    return ", ".join(message.message_id for message in work.messages)
