"""Ask brokers whether they accept a member's filters, when it starts or subscribes.

Every broker accepts tags. A condition in SQL92 needs the setting ``enablePropertyFilter``, and only a broker
can parse it. Without this question a consumer would start, and each of its pulls would fail.
(RocketMQ: MQClientInstance.java, checkClientInBroker, which asks one broker of each topic.)
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from cometmq.client.group.member_settings import MemberSettings
from cometmq.client.requests.queue_requests import SQL92
from cometmq.client.routes import Routes
from cometmq.errors import CometMQError, NetworkError, RemoteError
from cometmq.net.client import Connections
from cometmq.wire.bodies.body import encode
from cometmq.wire.bodies.heartbeat import ClientConfigCheck, SubscriptionData
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command

_REMEDIES: Final[dict[int, str]] = {
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: "correct the condition",
    ResponseCode.SYSTEM_ERROR: "set enablePropertyFilter=true at each broker of the topic, or filter by tags",
}
"""The codes by which a broker refuses a filter. Others, such as an unknown request, say nothing about it."""


class FilterChecks:
    """The checks of one member's filters; each broker is asked once about each."""

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
