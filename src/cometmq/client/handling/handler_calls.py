"""Calls of the handlers of one push consumer, with decompressed messages."""

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from cometmq.client.calling import calling_tasks
from cometmq.client.handling.consume_trace import ConsumeTracer
from cometmq.client.handling.handle_hooks import HandleHooks
from cometmq.client.handling.outcome import DeadLetter, Retry
from cometmq.client.handling.subscription import Subscription, unhandled
from cometmq.client.requests.bodies import BodyLimit, decompress_all
from cometmq.format.properties import RETRY_TOPIC
from cometmq.io.clock import Clock
from cometmq.message import StoredMessage
from cometmq.wire.bodies.running import ConsumedDirectly, ConsumeResult


class HandlerCalls:
    """Calls handlers, plain functions in threads.

    Args:
        subscriptions: by topic.
        concurrency_max: how many handlers run at a time.
        hooks: observe each call.

    Attributes:
        slots: limits how many handlers run at a time.
        tracer: records each call; None without traces.
    """

    def __init__(
        self,
        subscriptions: Mapping[str, Subscription],
        concurrency_max: int,
        clock: Clock,
        hooks: HandleHooks | None = None,
    ) -> None:
        self.slots = asyncio.Semaphore(concurrency_max)
        self.tracer: ConsumeTracer | None = None
        self._subscriptions = subscriptions
        self._pool = ThreadPoolExecutor(concurrency_max, "cometmq-handler")
        self._bodies = BodyLimit()
        self._clock = clock
        self._hooks = hooks or HandleHooks()
        self._running: set[asyncio.Task[Any] | None] = set()

    def is_caller(self) -> bool:
        """Return whether this is called from within a handler that is called here."""
        return not self._running.isdisjoint(calling_tasks())

    async def handle(self, subscription: Subscription, messages: list[StoredMessage]) -> None:
        """Call a handler with decompressed messages; the caller has a slot.

        Raises what the handler raises, and UndecodableBody, which counts as if it had.
        """
        async with self._bodies.decompressed(messages) as whole:
            with self._entered(), self._hooks.around(whole):
                handling = subscription.handle(list(whole), self._pool)
                await (handling if self.tracer is None else self.tracer.watch(messages, handling))

    async def handle_directly(self, message: StoredMessage) -> ConsumedDirectly:
        """Call a handler with a message that an operator sends; no offset changes."""
        if message.topic not in self._subscriptions:  # a retry or a dead letter
            message = replace(message, topic=message.properties.get(RETRY_TOPIC, message.topic))
        subscription = self._subscriptions.get(message.topic) or unhandled(message.topic)
        began_ms = self._clock.monotonic_ms()
        result, remark = ConsumeResult.SUCCESS, None
        async with self.slots:
            try:
                with self._entered():
                    await subscription.handle(decompress_all([message]), self._pool)
            except (Retry, DeadLetter) as outcome:
                result, remark = ConsumeResult.LATER, str(outcome)
            except Exception as error:  # noqa: BLE001 the application's handler may raise anything
                result, remark = ConsumeResult.THROW_EXCEPTION, repr(error)
        spent_ms = self._clock.monotonic_ms() - began_ms
        return ConsumedDirectly(result, subscription.ordered, remark=remark, spent_ms=spent_ms)

    @contextmanager
    def _entered(self) -> Iterator[None]:
        task = asyncio.current_task()
        self._running.add(task)
        try:
            yield
        finally:
            self._running.discard(task)

    def shutdown(self) -> None:
        """End the threads, without a wait for the handlers that run."""
        self._pool.shutdown(wait=False)
