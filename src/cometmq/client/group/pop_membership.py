"""A member of a consumer group that pops: heartbeats, and answers to operators.

It owns no queues: brokers hand out messages one by one to whichever member pops. It commits only one thing:
where a group that begins at the end begins.
"""

import asyncio
from collections.abc import Callable, Container, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any

from cometmq.client.background import start_task
from cometmq.client.group.member_heartbeats import MemberHeartbeats
from cometmq.client.group.member_settings import MemberSettings
from cometmq.client.group.operator_requests import ConsumeDirectly, MemberFacts, OperatorRequests
from cometmq.client.group.start_offsets import StartOffsets
from cometmq.client.requests.pop_requests import PopRequests
from cometmq.client.requests.queue_requests import QueueRequests
from cometmq.client.routes import GONE_S, Routes
from cometmq.errors import CometMQError, NetworkError
from cometmq.message import MessageQueue
from cometmq.net.client import Connections
from cometmq.net.connection import REQUEST_TIMEOUT_MS, Connection
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.heartbeat import SubscriptionData
from cometmq.wire.bodies.stats import QueueOffsets
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command


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
        offsets = QueueRequests(self.connections, self.routes, settings.group, REQUEST_TIMEOUT_MS)
        self.starts = StartOffsets(offsets, settings)
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

    async def begin(self, topics: Iterable[str]) -> set[MessageQueue]:
        """Commit where the group begins in topics; return the topics and brokers where that failed."""
        queues: list[MessageQueue] = []
        for topic in list(topics):
            with suppress(CometMQError):  # the heartbeats log topics without a route
                queues += (await self.routes.get(topic)).subscribe_queues()
        return await self.starts.commit(queues)

    async def start(self) -> None:
        """Join the group. Brokers and topics may appear later.

        Raises NetworkError or RemoteError, the latter also if a broker refuses a filter.
        """
        try:
            await self._heartbeats.find(self._subscriptions)
            await self._heartbeats.send()
            await self.begin(self._subscriptions)
            self.starts.set_topics(self._subscriptions)
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
        await self.begin(subscriptions.keys() - self.starts.topics)
        self.replace(subscriptions)

    def replace(self, subscriptions: Mapping[str, SubscriptionData]) -> None:
        """Replace all subscriptions, and send them to the brokers that are known."""
        self._subscriptions = subscriptions
        self.starts.set_topics(subscriptions)
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
        await self._close()

    async def abandon(self, own: AbstractSet[asyncio.Task[Any]] = frozenset()) -> None:
        """Stop at once, without unregistration: a start failed, or a stop was cancelled."""
        await self._stop(own)
        await self._close()

    async def _stop(self, own: AbstractSet[asyncio.Task[Any]]) -> None:
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._operators.stop(own)

    async def _close(self) -> None:
        await self.connections.close()
        await self.starts.end_attempts()

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
