"""A member of a consumer group: heartbeats, its share of the queues, and how far it has consumed them.

What is done with the messages is somebody else's: the push consumer's handlers, or who polls.
"""

import asyncio
import logging
import math
import os
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from cometmq.client.consumer.asked import Asked, ConsumeDirectly, MemberFacts
from cometmq.client.consumer.consumed import ConsumedQueue
from cometmq.client.consumer.offset_store import LocalOffsets, OffsetStore, RemoteOffsets
from cometmq.client.consumer.queue_requests import QueueRequests
from cometmq.client.group.heartbeat import HEARTBEAT_S, beat, say_goodbye
from cometmq.client.group.rebalancing import Rebalancing
from cometmq.client.identity import client_id
from cometmq.client.routes import GONE_S, Routes
from cometmq.client.waiting import ask_until_answered, wait_within
from cometmq.cluster.rebalance import Strategy
from cometmq.errors import CometMQError, NoRoute
from cometmq.io.clock import Clock
from cometmq.message import MessageQueue
from cometmq.net.client import Connections
from cometmq.net.connection import Connection
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    Heartbeat,
    MessageModel,
    SubscriptionData,
)
from cometmq.wire.bodies.stats import QueueOffsets
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command

REQUEST_TIMEOUT_MS: Final = 3_000
BEAT_AGAIN_S: Final = 5.0
"""How soon a heartbeat that not all brokers took is sent again: without it they count nobody as a member."""
LOG_AGAIN_S: Final = 60.0
"""How often a start that waits for a name server says so."""
BREATH_S: Final = 0.05
"""How soon to commit when all that came is handled: few messages are a commit each, many share one."""

_log = logging.getLogger(__name__)


class MemberSettings(NamedTuple):
    """What makes a member.

    Attributes:
        consume_type: whether messages are handed out to handlers or polled: for operators only.
        instance: the user's name for the client; None if its id is its own by chance.
        made_by: the process that chose the id.
        strategy: how queues are divided; None to have all.
        offsets_path: the file that holds the offsets; None for the brokers.
        commit_ms: how often offsets are committed; None for only when asked to.
        on_rebalance: told the queues that are consumed, whenever they change.
        start_timeout_ms: how long a start waits for a name server; None for no end.
    """

    name_servers: tuple[str, ...]
    group: str
    client_id: str
    instance: str | None
    made_by: int
    consume_type: ConsumeType
    model: MessageModel
    where: ConsumeFromWhere
    strategy: Strategy | None
    offsets_path: Path | None
    commit_ms: int | None
    on_rebalance: Callable[[list[MessageQueue]], None]
    clock: Clock
    start_timeout_ms: int | None = None

    def of_this_process(self) -> "MemberSettings":
        """Give them for this process: members that were forked must not be called the same."""
        if self.instance is not None or self.made_by == os.getpid():
            return self
        return self._replace(client_id=client_id(), made_by=os.getpid())


class TopicInterest(NamedTuple):
    """What is wanted of a topic: as the broker is told, and whether in order."""

    data: SubscriptionData
    ordered: bool


class Membership:
    """A member.

    Args:
        wanted: by topic; without any it is in no group, and consumes what it is assigned.
        consume: makes what consumes a queue.
        consume_directly: handles a message that an operator sends; None where there are no handlers.
    """

    def __init__(
        self,
        settings: MemberSettings,
        wanted: Mapping[str, TopicInterest],
        consume: Callable[[MessageQueue], ConsumedQueue],
        consume_directly: ConsumeDirectly | None = None,
    ) -> None:
        self._settings = settings
        self._wanted = wanted
        self._in_group = bool(wanted)
        self.connections = Connections(self._on_request, on_open=self._on_open)
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
            settings.group,
            settings.client_id,
            {topic: one.ordered for topic, one in wanted.items()},
            settings.strategy,
            self.offsets,
            consume,
            settings.on_rebalance,
            settings.clock,
        )
        self._asked = Asked(
            self._described(settings.clock.now_ms()),
            self.rebalancing.queues,
            self.rebalancing.holds,
            consume_directly,
        )
        self._heartbeat_wanted = asyncio.Event()
        self._is_known = False
        self._wait_logged_at = -math.inf
        self._commit_wanted = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Join the group and take the share of it. Raises NetworkError or RemoteError.

        Brokers and topics may come later: the rounds that follow find them.
        """
        try:
            for topic in self._wanted:
                with suppress(NoRoute):
                    await ask_until_answered(
                        partial(self.routes.get, topic),
                        self._name_server_may_come,
                        self._settings.start_timeout_ms,
                    )
            if self._in_group:
                await self._beat()
                await self.rebalancing.round()
        except BaseException:
            await self.abandon()
            raise
        if self._in_group:
            self._run(self._beat_forever(), "heartbeat")
            self._run(self.rebalancing.run(), "rebalance")
            self._run(self.rebalancing.run_locks(), "locks")
        if self._settings.commit_ms is not None:
            self._run(self._commit_forever(self._settings.commit_ms / 1000), "commit")

    def subscribe(self, wanted: Mapping[str, TopicInterest]) -> None:
        """Want this and nothing else from now on: the brokers hear of it at once."""
        self._wanted = wanted
        self._asked.member = self._described(self._asked.member.started_time)
        self.rebalancing.subscribe({topic: one.ordered for topic, one in wanted.items()})
        self._heartbeat_wanted.set()

    def commit_soon(self) -> None:
        """Do not wait for the time to commit if all that came is handled."""
        self._commit_wanted.set()

    async def wait(self) -> None:
        """Wait until something of it fails that should not. Raises what that raised."""
        await asyncio.gather(*self._tasks)

    async def settle(self) -> None:
        """Take and give up no queue any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._asked.stop()
        await self.rebalancing.stop()

    async def leave(self, *, commit: bool = True) -> None:
        """Stop pulling, commit, give up all queues, and leave the group."""
        await asyncio.gather(*(queue.pulling.stop() for queue in self.rebalancing.queues.values()))
        if commit:
            await self.rebalancing.commit_at_last()
        await self.rebalancing.give_up()
        if self._in_group:
            me, group = self._settings.client_id, self._settings.group
            await say_goodbye(self.connections, self.routes.brokers(), me, consumer_group=group)
        await self.connections.close()

    async def abandon(self) -> None:
        """Stop at once, without a commit or a goodbye: a start failed, or an end was cancelled."""
        await self.settle()
        queues = self.rebalancing.queues.values()
        for queue in queues:
            queue.refuse()
        await asyncio.gather(*(queue.finish(0) for queue in queues))
        await asyncio.gather(*(queue.pulling.stop() for queue in queues))
        await self.connections.close()

    def _described(self, started_time: int) -> MemberFacts:
        """Say what operators are told of it."""
        return MemberFacts(
            self._settings.name_servers,
            self._settings.consume_type,
            frozenset(topic for topic, one in self._wanted.items() if one.ordered),
            started_time,
            tuple(one.data for one in self._wanted.values()),
        )

    async def _name_server_may_come(self, error: CometMQError) -> bool:
        """Check whether to wait for a name server, and log that, now and then."""
        if isinstance(error, NoRoute) or not await self.routes.may_come(error):
            return False
        now = asyncio.get_running_loop().time()
        if now >= self._wait_logged_at + LOG_AGAIN_S:
            self._wait_logged_at = now
            _log.warning(
                "consumer %s of group %s waits for a name server: %s",
                self._settings.client_id, self._settings.group, error,
            )  # fmt: skip
        return True

    async def _beat(self) -> None:
        settings = self._settings
        consumer = ConsumerData(
            settings.group,
            [one.data for one in self._wanted.values()],
            settings.consume_type,
            settings.model,
            settings.where,
        )
        brokers = self.routes.brokers()
        took = await beat(self.connections, brokers, Heartbeat(settings.client_id, consumers=[consumer]))
        self._is_known = took == brokers

    async def _beat_forever(self) -> None:
        while True:
            await wait_within(self._heartbeat_wanted, HEARTBEAT_S if self._is_known else BEAT_AGAIN_S)
            self._heartbeat_wanted.clear()
            was_known = self._is_known
            await self._beat()
            if self._is_known and not was_known:
                self.rebalancing.soon()

    async def _commit_forever(self, interval_s: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + interval_s
            await wait_within(self._commit_wanted, interval_s)
            self._commit_wanted.clear()
            while (left_s := due - loop.time()) > 0:
                await asyncio.sleep(min(BREATH_S, left_s))
                if not self.rebalancing.is_busy():
                    break
            await self.rebalancing.commit()

    def _on_open(self, address: str) -> None:
        """Tell a broker at once who is there, and all that is handled: it may know neither any more."""
        if address in self.routes.brokers():
            self._heartbeat_wanted.set()
            self.rebalancing.soon()
            self.rebalancing.commit_again()

    def _on_request(self, connection: Connection, command: Command) -> None:
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self.rebalancing.soon()
        elif command.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
            self.rebalancing.restart(decode(QueueOffsets, command.body).offsets)
        else:
            self._asked.answer(connection, command)

    def _run(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=f"{name} of {self._settings.client_id}")
        task.add_done_callback(_tell_failure)
        self._tasks.append(task)


def _tell_failure(task: "asyncio.Task[None]") -> None:
    """Log what ended a task that should not end: not everybody waits for it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("the %s has failed, and stands still from now on", task.get_name(), exc_info=error)
