"""Which brokers have a topic's queues: asked of the name servers, and remembered for a while."""

import asyncio
from collections.abc import Sequence

from cometmq.cluster.route import QueueCounts, Route
from cometmq.errors import NetworkError, NoRoute, RemoteError, SettingsError
from cometmq.net.address import parse_address
from cometmq.net.client import Connections
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.route import TopicRoute
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import GetRouteHeader, fields

REFRESH_S = 30.0
DEFAULT_TOPIC = "TBW102"
"""The topic whose route tells where a topic that is not there yet can be made."""
NEW_TOPIC_QUEUES = 4
"""Most queues that a producer wants a new topic to have."""


def parse_name_servers(text: str) -> list[str]:
    """Give the addresses of ``host:port;host:port``. Raises SettingsError for one that is none."""
    addresses = [address.strip() for address in text.split(";") if address.strip()]
    if not addresses:
        raise SettingsError(f"name servers {text!r}: give at least one host:port, several joined by ;")
    for address in addresses:
        parse_address(address)
    return addresses


class Routes:
    """Routes by topic.

    Args:
        name_servers: asked in turn until one answers; the one that did is asked first next time.
    """

    def __init__(self, connections: Connections, name_servers: Sequence[str]) -> None:
        self._connections = connections
        self._name_servers = list(name_servers)
        self._known: dict[str, tuple[float, Route]] = {}

    async def get(self, topic: str) -> Route:
        """Give a topic's route, at most 30 s old.

        Raises:
            NoRoute: the name server knows no broker for the topic.
            NetworkError: no name server answers.
        """
        now = asyncio.get_running_loop().time()
        known = self._known.get(topic)
        if known is not None and now - known[0] < REFRESH_S:
            return known[1]
        route = await self._ask(topic)
        self._known[topic] = (now, route)
        return route

    async def get_for_sending(self, topic: str) -> Route:
        """Give a topic's route; for one that is not there yet, where a send would make it.

        Raises like ``get``.
        """
        try:
            return await self.get(topic)
        except NoRoute as error:
            try:
                default = await self.get(DEFAULT_TOPIC)
            except NoRoute:
                raise error from None
        made = tuple(
            QueueCounts(
                counts.broker_name,
                min(counts.read_count, NEW_TOPIC_QUEUES),
                min(counts.read_count, NEW_TOPIC_QUEUES),
                counts.perm,
            )
            for counts in default.queues
        )
        return Route(topic, made, default.addresses)

    def forget(self, topic: str) -> None:
        """Ask again next time: a broker of the topic does not answer."""
        self._known.pop(topic, None)

    async def _ask(self, topic: str) -> Route:
        command_fields = fields(GetRouteHeader(topic=topic, standard_json_only=True))
        failures = []
        for address in list(self._name_servers):
            command = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext_fields=dict(command_fields))
            try:
                answer = await self._connections.request(address, command)
            except NetworkError as error:
                failures.append(str(error))
                self._name_servers.append(self._name_servers.pop(0))
                continue
            if answer.code == ResponseCode.TOPIC_NOT_EXIST:
                raise NoRoute(f"no route for topic {topic!r}: name server {address} says: {answer.remark}")
            if answer.code != ResponseCode.SUCCESS:
                raise RemoteError(answer.code, answer.remark or "")
            return _route(topic, decode(TopicRoute, answer.body))
        raise NetworkError(f"no name server answers: {'; '.join(failures)}")


def _route(topic: str, body: TopicRoute) -> Route:
    counts = (
        QueueCounts(queue.broker_name, queue.read_queue_count, queue.write_queue_count, queue.perm)
        for queue in body.queues
    )
    return Route(topic, tuple(counts), {broker.broker_name: broker.addrs for broker in body.brokers})
