"""Handling a queue's messages in order: one after the other, while this member holds the queue's lock.

A message that fails keeps its place: the queue pauses, then it comes again, since nothing behind it may
overtake it. Only after a limit of tries, which by default there is not, it goes to the dead letters.
(RocketMQ: ConsumeMessageOrderlyService.java.)
"""

import asyncio
import logging
from collections.abc import Callable
from itertools import takewhile
from typing import Final, NamedTuple

from msgspec.structs import replace

from cometmq.client.consumer.outcome import DeadLetter, PutOff, Retry
from cometmq.client.consumer.pulling import AFTER_FAILURE_S, Pulling
from cometmq.client.consumer.send_back import DEAD_LETTER, SendBack
from cometmq.client.consumer.subscription import Handle, Subscription, unhandled
from cometmq.client.waiting import wait_within
from cometmq.errors import CometMQError, UndecodableBody
from cometmq.message import StoredMessage

SUSPEND_MS: Final = 1_000

_log = logging.getLogger(__name__)


class OrderedOptions(NamedTuple):
    """How failures of ordered messages are met.

    Attributes:
        suspend_ms: how long a queue pauses after a failure.
        max_reconsume_times: after so many tries more a message is a dead letter; None for never.
    """

    suspend_ms: int = SUSPEND_MS
    max_reconsume_times: int | None = None


class OrderedHandling:
    """The handling of one queue.

    Args:
        find: gives the subscription of a topic, or None.
        holds: whether the queue's lock is ours now.
        handle: lets a handler have messages.
        send_back: takes dead letters; None for broadcasting, where they are dropped.
    """

    def __init__(
        self,
        pulling: Pulling,
        find: Callable[[str], Subscription | None],
        holds: Callable[[], bool],
        slots: asyncio.Semaphore,
        handle: Handle,
        send_back: SendBack | None,
        options: OrderedOptions,
    ) -> None:
        self._pulling = pulling
        self._find = find
        self._holds = holds
        self._slots = slots
        self._hand_out = handle
        self._send_back = send_back
        self._options = options
        self._arrived = asyncio.Event()
        self._stopped = asyncio.Event()
        self._failures = 0
        self._failed: list[int] = []
        """The queue offsets of those that come again, together and with no others: they failed last."""
        self._task = asyncio.create_task(self._run(), name=f"handle {pulling.queue}")

    def wake(self) -> None:
        """Look at what waits: messages came."""
        self._arrived.set()

    def refuse(self) -> None:
        """Begin with no further message."""
        self._stopped.set()
        self._arrived.set()

    async def finish(self, timeout_s: float | None = None) -> bool:
        """Wait until the message that is being handled is, after a refusal; cancel it when the time is up.

        Returns whether it came to its end.
        """
        _, late = await asyncio.wait((self._task,), timeout=timeout_s)
        self._task.cancel()
        await asyncio.wait((self._task,))
        return not late

    async def _run(self) -> None:
        while not self._stopped.is_set():
            batch = self._next()
            if batch is None:
                self._arrived.clear()
                await self._arrived.wait()
            elif not self._holds():
                await self._pause(AFTER_FAILURE_S)
            else:
                async with self._slots:
                    pause_s = await self._handle(*batch) if self._holds() else 0.0
                await self._pause(pause_s)

    def _next(self) -> tuple[Subscription, list[StoredMessage]] | None:
        """Give the first messages and what is to be done with them."""
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
        """Handle messages; give how many seconds the queue shall pause."""
        offsets = [message.queue_offset for message in messages]
        if offsets != self._failed:  # the queue goes on at another offset: those were never tried
            self._forget_failures()
        again = [
            replace(message, reconsume_times=message.reconsume_times + self._failures) for message in messages
        ]
        suspend_ms: int | None = None
        try:
            await self._hand_out(subscription, again)
        except DeadLetter:
            return await self._give_up(messages, again)
        except PutOff:
            return self._options.suspend_ms / 1000
        except Retry as retry:
            suspend_ms = retry.suspend_ms
        except Exception as error:  # noqa: BLE001 a handler is not ours: whatever it raises means that it failed
            if isinstance(error, UndecodableBody) and len(messages) > 1:
                self._failed = offsets[:1]  # comes alone now: a bad body must not fail those beside it
                return 0.0
            _log.warning("a handler failed, %s pauses", self._pulling.queue, exc_info=True)
        else:
            self._done(messages)
            return 0.0
        limit = self._options.max_reconsume_times
        if limit is not None and again[0].reconsume_times >= limit:
            return await self._give_up(messages, again)
        self._failures += 1
        self._failed = offsets
        return (self._options.suspend_ms if suspend_ms is None else suspend_ms) / 1000

    async def _give_up(self, messages: list[StoredMessage], again: list[StoredMessage]) -> float:
        """Send messages to the dead letters; if no broker takes them, they are tried again here."""
        try:
            if self._send_back is not None:
                for message in again:
                    await self._send_back.whole(message, DEAD_LETTER)
        except CometMQError as error:
            _log.warning("no dead letter could be sent, %s pauses: %s", self._pulling.queue, error)
            return self._options.suspend_ms / 1000
        self._done(messages)
        return 0.0

    def _done(self, messages: list[StoredMessage]) -> None:
        self._forget_failures()
        self._pulling.done(messages)

    def _forget_failures(self) -> None:
        self._failures = 0
        self._failed = []

    async def _pause(self, seconds: float) -> None:
        """Wait, but not longer than until the queue is given up."""
        if seconds > 0:
            await wait_within(self._stopped, seconds)
