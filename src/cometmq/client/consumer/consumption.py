"""A running push consumer: a member of its group, and the handling of the messages that it pulls."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from cometmq.client.calling import calling_tasks
from cometmq.client.group.member_settings import MemberSettings
from cometmq.client.group.membership import Membership, TopicInterest
from cometmq.client.handling.concurrent import ConcurrentHandling
from cometmq.client.handling.consume_trace import ConsumeTracer
from cometmq.client.handling.consumed_queue import ConsumedQueue
from cometmq.client.handling.failure_log import FailureLog
from cometmq.client.handling.handle_hooks import HandleHooks
from cometmq.client.handling.handler_calls import HandlerCalls
from cometmq.client.handling.ordered import OrderedHandling
from cometmq.client.handling.pulling import Pulling, PullOptions, PullSource
from cometmq.client.handling.send_back import SendBack
from cometmq.client.handling.start import Start
from cometmq.client.handling.subscription import Subscription
from cometmq.client.producer.trace import trace_sender
from cometmq.format.layout import RETRY_PREFIX
from cometmq.logs import get_logger
from cometmq.message import MessageQueue, StoredMessage
from cometmq.wire.bodies.heartbeat import MessageModel, tag_subscription

MAX_RECONSUME_TIMES: Final = 16

_log = get_logger(__name__)


class ConsumerSettings(NamedTuple):
    """The options of ``Consumer``."""

    member: MemberSettings
    start: Start
    max_concurrency: int
    max_reconsume_times: int | None
    suspend_ms: int
    stop_timeout_ms: int
    pull: PullOptions
    trace: bool
    hooks: HandleHooks = HandleHooks()

    @property
    def retries_max(self) -> int:
        """After how many retries a message of a topic that is not ordered becomes a dead letter."""
        return MAX_RECONSUME_TIMES if self.max_reconsume_times is None else self.max_reconsume_times


class Consumption:
    """A running consumer.

    Args:
        subscriptions: by topic; call ``resubscribe`` after a change.
    """

    def __init__(self, settings: ConsumerSettings, subscriptions: Mapping[str, Subscription]) -> None:
        self._settings = settings
        self._subscriptions = subscriptions
        self._is_broadcasting = settings.member.model is MessageModel.BROADCASTING
        self._interests = self._topic_interests()
        self._calls = HandlerCalls(
            subscriptions, settings.max_concurrency, settings.member.clock, settings.hooks
        )
        self._member = Membership(
            settings.member, self._interests, self._consume, self._calls.handle_directly
        )
        member = self._member
        self._source = PullSource(
            member.requests, member.offsets, settings.start, settings.pull, member.since_ms
        )
        self.rebalancing = self._member.rebalancing
        self._send_back = None if self._is_broadcasting else self._new_send_back()
        self._calls.tracer = self._tracer = self._new_tracer() if settings.trace else None
        self._handling = ConcurrentHandling(
            subscriptions.get,
            self._calls.slots,
            settings.max_concurrency,
            self._calls.handle,
            FailureLog(settings.member.group, settings.retries_max),
            self._send_back,
        )

    async def start(self) -> None:
        """Join the group and begin to consume this member's share.

        Raises:
            NetworkError: no name server responds.
            RemoteError: a name server refuses.
        """
        try:
            await self._member.start()
        except BaseException:
            self._calls.shutdown()
            raise
        self._handling.start()

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this member owns now."""
        return self.rebalancing.owned()

    @property
    def twins(self) -> int:
        """How many other members have the same client id."""
        return self.rebalancing.twins

    async def wait(self) -> None:
        """Wait until a background task fails. Raises its error."""
        await self._member.wait()

    def resubscribe(self) -> None:
        """Apply a change of the subscriptions; queues of unchanged ones are not disturbed."""
        self._interests = self._topic_interests()
        self._member.subscribe(self._interests)

    def is_caller(self) -> bool:
        """Return whether this is called from within a handler of this consumer."""
        return self._calls.is_caller()

    async def stop(self) -> None:
        """Start no more handlers, wait for the running ones, commit, and leave the group.

        The messages of a handler that calls this are done, and it is not waited for. If this is cancelled, so
        are the handlers, and uncommitted messages are delivered again.
        """
        own = calling_tasks()
        try:
            await self._finish(own)
        except BaseException:
            await self._handling.finish(0, own)
            await self._member.abandon(own)
            raise
        finally:
            self._calls.shutdown()

    async def _finish(self, own: set[asyncio.Task[Any]]) -> None:
        self._handling.request_stop()
        for queue in self.rebalancing.queues.values():
            queue.request_stop()
        await self._member.stop_rebalancing(own)
        timeout_s = self._settings.stop_timeout_ms / 1000
        finishing = [queue.finish(timeout_s, own) for queue in self.rebalancing.queues.values()]
        if not all(await asyncio.gather(self._handling.finish(timeout_s, own), *finishing)):
            _log.warning("handlers that ran on for %.1f s after the stop are cancelled", timeout_s)
        if self._tracer is not None:
            await self._tracer.close()
        await self._member.leave()

    def _topic_interests(self) -> dict[str, TopicInterest]:
        """Return the subscriptions and the group's retry topic, which is ordered if all others are."""
        now_ms = self._settings.member.clock.now_ms()
        interests = {
            topic: TopicInterest(subscription.data(now_ms), subscription.ordered)
            for topic, subscription in self._subscriptions.items()
        }
        if not self._is_broadcasting:
            retries = tag_subscription(RETRY_PREFIX + self._settings.member.group, "*", now_ms)
            is_ordered = bool(interests) and all(one.ordered for one in interests.values())
            interests[retries.topic] = TopicInterest(retries, is_ordered)
        return interests

    def _consume(self, queue: MessageQueue) -> ConsumedQueue:
        """Create the consumption of a queue."""
        subscription = self._subscriptions.get(queue.topic)  # None for the retry topic
        ordered = self._interests[queue.topic].ordered
        pulling = Pulling(
            queue,
            self._source,
            self._arrived if ordered else self._handling.put,
            tags="*" if subscription is None else subscription.tags,
            sql=None if subscription is None else subscription.sql,
            ordered=ordered,
            on_empty=_ignore if self._is_broadcasting else self._member.commit_soon,
        )
        return ConsumedQueue(pulling, self._handle_in_order if ordered else None)

    def _handle_in_order(self, pulling: Pulling) -> OrderedHandling:
        settings = self._settings
        return OrderedHandling(
            pulling,
            self._subscriptions.get,
            partial(self.rebalancing.holds, pulling.queue),
            self._calls.slots,
            self._calls.handle,
            self._send_back,
            settings.suspend_ms,
            FailureLog(settings.member.group, settings.max_reconsume_times),
        )

    def _arrived(self, pulling: Pulling, messages: list[StoredMessage]) -> None:
        self.rebalancing.queues[pulling.queue].arrived(messages)

    def _new_tracer(self) -> ConsumeTracer:
        member = self._settings.member
        send = trace_sender(
            self._member.connections, self._member.routes, f"{member.group}-SUB-1", member.clock
        )
        return ConsumeTracer(send, member.group, member.clock)

    def _new_send_back(self) -> SendBack:
        member = self._settings.member
        return SendBack(
            self._member.connections,
            self._member.routes,
            member.group,
            self._settings.retries_max,
            member.clock,
        )


def _ignore() -> None:
    """Do nothing: the offsets file is written at intervals only."""
