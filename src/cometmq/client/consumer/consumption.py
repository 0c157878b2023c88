"""A push consumer at work: a member of its group, and the handling of what that pulls."""

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, NamedTuple

from msgspec.structs import replace

from cometmq.client.consumer.bodies import BodyRoom, all_whole
from cometmq.client.consumer.consume_trace import ConsumeTracer
from cometmq.client.consumer.consumed import ConsumedQueue
from cometmq.client.consumer.handling import Handling
from cometmq.client.consumer.ordered import OrderedHandling, OrderedOptions
from cometmq.client.consumer.outcome import DeadLetter, Retry
from cometmq.client.consumer.pulling import Pulling, PullOptions
from cometmq.client.consumer.send_back import SendBack
from cometmq.client.consumer.start import Start
from cometmq.client.consumer.subscription import Subscription, unhandled
from cometmq.client.group.membership import MemberSettings, Membership, TopicInterest
from cometmq.client.trace import send_of
from cometmq.format.layout import RETRY_PREFIX
from cometmq.format.properties import RETRY_TOPIC
from cometmq.message import MessageQueue, StoredMessage
from cometmq.wire.bodies.heartbeat import MessageModel, tag_subscription
from cometmq.wire.bodies.running import ConsumedDirectly, ConsumeResult

MAX_RECONSUME_TIMES: Final = 16

_log = logging.getLogger(__name__)


class ConsumerSettings(NamedTuple):
    """What is set of a consumer: see ``Consumer``."""

    member: MemberSettings
    start: Start
    max_concurrency: int
    max_reconsume_times: int | None
    suspend_ms: int
    stop_timeout_ms: int
    pull: PullOptions
    trace: bool


class Consumption:
    """A consumer at work.

    Args:
        subscriptions: by topic; who changes them says so by ``resubscribe``.
    """

    def __init__(self, settings: ConsumerSettings, subscriptions: Mapping[str, Subscription]) -> None:
        self._settings = settings
        self._subscriptions = subscriptions
        self._is_broadcasting = settings.member.model is MessageModel.BROADCASTING
        self._wanted = self._all_wanted()
        self._member = Membership(settings.member, self._wanted, self._consume, self._consume_directly)
        self.rebalancing = self._member.rebalancing
        self._pool = ThreadPoolExecutor(settings.max_concurrency, "cometmq-handler")
        self._slots = asyncio.Semaphore(settings.max_concurrency)
        self._bodies = BodyRoom()
        self._send_back = None if self._is_broadcasting else self._sending_back()
        self._tracer = self._tracing() if settings.trace else None
        self._handling = Handling(
            subscriptions.get, self._slots, settings.max_concurrency, self._handle, self._send_back
        )

    async def start(self) -> None:
        """Join the group, and begin to consume what falls to this member.

        Raises:
            NetworkError: no name server answers.
            RemoteError: a name server refuses.
        """
        try:
            await self._member.start()
        except BaseException:
            self._pool.shutdown(wait=False)
            raise
        self._handling.begin()

    async def wait(self) -> None:
        """Wait until something of it fails that should not. Raises what that raised."""
        await self._member.wait()

    def resubscribe(self) -> None:
        """Follow a change of the subscriptions; queues of those that stay are not disturbed."""
        self._wanted = self._all_wanted()
        self._member.subscribe(self._wanted)

    async def stop(self) -> None:
        """Handle no more, wait for what is being handled, commit, and leave the group.

        If this is cancelled, handlers are, too, and what was not committed comes again.
        """
        try:
            await self._finish()
        except BaseException:
            await self._handling.finish(0)
            await self._member.abandon()
            raise
        finally:
            self._pool.shutdown(wait=False)

    async def _finish(self) -> None:
        self._handling.refuse()
        for queue in self.rebalancing.queues.values():
            queue.refuse()
        await self._member.settle()
        timeout_s = self._settings.stop_timeout_ms / 1000
        finishing = [queue.finish(timeout_s) for queue in self.rebalancing.queues.values()]
        if not all(await asyncio.gather(self._handling.finish(timeout_s), *finishing)):
            _log.warning("handlers that went on for %.1f s after the stop are cancelled", timeout_s)
        if self._tracer is not None:
            await self._tracer.close()
        await self._member.leave()

    def _all_wanted(self) -> dict[str, TopicInterest]:
        """Give what is subscribed to, with the group's retries, which are ordered if all the rest is."""
        now_ms = self._settings.member.clock.now_ms()
        wanted = {
            topic: TopicInterest(subscription.data(now_ms), subscription.ordered)
            for topic, subscription in self._subscriptions.items()
        }
        if not self._is_broadcasting:
            retries = tag_subscription(RETRY_PREFIX + self._settings.member.group, "*", now_ms)
            is_ordered = bool(wanted) and all(one.ordered for one in wanted.values())
            wanted[retries.topic] = TopicInterest(retries, is_ordered)
        return wanted

    def _consume(self, queue: MessageQueue) -> ConsumedQueue:
        """Make what consumes a queue."""
        subscription = self._subscriptions.get(queue.topic)  # none for the retry topic
        ordered = self._wanted[queue.topic].ordered
        pulling = Pulling(
            queue,
            self._member.requests,
            self._member.offsets,
            self._settings.start,
            self._arrived if ordered else self._handling.put,
            tags="*" if subscription is None else subscription.tags,
            sql=None if subscription is None else subscription.sql,
            ordered=ordered,
            on_empty=_ignore if self._is_broadcasting else self._member.commit_soon,
            options=self._settings.pull,
        )
        return ConsumedQueue(pulling, self._handle_in_order if ordered else None)

    async def _handle(self, subscription: Subscription, messages: list[StoredMessage]) -> None:
        """Hand messages to a handler, their bodies decompressed only now, as few are handled at once.

        Raises what the handler raises, and UndecodableBody, which counts as if it had.
        """
        async with self._bodies.whole(messages) as whole:
            handling = subscription.handle(list(whole), self._pool)
            await (handling if self._tracer is None else self._tracer.watch(messages, handling))

    async def _consume_directly(self, message: StoredMessage) -> ConsumedDirectly:
        """Let a handler have a message that an operator sends, whatever the offsets are."""
        if message.topic not in self._subscriptions:  # a retry or a dead letter
            message = replace(message, topic=message.properties.get(RETRY_TOPIC, message.topic))
        subscription = self._subscriptions.get(message.topic) or unhandled(message.topic)
        began_ms = self._settings.member.clock.monotonic_ms()
        result, remark = ConsumeResult.SUCCESS, None
        async with self._slots:
            try:
                await subscription.handle(all_whole([message]), self._pool)
            except (Retry, DeadLetter) as outcome:
                result, remark = ConsumeResult.LATER, str(outcome)
            except Exception as error:  # noqa: BLE001 a handler is not ours: whatever it raises is told
                result, remark = ConsumeResult.THROW_EXCEPTION, repr(error)
        spent_ms = self._settings.member.clock.monotonic_ms() - began_ms
        return ConsumedDirectly(result, subscription.ordered, remark=remark, spent_ms=spent_ms)

    def _handle_in_order(self, pulling: Pulling) -> OrderedHandling:
        settings = self._settings
        return OrderedHandling(
            pulling,
            self._subscriptions.get,
            partial(self.rebalancing.holds, pulling.queue),
            self._slots,
            self._handle,
            self._send_back,
            OrderedOptions(settings.suspend_ms, settings.max_reconsume_times),
        )

    def _arrived(self, pulling: Pulling, messages: list[StoredMessage]) -> None:
        self.rebalancing.queues[pulling.queue].arrived(messages)

    def _tracing(self) -> ConsumeTracer:
        member = self._settings.member
        send = send_of(self._member.connections, self._member.routes, f"{member.group}-SUB-1", member.clock)
        return ConsumeTracer(send, member.group, member.clock)

    def _sending_back(self) -> SendBack:
        times, member = self._settings.max_reconsume_times, self._settings.member
        return SendBack(
            self._member.connections,
            self._member.routes,
            member.group,
            MAX_RECONSUME_TIMES if times is None else times,
            member.clock,
        )


def _ignore() -> None:
    """Leave a file with offsets to be written when its time has come."""
