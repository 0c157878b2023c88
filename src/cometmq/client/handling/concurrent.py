"""Handle messages concurrently, by workers that all queues share.

When a handler returns, its messages are done. When it raises, pulled messages are sent back to the broker,
which delivers them again later; they are done here when the broker has accepted them.
(RocketMQ: ConsumeMessageConcurrentlyService.java.)
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from cometmq.client.background import start_task
from cometmq.client.handling.failure_log import DEAD, FailureLog, again_in
from cometmq.client.handling.outcome import DeadLetter
from cometmq.client.handling.pulling import Pulling
from cometmq.client.handling.send_back import SendBack, level_of, retry_delay_ms
from cometmq.client.handling.subscription import Handle, Subscription, unhandled
from cometmq.errors import CometMQError, UndecodableBody
from cometmq.logs import get_logger
from cometmq.message import StoredMessage

LOCAL_RETRY_S: Final = 5.0
"""How soon a message is handled here again that could not be sent back."""

_log = get_logger(__name__)


SourceT = TypeVar("SourceT")


class Work(NamedTuple, Generic[SourceT]):
    """A batch of messages for one call of a handler, and where they came from."""

    source: SourceT
    subscription: Subscription
    messages: list[StoredMessage]


class Workers(ABC, Generic[SourceT]):
    """The workers of one consumer.

    Args:
        find: returns the subscription of a topic, or None.
        slots: limits how many handlers run at a time.
        handle: calls a handler with messages.
        log: logs failures.
    """

    def __init__(
        self,
        find: Callable[[str], Subscription | None],
        slots: asyncio.Semaphore,
        workers: int,
        handle: Handle,
        log: FailureLog,
    ) -> None:
        self._log = log
        self._find = find
        self._slots = slots
        self._call_handler = handle
        self._work: asyncio.Queue[Work[SourceT] | None] = asyncio.Queue()
        self._workers = workers
        self._tasks: list[asyncio.Task[None]] = []
        self._handled: dict[asyncio.Task[Any] | None, Work[SourceT]] = {}
        """The batch that each worker is handling, unless it is done already."""
        self._stopping = False

    def start(self) -> None:
        """Start the workers."""
        self._tasks = [start_task(self._run(), f"worker {i}") for i in range(self._workers)]

    def request_stop(self) -> None:
        """Start no further handler."""
        self._stopping = True
        for _ in self._tasks:
            self._work.put_nowait(None)  # wakes one that waits

    async def finish(self, timeout_s: float, own: AbstractSet[asyncio.Task[Any]] = frozenset()) -> bool:
        """Wait for the running handlers after ``request_stop``; cancel them after the timeout.

        The messages of ``own``, whose handler calls this, are done, and it is not waited for.

        Returns whether all ended in time.
        """
        for task in own & set(self._tasks):
            if (work := self._handled.pop(task, None)) is not None:
                self._succeed(work)
        others = set(self._tasks).difference(own)
        if not others:
            return True
        _, late = await asyncio.wait(others, timeout=timeout_s)
        for task in late:
            task.cancel()
        await asyncio.wait(others)
        return not late

    def put(self, source: SourceT, messages: list[StoredMessage]) -> None:
        """Queue messages for the workers."""
        for work in self._split(source, messages):
            self._work.put_nowait(work)

    def _split(self, source: SourceT, messages: list[StoredMessage]) -> Iterator[Work[SourceT]]:
        for topic, same in groupby(messages, key=attrgetter("topic")):
            of_topic = list(same)
            subscription = self._find(topic) or unhandled(topic)
            size = subscription.batch_size or 1
            for at in range(0, len(of_topic), size):
                yield Work(source, subscription, of_topic[at : at + size])

    async def _run(self) -> None:
        while not self._stopping:
            work = await self._work.get()
            if work is None:
                continue
            async with self._slots:
                if self._stopping:
                    self._work.put_nowait(work)  # for whoever hands back what was not handled
                elif self._is_wanted(work):
                    await self._handle(work)

    async def _handle(self, work: Work[SourceT]) -> None:
        error: Exception | None = None
        task = asyncio.current_task()
        self._handled[task] = work
        try:
            await self._call_handler(work.subscription, work.messages)
        except Exception as raised:  # noqa: BLE001 the application's handler may raise anything
            if isinstance(raised, UndecodableBody) and len(work.messages) > 1:
                self._put_singly(work)
                return
            error = raised
        if self._handled.pop(task, None) is None:  # the handler has stopped its consumer
            if error is not None:
                self._log.failed(work.messages, error, lambda _: "done, as it stopped the consumer before")
        elif error is None:
            self._succeed(work)
        else:
            await self._fail(work, error)

    def _put_singly(self, work: Work[SourceT]) -> None:
        """Queue the messages of a batch one by one: one bad body, or too large ones, must not fail all."""
        for message in work.messages:
            self._work.put_nowait(work._replace(messages=[message]))

    @abstractmethod
    def _is_wanted(self, work: Work[SourceT]) -> bool:
        """Return whether messages that have waited are still to be handled here."""

    @abstractmethod
    def _succeed(self, work: Work[SourceT]) -> None:
        """Finish messages whose handler has returned."""

    @abstractmethod
    async def _fail(self, work: Work[SourceT], error: Exception) -> None:
        """Log the failure, and return messages to be delivered again, or as dead letters."""


class ConcurrentHandling(Workers[Pulling]):
    """The workers of one consumer that pulls.

    Args:
        find, slots, workers, handle, log: as for ``Workers``.
        send_back: None for broadcasting, where failed messages are dropped.
    """

    def __init__(
        self,
        find: Callable[[str], Subscription | None],
        slots: asyncio.Semaphore,
        workers: int,
        handle: Handle,
        log: FailureLog,
        send_back: SendBack | None,
    ) -> None:
        super().__init__(find, slots, workers, handle, log)
        self._send_back = send_back

    def _is_wanted(self, work: Work[Pulling]) -> bool:
        """Return whether the messages still wait; else the queue has another owner, or its offset was reset.

        What is left of a batch is queued again by itself.
        """
        left = [message for message in work.messages if work.source.is_waiting(message)]
        if len(left) == len(work.messages):
            return True
        if left:
            self.put(work.source, left)
        return False

    def _succeed(self, work: Work[Pulling]) -> None:
        work.source.done(work.messages)

    async def _fail(self, work: Work[Pulling], error: Exception) -> None:
        if self._send_back is None:
            self._log.dropped(work.messages, error)
            work.source.done(work.messages)
        elif work.source.stopped:
            self._log.failed(work.messages, error, lambda _: "delivered again to the queue's next owner")
        else:
            level = level_of(error)

            def outlook(message: StoredMessage) -> str:
                return DEAD if self._log.is_last_try(message) else again_in(retry_delay_ms(message, level))

            self._log.failed(work.messages, error, outlook)
            for message in work.messages:
                await self._send_back_one(self._send_back, work, message, error)

    async def _send_back_one(
        self, send_back: SendBack, work: Work[Pulling], message: StoredMessage, error: Exception
    ) -> None:
        try:
            await send_back.send(work.source.queue, message, level_of(error))
        except CometMQError as failure:
            _log.warning("not sent back, it is handled here again: %s: %s", message.message_id, failure)
            again = replace(message, reconsume_times=message.reconsume_times + 1)
            asyncio.get_running_loop().call_later(LOCAL_RETRY_S, self.put, work.source, [again])
        else:
            if isinstance(error, DeadLetter) or self._log.is_last_try(message):
                self._log.dead_letter(message, error)
            work.source.done([message])


def ids(work: Work[SourceT]) -> str:
    """Return the ids of a batch's messages, for a log."""
    return ", ".join(message.message_id for message in work.messages)
