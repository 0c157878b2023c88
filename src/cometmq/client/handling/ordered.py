"""Handle a queue's messages in order: one after the other, while this member holds the queue's lock.

After a failure the queue pauses and then handles the same message again, since no later one may overtake it.
Only after a limit of retries, by default none, it becomes a dead letter.
(RocketMQ: ConsumeMessageOrderlyService.java.)
"""

import asyncio
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from itertools import takewhile
from typing import Any, Final

from msgspec.structs import replace

from cometmq.client.background import start_task
from cometmq.client.handling.failure_log import DEAD, FailureLog, again_in
from cometmq.client.handling.outcome import DeadLetter, PutOff, Retry
from cometmq.client.handling.pulling import AFTER_FAILURE_S, Pulling
from cometmq.client.handling.send_back import DEAD_LETTER, SendBack
from cometmq.client.handling.subscription import Handle, Subscription, unhandled
from cometmq.client.waiting import wait_within
from cometmq.errors import CometMQError, UndecodableBody
from cometmq.logs import get_logger
from cometmq.message import StoredMessage

SUSPEND_MS: Final = 1_000

_log = get_logger(__name__)


class OrderedHandling:
    """The handling of one queue.

    Args:
        find: returns the subscription of a topic, or None.
        holds: returns whether we hold the queue's lock.
        handle: calls a handler with messages.
        send_back: sends dead letters; None for broadcasting, where they are dropped.
        suspend_ms: how long a queue pauses after a failure.
        log: logs failures, and says which try is a message's last one.
    """

    def __init__(
        self,
        pulling: Pulling,
        find: Callable[[str], Subscription | None],
        holds: Callable[[], bool],
        slots: asyncio.Semaphore,
        handle: Handle,
        send_back: SendBack | None,
        suspend_ms: int,
        log: FailureLog,
    ) -> None:
        self._pulling = pulling
        self._find = find
        self._holds = holds
        self._slots = slots
        self._call_handler = handle
        self._send_back = send_back
        self._suspend_ms = suspend_ms
        self._log = log
        self._arrived = asyncio.Event()
        self._stopped = asyncio.Event()
        self._failures = 0
        self._handled: list[StoredMessage] = []
        self._failed: list[int] = []
        """The queue offsets of the batch that failed last: it is retried with exactly these messages."""
        self._task = start_task(self._run(), f"handling of {pulling.queue}")

    def wake(self) -> None:
        """Look for messages: some have arrived."""
        self._arrived.set()

    def request_stop(self) -> None:
        """Start to handle no further message."""
        self._stopped.set()
        self._arrived.set()

    async def finish(
        self, timeout_s: float | None = None, own: AbstractSet[asyncio.Task[Any]] = frozenset()
    ) -> bool:
        """Wait for the running handler after ``request_stop``; cancel it after the timeout.

        The messages of ``own``, whose handler calls this, are done, and it is not waited for.

        Returns whether it ended in time.
        """
        if self._task in own:
            self._done(self._handled)
            self._handled = []
            return True
        _, late = await asyncio.wait((self._task,), timeout=timeout_s)
        self._task.cancel()
        await asyncio.wait((self._task,))
        return not late

    async def _run(self) -> None:
        while not self._stopped.is_set():
            batch = self._next_batch()
            if batch is None:
                self._arrived.clear()
                await self._arrived.wait()
            elif not self._holds():
                await self._pause(AFTER_FAILURE_S)
            else:
                async with self._slots:
                    pause_s = await self._handle(*batch) if self._holds() else 0.0
                await self._pause(pause_s)

    def _next_batch(self) -> tuple[Subscription, list[StoredMessage]] | None:
        """Return the first messages that wait, and their subscription."""
        waiting = self._pulling.waiting
        if waiting is None or not (first := waiting.head(1)):
            return None
        topic = first[0].topic
        subscription = self._find(topic)
        if subscription is None:
            return unhandled(topic), first
        batch = waiting.head(len(self._failed) or subscription.batch_size or 1)
        return subscription, list(takewhile(lambda message: message.topic == topic, batch))

    async def _handle(self, subscription: Subscription, messages: list[StoredMessage]) -> float:
        """Handle messages; return for how many seconds the queue has to pause."""
        offsets = [message.queue_offset for message in messages]
        if offsets != self._failed:  # the offset was reset: this batch has not failed
            self._reset_failures()
        again = [
            replace(message, reconsume_times=message.reconsume_times + self._failures) for message in messages
        ]
        self._handled = messages
        try:
            await self._call_handler(subscription, again)
        except Exception as error:  # noqa: BLE001 the application's handler may raise anything
            if isinstance(error, UndecodableBody) and len(messages) > 1:
                self._failed = offsets[:1]  # the first comes alone now: a bad body must not fail the others
                return 0.0
            return await self._fail(messages, again, error)
        self._done(messages)
        return 0.0

    async def _fail(
        self, messages: list[StoredMessage], again: list[StoredMessage], error: Exception
    ) -> float:
        """Log a failure; return for how many seconds the queue has to pause.

        Args:
            again: the messages with the number of their retries.
        """
        if not self._handled:
            self._log.failed(again, error, lambda _: "done, as it stopped the consumer before")
            return 0.0
        pause_ms = self._suspend_ms
        if isinstance(error, PutOff):
            return pause_ms / 1000
        if isinstance(error, DeadLetter) or self._log.is_last_try(again[0]):
            return await self._send_to_dead_letters(messages, again, error)
        if isinstance(error, Retry) and error.suspend_ms is not None:
            pause_ms = error.suspend_ms
        queue = f"{self._pulling.queue.broker_name}, queue {self._pulling.queue.queue_id}"
        self._log.failed(again, error, lambda _: f"{again_in(pause_ms)}, {queue} pauses until then")
        self._failures += 1
        self._failed = [message.queue_offset for message in messages]
        return pause_ms / 1000

    async def _send_to_dead_letters(
        self, messages: list[StoredMessage], again: list[StoredMessage], error: Exception
    ) -> float:
        """Send messages as dead letters; if no broker accepts them, they are handled again after a pause."""
        if self._send_back is None:
            self._log.dropped(again, error)
            self._done(messages)
            return 0.0
        self._log.failed(again, error, lambda _: DEAD)
        try:
            for message in again:
                await self._send_back.send_whole(message, DEAD_LETTER)
                self._log.dead_letter(message, error)
        except CometMQError as failure:
            _log.warning("no dead letter could be sent, %s pauses: %s", self._pulling.queue, failure)
            return self._suspend_ms / 1000
        self._done(messages)
        return 0.0

    def _done(self, messages: list[StoredMessage]) -> None:
        self._reset_failures()
        self._pulling.done(messages)

    def _reset_failures(self) -> None:
        self._failures = 0
        self._failed = []

    async def _pause(self, seconds: float) -> None:
        """Wait, at most until the queue is released."""
        if seconds > 0:
            await wait_within(self._stopped, seconds)
