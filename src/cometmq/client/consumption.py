"""A push consumer at work: its parts from start to stop, and the tasks that run them."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from cometmq.client.consumed import ConsumedQueue
from cometmq.client.handling import Handling
from cometmq.client.heartbeat import HEARTBEAT_S, beat, say_goodbye
from cometmq.client.offset_store import LocalOffsets, OffsetStore, RemoteOffsets
from cometmq.client.ordered import OrderedHandling, OrderedOptions
from cometmq.client.pulling import Pulling, PullOptions
from cometmq.client.queue_requests import QueueRequests
from cometmq.client.rebalancing import Rebalancing
from cometmq.client.routes import Routes
from cometmq.client.send_back import SendBack
from cometmq.client.start import Start
from cometmq.client.subscription import Subscription
from cometmq.client.waiting import wait_within
from cometmq.cluster.rebalance import Strategy
from cometmq.errors import NoRoute
from cometmq.format.layout import RETRY_PREFIX
from cometmq.io.clock import Clock
from cometmq.message import MessageQueue, StoredMessage
from cometmq.net.client import Connection, Connections, refuse_request
from cometmq.wire.bodies.heartbeat import ConsumerData, Heartbeat, MessageModel, tag_subscription
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command

REQUEST_TIMEOUT_MS: Final = 3_000
COMMIT_S: Final = 5.0
MAX_RECONSUME_TIMES: Final = 16

_log = logging.getLogger(__name__)


class ConsumerSettings(NamedTuple):
    """What is set of a consumer: see ``Consumer``."""

    name_servers: tuple[str, ...]
    group: str
    client_id: str
    model: MessageModel
    start: Start
    strategy: Strategy
    max_concurrency: int
    max_reconsume_times: int | None
    suspend_ms: int
    stop_timeout_ms: int
    pull: PullOptions
    on_rebalance: Callable[[list[MessageQueue]], None]
    offsets_path: Path
    clock: Clock


class Consumption:
    """A consumer at work.

    Args:
        subscriptions: by topic; they stay as they are.
    """

    def __init__(self, settings: ConsumerSettings, subscriptions: Mapping[str, Subscription]) -> None:
        self._settings = settings
        self._subscriptions = subscriptions
        self._retry_topic = RETRY_PREFIX + settings.group
        self._is_broadcasting = settings.model is MessageModel.BROADCASTING
        self._connections = Connections(self._on_request, on_open=self._on_open)
        self._routes = Routes(self._connections, settings.name_servers)
        self._requests = QueueRequests(self._connections, self._routes, settings.group, REQUEST_TIMEOUT_MS)
        self._offsets: OffsetStore = (
            LocalOffsets(settings.offsets_path) if self._is_broadcasting else RemoteOffsets(self._requests)
        )
        self._pool = ThreadPoolExecutor(settings.max_concurrency, "cometmq-handler")
        self._slots = asyncio.Semaphore(settings.max_concurrency)
        self._send_back = None if self._is_broadcasting else self._sending_back()
        self._handling = Handling(
            subscriptions.get, self._slots, settings.max_concurrency, self._pool, self._send_back
        )
        self._topics = {topic: subscription.ordered for topic, subscription in subscriptions.items()}
        if not self._is_broadcasting:
            self._topics[self._retry_topic] = all(self._topics.values())
        self.rebalancing = Rebalancing(
            self._connections,
            self._routes,
            settings.group,
            settings.client_id,
            self._topics,
            None if self._is_broadcasting else settings.strategy,
            self._offsets,
            self._consume,
            settings.on_rebalance,
            settings.clock,
        )
        self._born_ms = settings.clock.now_ms()
        self._heartbeat_wanted = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Join the group, and begin to consume what falls to this member.

        Raises:
            NetworkError: no name server answers.
            RemoteError: a name server refuses.
        """
        try:
            await self._find_brokers()
            await self._beat()
            await self.rebalancing.round()
        except BaseException:
            await self._connections.close()
            self._pool.shutdown(wait=False)
            raise
        self._handling.begin()
        self._tasks = [
            self._task(self._beat_forever(), "heartbeat"),
            self._task(self.rebalancing.run(), "rebalance"),
            self._task(self._commit_forever(), "commit"),
        ]
        if not self._is_broadcasting and any(self._topics.values()):
            self._tasks.append(self._task(self.rebalancing.run_locks(), "locks"))

    async def wait(self) -> None:
        """Wait until something of it fails that should not. Raises what that raised."""
        await asyncio.gather(*self._tasks)

    async def stop(self) -> None:
        """Handle no more, wait for what is being handled, commit, and leave the group."""
        self._handling.refuse()
        for queue in self.rebalancing.queues.values():
            queue.refuse()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.rebalancing.stop()
        timeout_s = self._settings.stop_timeout_ms / 1000
        queues = list(self.rebalancing.queues.values())
        ended = await asyncio.gather(
            self._handling.finish(timeout_s), *(queue.finish(timeout_s) for queue in queues)
        )
        if not all(ended):
            _log.warning("handlers that went on for %.1f s after the stop are cancelled", timeout_s)
        await asyncio.gather(*(queue.pulling.stop() for queue in queues))
        await self.rebalancing.commit()
        await self.rebalancing.unlock()
        brokers = self._routes.brokers()
        settings = self._settings
        await say_goodbye(self._connections, brokers, settings.client_id, consumer_group=settings.group)
        await self._connections.close()
        self._pool.shutdown(wait=False)

    async def _find_brokers(self) -> None:
        for topic in self._topics:
            with suppress(NoRoute):  # it may be made yet
                await self._routes.get(topic)

    async def _beat(self) -> None:
        await beat(self._connections, self._routes.brokers(), self._heartbeat())

    async def _beat_forever(self) -> None:
        while True:
            await wait_within(self._heartbeat_wanted, HEARTBEAT_S)
            self._heartbeat_wanted.clear()
            await self._beat()

    async def _commit_forever(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_S)
            await self.rebalancing.commit()

    def _heartbeat(self) -> Heartbeat:
        wanted = [subscription.data(self._born_ms) for subscription in self._subscriptions.values()]
        if not self._is_broadcasting:
            wanted.append(tag_subscription(self._retry_topic, "*", self._born_ms))
        settings = self._settings
        consumer = ConsumerData(
            settings.group,
            wanted,
            message_model=settings.model,
            consume_from_where=settings.start.where,
        )
        return Heartbeat(settings.client_id, consumers=[consumer])

    def _on_open(self, address: str) -> None:
        """Tell a broker at once who is there: to it, a new connection is nobody's."""
        if address in self._routes.brokers():
            self._heartbeat_wanted.set()
            self.rebalancing.soon()

    def _on_request(self, connection: Connection, command: Command) -> None:
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self.rebalancing.soon()
        else:
            refuse_request(connection, command)

    def _consume(self, queue: MessageQueue) -> ConsumedQueue:
        """Make what consumes a queue."""
        subscription = self._subscriptions.get(queue.topic)  # none for the retry topic
        ordered = self._topics[queue.topic]
        pulling = Pulling(
            queue,
            self._requests,
            self._offsets,
            self._settings.start,
            self._arrived if ordered else self._handling.put,
            tags="*" if subscription is None else subscription.tags,
            sql=None if subscription is None else subscription.sql,
            ordered=ordered,
            commits_along=not self._is_broadcasting,
            options=self._settings.pull,
        )
        return ConsumedQueue(pulling, self._handle_in_order if ordered else None)

    def _handle_in_order(self, pulling: Pulling) -> OrderedHandling:
        settings = self._settings
        return OrderedHandling(
            pulling,
            self._subscriptions.get,
            partial(self.rebalancing.holds, pulling.queue),
            self._slots,
            self._pool,
            self._send_back,
            OrderedOptions(settings.suspend_ms, settings.max_reconsume_times),
        )

    def _arrived(self, pulling: Pulling, messages: list[StoredMessage]) -> None:
        self.rebalancing.queues[pulling.queue].arrived(messages)

    def _sending_back(self) -> SendBack:
        times = self._settings.max_reconsume_times
        return SendBack(
            self._connections,
            self._routes,
            self._settings.group,
            MAX_RECONSUME_TIMES if times is None else times,
            self._settings.clock,
        )

    def _task(self, work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
        return asyncio.create_task(work, name=f"{name} of {self._settings.client_id}")
