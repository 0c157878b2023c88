"""The heartbeats of a member of a consumer group: the first one joins the group, the others keep it there.

Before it joins, brokers are asked whether they accept its filters.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from cometmq.client.background import start_task
from cometmq.client.group.member_settings import MemberSettings
from cometmq.client.group.missing_topics import MissingTopics
from cometmq.client.requests.heartbeat import send_heartbeat, unregister
from cometmq.client.requests.queue_requests import SQL92
from cometmq.client.routes import Routes
from cometmq.client.waiting import retry_while, wait_within
from cometmq.errors import CometMQError, NetworkError, NoRoute, RemoteError
from cometmq.logs import get_logger
from cometmq.net.client import Connections
from cometmq.wire.bodies.body import encode
from cometmq.wire.bodies.heartbeat import ClientConfigCheck, ConsumerData, Heartbeat, SubscriptionData
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command

HEARTBEAT_RETRY_S: Final = 5.0
"""How soon a heartbeat is sent again that not all brokers accepted: the others do not know the member."""
WAIT_LOG_S: Final = 60.0
"""How often a start that waits for a name server logs that."""

_REMEDIES: Final[dict[int, str]] = {
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: "correct the condition",
    ResponseCode.SYSTEM_ERROR: "set enablePropertyFilter=true at each broker of the topic, or filter by tags",
}
"""The codes by which a broker refuses a filter. Others, such as an unknown request, say nothing about it."""

_log = get_logger(__name__)


class MemberHeartbeats:
    """Registers a member with all brokers of its topics.

    Args:
        subscriptions: returns the present subscriptions.
        on_registered: called when all brokers accept a heartbeat after one that not all did.
    """

    def __init__(
        self,
        connections: Connections,
        routes: Routes,
        settings: MemberSettings,
        subscriptions: Callable[[], list[SubscriptionData]],
        on_registered: Callable[[], None] = lambda: None,
    ) -> None:
        self._connections = connections
        self._routes = routes
        self._settings = settings
        self._subscriptions = subscriptions
        self._on_registered = on_registered
        self._missing = MissingTopics(
            routes, settings.group, lambda: [one.topic for one in self._subscriptions()]
        )
        self._filters = FilterChecks(connections, routes, settings)
        self._stand_ins: set[str] = set()
        self._due = asyncio.Event()
        self._is_registered = False
        self._wait_logged_at = -math.inf

    async def find_routes(self, topics: Iterable[str]) -> None:
        """Query the routes of topics; wait for a name server. Raises NetworkError or RemoteError.

        Brokers and topics may appear later.
        """
        for topic in topics:
            with suppress(NoRoute):
                await retry_while(
                    self._name_server_may_appear,
                    partial(self._routes.get, topic),
                    self._settings.start_timeout_ms,
                )

    async def find(self, subscriptions: Mapping[str, SubscriptionData]) -> None:
        """Query the routes of subscriptions by topic, and ask their brokers whether they accept the filters.

        Raises like ``find_routes``; RemoteError also for a filter that a broker refuses.
        """
        await self.find_routes(subscriptions)
        await self._filters.check(subscriptions.values())

    async def send(self) -> None:
        """Send a heartbeat to all brokers of the known routes.

        As long as there are none, one broker of each cluster gets it, so that operators see the member.
        """
        settings = self._settings
        consumer = ConsumerData(
            settings.group,
            self._subscriptions(),
            settings.consume_type,
            settings.model,
            settings.where,
        )
        brokers = self._routes.brokers()
        heartbeat = Heartbeat(settings.client_id, consumers=[consumer])
        if not brokers:
            with suppress(CometMQError):
                self._stand_ins |= await self._routes.any_masters()
        accepted = await send_heartbeat(self._connections, brokers or self._stand_ins, heartbeat)
        self._is_registered = bool(brokers) and accepted == brokers

    def send_soon(self) -> None:
        """Send the next heartbeat without waiting for the interval."""
        self._due.set()
        self._missing.check_soon()

    async def run(self) -> None:
        """Send heartbeats at the settings' interval, and at ``send_soon``.

        Missing topics, and filters that brokers refuse which were not asked before, are logged.
        """
        interval_s = self._settings.heartbeat_interval_ms / 1000
        retry_s = min(HEARTBEAT_RETRY_S, interval_s)
        watching = start_task(self._missing.run(), f"watch over the topics of {self._settings.client_id}")
        try:
            while True:
                await wait_within(self._due, interval_s if self._is_registered else retry_s)
                self._due.clear()
                was_registered = self._is_registered
                await self.send()
                for error in await self._filters.refusals(self._subscriptions()):
                    _log.error("group %s gets no messages: %s", self._settings.group, error)
                if self._is_registered and not was_registered:
                    self._on_registered()
        finally:
            watching.cancel()

    async def unregister(self) -> None:
        """Leave the group."""
        settings = self._settings
        brokers = self._routes.brokers() | self._stand_ins
        await unregister(self._connections, brokers, settings.client_id, consumer_group=settings.group)

    async def _name_server_may_appear(self, error: CometMQError) -> bool:
        """Return whether to wait for a name server; log that at intervals."""
        if isinstance(error, NoRoute) or not await self._routes.may_appear(error):
            return False
        now = asyncio.get_running_loop().time()
        if now >= self._wait_logged_at + WAIT_LOG_S:
            self._wait_logged_at = now
            _log.warning(
                "consumer %s of group %s waits for a name server: %s",
                self._settings.client_id, self._settings.group, error,
            )  # fmt: skip
        return True


class FilterChecks:
    """Asks brokers whether they accept a member's filters; each is asked once about each.

    Every broker accepts tags. A condition in SQL92 needs the setting ``enablePropertyFilter``, and only a
    broker can parse it. Without this question a consumer would start, and each of its pulls would fail.
    (RocketMQ: MQClientInstance.java, checkClientInBroker, which asks one broker of each topic.)
    """

    def __init__(self, connections: Connections, routes: Routes, settings: MemberSettings) -> None:
        self._connections = connections
        self._routes = routes
        self._settings = settings
        self._asked: set[tuple[str, str, str]] = set()

    async def refusals(self, subscriptions: Iterable[SubscriptionData]) -> list[RemoteError]:
        """Return the refusals of filters by brokers that were not asked about them before.

        Brokers that are away, or do not know the request, are passed over.
        """
        sql = [one for one in subscriptions if one.expression_type == SQL92]
        asked = [(address, one) for one in sql for address in await self._brokers(one.topic)]
        found = await asyncio.gather(*(self._ask(address, one) for address, one in asked))
        return [error for error in found if error is not None]

    async def check(self, subscriptions: Iterable[SubscriptionData]) -> None:
        """Raise the first of the refusals, if there are any."""
        for error in await self.refusals(subscriptions):
            raise error

    async def _brokers(self, topic: str) -> set[str]:
        """Return the addresses of the masters from which a topic can be read, as far as known."""
        with suppress(CometMQError):
            route = await self._routes.get(topic)
            masters = {route.master(queue.broker_name) for queue in route.subscribe_queues()}
            return {address for address in masters if address is not None}
        return set()

    async def _ask(self, address: str, subscription: SubscriptionData) -> RemoteError | None:
        key = address, subscription.topic, subscription.expression
        if key in self._asked:
            return None
        settings = self._settings
        body = encode(ClientConfigCheck(settings.client_id, settings.group, subscription))
        command = Command(RequestCode.CHECK_CLIENT_CONFIG, ext_fields={}, body=body)
        try:
            answer = await self._connections.request(address, command)
        except NetworkError:
            return None
        self._asked.add(key)
        if (remedy := _REMEDIES.get(answer.code)) is None:
            return None
        where = f"sql {subscription.expression!r} of topic {subscription.topic!r}, broker at {address}"
        said = " ".join((answer.remark or "").split())  # a Java broker says it in many lines
        return RemoteError(answer.code, f"{said} [{where}: {remedy}]")
