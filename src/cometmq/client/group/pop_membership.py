"""A member of a consumer group that pops: heartbeats, and answers to operators.

It owns no queues: brokers hand out messages one by one to whichever member pops. It commits only one thing:
the start offset of a group that begins at the end, which each broker would otherwise choose at the first pop.
"""

import asyncio
from collections.abc import Callable, Container, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from cometmq.client.background import start_task
from cometmq.client.group.member_heartbeats import MemberHeartbeats
from cometmq.client.group.member_settings import MemberSettings
from cometmq.client.group.operator_requests import ConsumeDirectly, MemberFacts, OperatorRequests
from cometmq.client.handling.start import Start
from cometmq.client.requests.pop_requests import PopRequests
from cometmq.client.requests.queue_requests import QueueRequests
from cometmq.client.routes import GONE_S, Routes
from cometmq.errors import CometMQError, NetworkError
from cometmq.logs import get_logger
from cometmq.message import MessageQueue
from cometmq.net.client import Connections
from cometmq.net.connection import Connection
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.heartbeat import ConsumeFromWhere, SubscriptionData
from cometmq.wire.bodies.stats import QueueOffsets
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command

REQUEST_TIMEOUT_MS: Final = 3_000

_log = get_logger(__name__)


class PopMembership:
    """A member of a consumer group that pops.

    Args:
        subscriptions: by topic.
        consume_directly: handles a message that an operator sends; None without handlers.
        on_change: called when the members of the group, or the brokers that know this one, have changed.
        on_reset: called with queues whose offsets an operator has reset.
    """

    def __init__(
        self,
        settings: MemberSettings,
        subscriptions: Mapping[str, SubscriptionData],
        *,
        consume_directly: ConsumeDirectly | None = None,
        on_change: Callable[[], None] = lambda: None,
        on_reset: Callable[[Container[MessageQueue]], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._subscriptions = subscriptions
        self._on_change = on_change
        self._on_reset = on_reset
        self.connections = Connections(
            self._on_request, on_open=self._on_open, credentials=settings.credentials, tls=settings.tls
        )
        self.routes = Routes(self.connections, settings.name_servers, gone_s=GONE_S)
        self.requests = PopRequests(self.connections, self.routes, settings.group, REQUEST_TIMEOUT_MS)
        self._operators = OperatorRequests(
            self._facts(settings.clock.now_ms()), {}, lambda _: False, consume_directly
        )
        self._heartbeats = MemberHeartbeats(
            self.connections,
            self.routes,
            settings,
            lambda: list(self._subscriptions.values()),
            on_change,
        )
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._offsets = QueueRequests(self.connections, self.routes, settings.group, REQUEST_TIMEOUT_MS)
        self._since_ms: dict[str, int] = {}
        self._begun: set[MessageQueue] = set()

    async def begin(self, topic: str) -> None:
        """Commit the group's start offset in each queue of a topic that has none, if it begins at the end.

        Raises NoRoute, NetworkError or RemoteError.
        """
        if self._settings.where is not ConsumeFromWhere.LAST_OFFSET:
            return
        queues = set((await self.routes.get(topic)).subscribe_queues()) - self._begun
        if queues:
            await asyncio.gather(*(self._begin_queue(queue) for queue in queues))

    async def _begin_queue(self, queue: MessageQueue) -> None:
        # The end before the committed offset: a message that is stored in between is then skipped by nobody.
        end = await Start.LAST.offset(self._offsets, queue, self._since_ms.get(queue.topic))
        if await self._offsets.committed(queue) is None:
            young = await self._offsets.committed(queue, young_is_zero=True)
            await self._offsets.commit(queue, end if young is None else young)
        self._begun.add(queue)

    async def _begin_all(self) -> None:
        """Commit where the group begins in all topics; brokers that are away are asked again later."""
        for topic in self._subscriptions.keys() - self._since_ms.keys():
            try:
                await self.begin(topic)
            except CometMQError as error:
                _log.debug("where %s begins in %s is not known yet: %s", self._settings.group, topic, error)
            self._since_ms[topic] = self._settings.clock.now_ms()

    async def start(self) -> None:
        """Join the group. Brokers and topics may appear later.

        Raises NetworkError or RemoteError, the latter also if a broker refuses a filter.
        """
        try:
            await self._heartbeats.find(self._subscriptions)
            await self._heartbeats.send()
            await self._begin_all()
        except BaseException:
            await self.abandon()
            raise
        if self._is_stopped:
            raise NetworkError("the consumer was stopped while it started")
        self._task = start_task(self._heartbeats.run(), f"heartbeat of {self._settings.client_id}")

    async def subscribe(self, subscriptions: Mapping[str, SubscriptionData]) -> None:
        """Replace all subscriptions, and send them to the brokers. Raises like ``start``."""
        await self._heartbeats.find(subscriptions)
        self._subscriptions = subscriptions
        await self._begin_all()
        self.replace(subscriptions)

    def replace(self, subscriptions: Mapping[str, SubscriptionData]) -> None:
        """Replace all subscriptions, and send them to the brokers that are known."""
        self._subscriptions = subscriptions
        now_ms = self._settings.clock.now_ms()
        self._since_ms = {topic: self._since_ms.get(topic, now_ms) for topic in subscriptions}
        self._operators.member = self._facts(self._operators.member.started_time)
        self._heartbeats.send_soon()

    async def wait(self) -> None:
        """Wait until the heartbeats fail. Raises their error."""
        if self._task is not None:
            await self._task

    async def leave(self, own: AbstractSet[asyncio.Task[Any]] = frozenset()) -> None:
        """Leave the group; do not wait for an operator's message whose handler calls this, in ``own``."""
        await self._stop(own)
        await self._heartbeats.unregister()
        await self.connections.close()

    async def abandon(self, own: AbstractSet[asyncio.Task[Any]] = frozenset()) -> None:
        """Stop at once, without unregistration: a start failed, or a stop was cancelled."""
        await self._stop(own)
        await self.connections.close()

    async def _stop(self, own: AbstractSet[asyncio.Task[Any]]) -> None:
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._operators.stop(own)

    def _facts(self, started_time: int) -> MemberFacts:
        """Return the facts of the member that operators may query."""
        return MemberFacts(
            self._settings.name_servers,
            self._settings.consume_type,
            frozenset(),
            started_time,
            tuple(self._subscriptions.values()),
        )

    def _on_open(self, address: str) -> None:
        """Send a reconnected broker a heartbeat at once: it may have lost the member."""
        if address in self.routes.brokers():
            self._heartbeats.send_soon()
            self._on_change()

    def _on_request(self, connection: Connection, command: Command) -> None:
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self._on_change()
        elif command.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
            self._on_reset(decode(QueueOffsets, command.body).offsets)
        else:
            self._operators.handle(connection, command)
