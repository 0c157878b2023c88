"""The consumers of a broker: one for each group, shared by the subscribers of that group.

All members of a group must have the same subscriptions, so subscribers that name the same group are one
member of it, with several topics.
"""

import asyncio
from typing import NamedTuple

from faststream.exceptions import SetupError

from cometmq.client.consumer.consumer import Consumer, Model
from cometmq.client.consumer.lite_pull import LitePullConsumer
from cometmq.client.handling.handle_hooks import HandleHook
from cometmq.client.handling.start import Start
from cometmq.client.handling.subscription import Subscription
from cometmq.client.requests.heartbeat import HEARTBEAT_INTERVAL_MS
from cometmq.net.tls.client import TLS
from cometmq.wire.acl import Credentials


class Connecting(NamedTuple):
    """How the clients of a broker connect; see ``Producer`` and ``Consumer``."""

    name_servers: str
    credentials: Credentials | None = None
    tls: TLS | bool | None = None
    start_timeout_ms: int | None = None
    stop_timeout_ms: int = 30_000
    hooks: tuple[HandleHook, ...] = ()
    heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS


class GroupOptions(NamedTuple):
    """The options in which all subscribers of a group agree; see ``Consumer``."""

    start: Start = Start.LAST
    max_workers: int = 1
    max_reconsume_times: int | None = None
    pop: bool = False
    broadcasting: bool = False


class GroupConsumers:
    """The consumers of one broker, by group."""

    def __init__(self, connecting: Connecting) -> None:
        self._connecting = connecting
        self._consumers: dict[str, tuple[GroupOptions, Consumer]] = {}
        self._started: set[str] = set()
        self.are_running = False
        """Whether ``start`` was called: then a new subscriber must be started by it, too."""

    def subscribe(self, group: str, options: GroupOptions, subscription: Subscription) -> None:
        """Subscribe a group to a topic.

        Raises:
            SetupError: another subscriber of the group has other options, or no group is named.
            SettingsError: another subscriber of the group has this topic.
        """
        if not group:
            raise SetupError(
                f"topic {subscription.topic!r}: name the consumer group: "
                "RocketMQBroker(..., group='billing') or broker.subscriber(..., group='billing')"
            )
        agreed, consumer = self._consumers.get(group) or (options, self._new_consumer(group, options))
        if agreed != options:
            differing = [name for name in options._fields if getattr(agreed, name) != getattr(options, name)]
            raise SetupError(
                f"group {group!r}: its subscribers must agree in {', '.join(differing)}; "
                f"topic {subscription.topic!r} differs: use another group"
            )
        consumer.subscribe(
            subscription.topic,
            subscription.handler,
            subscription.tags,
            sql=subscription.sql,
            ordered=subscription.ordered,
        )
        self._consumers[group] = options, consumer

    def unsubscribe(self, group: str, topic: str) -> None:
        """Unsubscribe a group from a topic; nothing happens once all have stopped."""
        if group in self._consumers:
            self._consumers[group][1].unsubscribe(topic)

    async def start(self) -> None:
        """Start the consumers that have not started yet. Raises like ``Consumer.start``."""
        self.are_running = True
        for group in self._consumers.keys() - self._started:
            self._started.add(group)
            await self._consumers[group][1].start()

    async def stop(self) -> None:
        """Stop all: wait for the running handlers, commit, leave the groups."""
        consumers, self._consumers = self._consumers, {}
        self._started.clear()
        self.are_running = False
        await asyncio.gather(*(consumer.stop() for _, consumer in consumers.values()))

    def new_poller(self, group: str, options: GroupOptions) -> LitePullConsumer:
        """Create a consumer that is asked for messages, for a subscriber without handlers."""
        how = self._connecting
        return LitePullConsumer(
            how.name_servers,
            group,
            start=options.start,
            start_timeout_ms=how.start_timeout_ms,
            heartbeat_interval_ms=how.heartbeat_interval_ms,
            credentials=how.credentials,
            tls=how.tls,
        )

    def _new_consumer(self, group: str, options: GroupOptions) -> Consumer:
        how = self._connecting
        return Consumer(
            how.name_servers,
            group,
            pop=options.pop,
            model=Model.BROADCASTING if options.broadcasting else Model.CLUSTERING,
            start=options.start,
            max_concurrency=options.max_workers,
            max_reconsume_times=options.max_reconsume_times,
            start_timeout_ms=how.start_timeout_ms,
            heartbeat_interval_ms=how.heartbeat_interval_ms,
            stop_timeout_ms=how.stop_timeout_ms,
            hooks=how.hooks,
            credentials=how.credentials,
            tls=how.tls,
        )
