"""A running push consumer that pops: a member of its group, and the handling of the messages that it pops."""

import asyncio
from collections.abc import Container, Mapping
from typing import Any

from cometmq.client.background import start_task
from cometmq.client.calling import calling_tasks
from cometmq.client.consumer.consumption import ConsumerSettings
from cometmq.client.consumer.pop.assignments import PopAssignments
from cometmq.client.consumer.pop.handling import PopHandling
from cometmq.client.consumer.pop.loop import HOLD_MS, PopLoop, PopSource
from cometmq.client.consumer.pop.receipts import PopReceipts
from cometmq.client.group.pop_membership import PopMembership
from cometmq.client.handling.consume_trace import ConsumeTracer
from cometmq.client.handling.failure_log import FailureLog
from cometmq.client.handling.handler_calls import HandlerCalls
from cometmq.client.handling.send_back import SendBack
from cometmq.client.handling.subscription import Subscription
from cometmq.client.producer.trace import trace_sender
from cometmq.client.requests.pop_requests import PopOptions
from cometmq.format.pop.names import POP_COUNT_MAX
from cometmq.logs import get_logger
from cometmq.message import MessageQueue
from cometmq.wire.bodies.heartbeat import ConsumeFromWhere, SubscriptionData

_log = get_logger(__name__)


class PopConsumption:
    """A running consumer that pops.

    Args:
        invisible_ms: how long popped messages are hidden from the other members.
        subscriptions: by topic; call ``resubscribe`` after a change.

    Attributes:
        twins: how many other members have the same client id: they do no harm where no queue has an owner.
    """

    twins = 0

    def __init__(
        self, settings: ConsumerSettings, invisible_ms: int, subscriptions: Mapping[str, Subscription]
    ) -> None:
        self._settings = settings
        self._subscriptions = subscriptions
        member = settings.member
        self._calls = HandlerCalls(subscriptions, settings.max_concurrency, member.clock, settings.hooks)
        self._member = PopMembership(
            member,
            self._data(),
            consume_directly=self._calls.handle_directly,
            on_change=self._query_soon,
            on_reset=self._drop,
        )
        self._receipts = PopReceipts(member.clock)
        count = min(POP_COUNT_MAX, settings.pull.max_count)
        is_first = member.where is ConsumeFromWhere.FIRST_OFFSET
        options = PopOptions(count, invisible_ms, min(HOLD_MS, settings.pull.hold_ms), is_first)
        self._source = PopSource(self._member.requests, self._receipts, options, settings.pull.limits)
        self._handling = self._new_handling()
        self._assignments = PopAssignments(self._member, member, subscriptions, self._new_loop)
        if settings.trace:
            connections, routes = self._member.connections, self._member.routes
            send = trace_sender(connections, routes, f"{member.group}-SUB-1", member.clock)
            self._calls.tracer = ConsumeTracer(send, member.group, member.clock)
        self._task: asyncio.Task[None] | None = None

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this member pops; queue id -1 stands for all queues of a topic on a broker."""
        return self._assignments.queues

    async def start(self) -> None:
        """Join the group and begin to pop, soon. Raises NetworkError or RemoteError."""
        try:
            await self._member.start()
        except BaseException:
            self._calls.shutdown()
            raise
        self._handling.start()
        self._task = start_task(self._assignments.run(), f"assignments of {self._settings.member.client_id}")

    async def wait(self) -> None:
        """Wait until a background task fails. Raises its error."""
        await asyncio.gather(self._member.wait(), *([] if self._task is None else [self._task]))

    def resubscribe(self) -> None:
        """Apply a change of the subscriptions."""
        self._member.replace(self._data())
        self._query_soon()

    def is_caller(self) -> bool:
        """Return whether this is called from within a handler of this consumer."""
        return self._calls.is_caller()

    async def stop(self) -> None:
        """Start no more handlers, wait for the running ones, hand back the other messages, leave the group.

        The messages of a handler that calls this are done, and it is not waited for. If this is cancelled, so
        are the handlers, and their messages are delivered again.
        """
        own = calling_tasks()
        try:
            await self._finish(own)
        except BaseException:
            await self._handling.finish(0, own)
            await self._assignments.stop()
            await self._member.abandon(own)
            raise
        finally:
            self._calls.shutdown()

    async def _finish(self, own: set[asyncio.Task[Any]]) -> None:
        self._handling.request_stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._assignments.request_stop()
        timeout_s = self._settings.stop_timeout_ms / 1000
        if not await self._handling.finish(timeout_s, own):
            _log.warning("handlers that ran on for %.1f s after the stop are cancelled", timeout_s)
        await self._assignments.stop()
        await self._handling.hand_back()
        if self._calls.tracer is not None:
            await self._calls.tracer.close()
        await self._member.leave(own)

    def _data(self) -> dict[str, SubscriptionData]:
        now_ms = self._settings.member.clock.now_ms()
        return {topic: one.data(now_ms) for topic, one in self._subscriptions.items()}

    def _query_soon(self) -> None:
        self._assignments.query_soon()

    def _drop(self, queues: Container[MessageQueue]) -> None:
        self._handling.drop(queues)

    def _new_loop(self, queue: MessageQueue) -> PopLoop:
        wanted = self._subscriptions[queue.topic].data(0)
        return PopLoop(queue, wanted, self._source, self._handling.put)

    def _new_handling(self) -> PopHandling:
        settings, member, group = self._settings, self._member, self._settings.member.group
        send_back = SendBack(
            member.connections, member.routes, group, settings.retries_max, settings.member.clock
        )
        return PopHandling(
            self._subscriptions.get,
            self._calls.slots,
            settings.max_concurrency,
            self._calls.handle,
            FailureLog(group, settings.retries_max),
            requests=member.requests,
            receipts=self._receipts,
            send_back=send_back,
        )
