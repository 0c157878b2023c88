"""A member of a consumer group: heartbeats, rebalancing and commits.

Its messages are handled elsewhere: by the push consumer's handlers or by the program that polls.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

from cometmq.client.background import start_task
from cometmq.client.group.member_heartbeats import MemberHeartbeats
from cometmq.client.group.member_settings import MemberSettings
from cometmq.client.group.operator_requests import ConsumeDirectly, MemberFacts, OperatorRequests
from cometmq.client.group.rebalancing import Rebalancing
from cometmq.client.handling.consumed_queue import ConsumedQueue
from cometmq.client.requests.offset_store import LocalOffsets, OffsetStore, RemoteOffsets
from cometmq.client.requests.queue_requests import QueueRequests
from cometmq.client.routes import GONE_S, Routes
from cometmq.client.waiting import wait_within
from cometmq.errors import NetworkError
from cometmq.message import MessageQueue
from cometmq.net.client import Connections
from cometmq.net.connection import REQUEST_TIMEOUT_MS, Connection
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.heartbeat import ConsumeFromWhere, SubscriptionData
from cometmq.wire.bodies.stats import QueueOffsets
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command

BEGIN_S_MAX: Final = 5.0
"""How long a start waits for brokers that do not say where a group begins."""
COMMIT_DELAY_S: Final = 0.05
"""How soon to commit after all messages are handled: few messages are a commit each, many share one."""


class TopicInterest(NamedTuple):
    """The subscription to a topic as brokers get it, and whether its queues are consumed in order."""

    data: SubscriptionData
    ordered: bool


class Membership:
    """A member of a consumer group.

    Args:
        interests: by topic; without any it joins no group and consumes the queues that are assigned to it.
        consume: creates the consumption of a queue.
        consume_directly: handles a message that an operator sends; None without handlers.
        began_ms: that of an earlier member which this one replaces.

    Attributes:
        began_ms: when the group began with each topic, or assigned queue, in ms since the epoch.
    """

    def __init__(
        self,
        settings: MemberSettings,
        interests: Mapping[str, TopicInterest],
        consume: Callable[[MessageQueue], ConsumedQueue],
        consume_directly: ConsumeDirectly | None = None,
        began_ms: Mapping[str | MessageQueue, int] | None = None,
    ) -> None:
        self._settings = settings
        self._interests = interests
        self._in_group = bool(interests)
        self.connections = Connections(
            self._on_request, on_open=self._on_open, credentials=settings.credentials, tls=settings.tls
        )
        self.routes = Routes(self.connections, settings.name_servers, gone_s=GONE_S)
        self.requests = QueueRequests(self.connections, self.routes, settings.group, REQUEST_TIMEOUT_MS)
        self.offsets: OffsetStore = (
            RemoteOffsets(self.requests)
            if settings.offsets_path is None
            else LocalOffsets(settings.offsets_path)
        )
        self.rebalancing = Rebalancing(
            self.connections,
            self.routes,
            settings,
            {topic: one.ordered for topic, one in interests.items()},
            self.offsets,
            consume,
        )
        self._operators = OperatorRequests(
            self._facts(settings.clock.now_ms()),
            self.rebalancing.queues,
            self.rebalancing.holds,
            consume_directly,
        )
        self._heartbeats = MemberHeartbeats(
            self.connections,
            self.routes,
            settings,
            lambda: [one.data for one in self._interests.values()],
            self.rebalancing.rebalance_soon,
        )
        self._commit_due = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_stopped = False
        self.began_ms: Mapping[str | MessageQueue, int] = began_ms or {}

    def since_ms(self, queue: MessageQueue) -> int | None:
        """Return when the group began with a queue, in ms since the epoch; None while it does."""
        return self.began_ms.get(queue.topic if self._in_group else queue)

    async def start(self) -> None:
        """Join the group and begin to consume its share. Raises like ``find``.

        For a group that begins at the end, messages stored from now on are consumed. Brokers and topics may
        appear later: later rebalances find them.
        """
        try:
            await self.find(self._interests)
            if self._in_group:
                await self._heartbeats.send()
                await self.rebalancing.rebalance()
                await self.begin()
        except BaseException:
            await self.abandon()
            raise
        if self._is_stopped:
            raise NetworkError("the consumer was stopped while it started")
        if self._in_group:
            self._run(self._heartbeats.run(), "heartbeat")
            self._run(self.rebalancing.run(), "rebalance")
            self._run(self.rebalancing.run_locks(), "locks")
        if self._settings.commit_ms is not None:
            self._run(self._run_commits(self._settings.commit_ms / 1000), "commit")

    async def find(self, interests: Mapping[str, TopicInterest]) -> None:
        """Query the routes of topics, and ask their brokers whether they accept the filters.

        Raises:
            NetworkError: no name server responds within the start's timeout.
            RemoteError: a name server refuses, or a broker refuses a filter.
        """
        await self._heartbeats.find({topic: one.data for topic, one in interests.items()})

    async def begin(self) -> None:
        """Wait until it is fixed where the group begins in its queues, if that is at their ends."""
        if self._settings.where is ConsumeFromWhere.LAST_OFFSET:
            await self.rebalancing.begin(BEGIN_S_MAX)
        self._set_began()

    def _set_began(self) -> None:
        """Set since when messages are consumed, in queues that are found or can be asked about only later."""
        now_ms = self._settings.clock.now_ms()
        wanted = self._interests if self._in_group else self.rebalancing.queues
        self.began_ms = {one: self.began_ms.get(one, now_ms) for one in wanted}

    def subscribe(self, interests: Mapping[str, TopicInterest]) -> None:
        """Replace all subscriptions, and send them to the brokers at once."""
        self._interests = interests
        self._set_began()
        self._operators.member = self._facts(self._operators.member.started_time)
        self.rebalancing.subscribe({topic: one.ordered for topic, one in interests.items()})
        self._heartbeats.send_soon()

    def commit_soon(self) -> None:
        """Commit before the interval has passed if all messages are handled."""
        self._commit_due.set()

    async def wait(self) -> None:
        """Wait until a background task fails. Raises its error."""
        await asyncio.gather(*self._tasks)

    async def stop_rebalancing(self, own: AbstractSet[asyncio.Task[Any]] = frozenset()) -> None:
        """Stop the background tasks: no queue is acquired or released any more.

        An operator's message whose handler calls this, in one of the tasks ``own``, is not waited for.
        """
        self._is_stopped = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._operators.stop(own)
        await self.rebalancing.stop()

    async def leave(self, *, commit: bool = True) -> None:
        """Stop pulling, commit, release all queues, and leave the group."""
        await asyncio.gather(*(queue.pulling.stop() for queue in self.rebalancing.queues.values()))
        if commit:
            await self.rebalancing.commit_with_retries()
        await self.rebalancing.release()
        if self._in_group:
            await self._heartbeats.unregister()
        await self.connections.close()

    async def abandon(self, own: AbstractSet[asyncio.Task[Any]] = frozenset()) -> None:
        """Stop at once, without commit and unregistration: a start failed, or a stop was cancelled."""
        await self.stop_rebalancing(own)
        queues = self.rebalancing.queues.values()
        for queue in queues:
            queue.request_stop()
        await asyncio.gather(*(queue.finish(0, own) for queue in queues))
        await asyncio.gather(*(queue.pulling.stop() for queue in queues))
        await self.connections.close()

    def _facts(self, started_time: int) -> MemberFacts:
        """Return the facts of the member that operators may query."""
        return MemberFacts(
            self._settings.name_servers,
            self._settings.consume_type,
            frozenset(topic for topic, one in self._interests.items() if one.ordered),
            started_time,
            tuple(one.data for one in self._interests.values()),
        )

    async def _run_commits(self, interval_s: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + interval_s
            await wait_within(self._commit_due, interval_s)
            self._commit_due.clear()
            while (left_s := due - loop.time()) > 0:
                await asyncio.sleep(min(COMMIT_DELAY_S, left_s))
                if not self.rebalancing.is_busy():
                    break
            await self.rebalancing.commit()

    def _on_open(self, address: str) -> None:
        """Send a reconnected broker a heartbeat and all offsets at once: it may have lost both."""
        if address in self.routes.brokers():
            self._heartbeats.send_soon()
            self.rebalancing.rebalance_soon()
            self.rebalancing.mark_uncommitted()

    def _on_request(self, connection: Connection, command: Command) -> None:
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self.rebalancing.rebalance_soon()
        elif command.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
            self.rebalancing.restart(decode(QueueOffsets, command.body).offsets)
        else:
            self._operators.handle(connection, command)

    def _run(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.append(start_task(work, f"{name} of {self._settings.client_id}"))
