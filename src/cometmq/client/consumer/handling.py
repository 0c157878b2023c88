"""Handling messages concurrently: some workers for all queues, and what follows from what a handler does.

A handler that returns has handled its messages. One that raises has not: the messages are sent back, to come
again later, and only when the broker has taken them do they count as done here.
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

HERE_AGAIN_S: Final = 5.0
"""How soon a message is handled again that could not be sent back."""

_log = logging.getLogger(__name__)


class Work(NamedTuple):
    """Messages that a handler gets at once."""

    pulling: Pulling
    subscription: Subscription
    messages: list[StoredMessage]


class Handling:
    """The workers.

    Args:
        find: gives the subscription of a topic, or None.
        slots: limits how many handlers run at a time.
        handle: lets a handler have messages.
        send_back: None for broadcasting, where messages that fail are dropped.
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
        self._hand_out = handle
        self._send_back = send_back
        self._work: asyncio.Queue[Work | None] = asyncio.Queue()
        self._workers = workers
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False

    def begin(self) -> None:
        """Let the workers begin."""
        self._tasks = [asyncio.create_task(self._run(), name=f"worker {i}") for i in range(self._workers)]

    def refuse(self) -> None:
        """Begin nothing new from now on."""
        self._stopping = True
        for _ in self._tasks:
            self._work.put_nowait(None)  # wakes one that waits

    async def finish(self, timeout_s: float) -> bool:
        """Wait for what is being handled after a refusal, or cancel it when the time is up.

        Returns whether all came to its end.
        """
        if not self._tasks:
            return True
        _, late = await asyncio.wait(self._tasks, timeout=timeout_s)
        for task in late:
            task.cancel()
        await asyncio.wait(self._tasks)
        return not late

    def put(self, pulling: Pulling, messages: list[StoredMessage]) -> None:
        """Take messages that were pulled, to be handled soon."""
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
            await self._hand_out(work.subscription, work.messages)
        except Retry as retry:
            delay_level = retry.delay_level
        except DeadLetter:
            delay_level = DEAD_LETTER
        except Exception as error:  # noqa: BLE001 a handler is not ours: whatever it raises means that it failed
            if isinstance(error, UndecodableBody) and len(work.messages) > 1:
                self._put_singly(work)
                return
            _log.warning("a handler failed, the message comes again: %s", _names(work), exc_info=True)
        else:
            work.pulling.done(work.messages)
            return
        if self._send_back is None:
            _log.warning("dropped, as broadcasting has no retries: %s", _names(work))
            work.pulling.done(work.messages)
        elif not work.pulling.stopped:  # else whoever has the queue now gets them anyway
            for message in work.messages:
                await self._give_back(self._send_back, work, message, delay_level)

    def _put_singly(self, work: Work) -> None:
        """Handle the messages of a batch one by one: a body that is none must not fail those beside it.

        So it is too with bodies that are too large together.
        """
        for message in work.messages:
            self._work.put_nowait(work._replace(messages=[message]))

    async def _give_back(
        self, send_back: SendBack, work: Work, message: StoredMessage, delay_level: int
    ) -> None:
        try:
            await send_back.again(work.pulling.queue, message, delay_level)
        except CometMQError as error:
            _log.warning("not sent back, it is tried here again soon: %s: %s", message.message_id, error)
            again = replace(message, reconsume_times=message.reconsume_times + 1)
            asyncio.get_running_loop().call_later(HERE_AGAIN_S, self.put, work.pulling, [again])
        else:
            work.pulling.done([message])


def _names(work: Work) -> str:
    return ", ".join(message.message_id for message in work.messages)
