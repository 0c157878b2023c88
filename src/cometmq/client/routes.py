"""Which brokers have a topic's queues: asked of the name servers, and remembered for a while."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cometmq.arguments import TEXT, check
from cometmq.client.answer import ServerKind, check_kind, successful
from cometmq.cluster.route import MASTER, QueueCounts, Route
from cometmq.errors import (
    CometMQError,
    NetworkError,
    NoRoute,
    SettingsError,
    WrongProtocol,
    WrongServer,
)
from cometmq.message import MessageQueue
from cometmq.net.address import parse_address
from cometmq.net.client import Connections
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.route import ClusterInfo, TopicRoute
from cometmq.wire.bodies.topic import TopicNames
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import DEFAULT_TOPIC, GetRouteHeader, fields

REFRESH_S = 30.0
"""How old a route may be."""
RETRY_S = 1.0
"""How soon to ask again where no name server answered: until then the route is used that is known."""
GONE_S = 60.0
"""How long producers and members of groups wait until they believe that a topic is gone: a name server that
was started anew hears of a broker only when that registers next, which Java's do each 30 s."""
NEW_TOPIC_QUEUES = 4
"""Most queues that a producer wants a new topic to have."""


class _Known(NamedTuple):
    """A route, until when it counts as fresh on the loop's clock, and since when no name server knows it."""

    route: Route
    fresh_until: float
    denied_at: float | None
    loop: asyncio.AbstractEventLoop  # to ask for the one that runs costs as much as all the rest of a look-up


def parse_name_servers(text: str) -> list[str]:
    """Give the addresses of ``host:port;host:port``. Raises SettingsError for one that is none."""
    check(TEXT, name_servers=text)
    addresses = [address.strip() for address in text.split(";") if address.strip()]
    if not addresses:
        raise SettingsError(f"name servers {text!r}: give at least one host:port, several joined by ;")
    for address in addresses:
        parse_address(address)
    return addresses


class Routes:
    """Routes by topic.

    Clients outlive their name servers: while none gives an answer that is of use, the routes that are known
    are used on.

    Args:
        name_servers: asked in turn until one answers; the one that did is asked first next time.
        gone_s: how long a name server must know nothing of a topic until a route that is known is given up.
    """

    def __init__(self, connections: Connections, name_servers: Sequence[str], *, gone_s: float = 0.0) -> None:
        self._gone_s = gone_s
        self._connections = connections
        self._name_servers = list(name_servers)
        self._known: dict[str, _Known] = {}
        self._asking: dict[str, asyncio.Task[Route]] = {}

    async def get(self, topic: str) -> Route:
        """Give a topic's route, at most 30 s old if a name server knows it.

        Raises, if no route is known from before:
            NoRoute: the name server knows no broker for the topic; and has done so for ``gone_s``.
            NetworkError: no name server answers.
            RemoteError, FormatError: a name server refuses, or answers what is no route.
        """
        if (route := self.fresh(topic)) is not None:
            return route
        task = self._asking.get(topic)
        if task is None:  # all who want the route at this time share one request
            task = self._asking[topic] = asyncio.create_task(self._refresh(topic))
            task.add_done_callback(_retrieve_error)
        return await asyncio.shield(task)

    def fresh(self, topic: str) -> Route | None:
        """Give a topic's route if it is known and not too old: what nearly all sends need, without a wait."""
        known = self._known.get(topic)
        if known is not None and known.loop.time() < known.fresh_until:
            return known.route
        return None

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

    async def topics(self) -> list[str]:
        """Give the names of all topics, sorted. Raises NetworkError or RemoteError."""
        _, answer = await self.ask_any(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return sorted(decode(TopicNames, successful(answer).body).topics)

    async def has_brokers(self) -> bool:
        """Check whether a name server knows any broker. Raises NetworkError, RemoteError, FormatError."""
        _, answer = await self.ask_any(RequestCode.GET_BROKER_CLUSTER_INFO)
        return bool(decode(ClusterInfo, successful(answer).body).brokers)

    async def may_come(self, error: CometMQError) -> bool:
        """Check whether a route that was not found may come by waiting: no server is there yet, or no broker.

        A topic that is not there does not count: its name may be wrong.
        """
        if self._connections.is_closed or not error.retriable:
            return False
        if not isinstance(error, NoRoute):
            return isinstance(error, NetworkError)
        try:
            return not await self.has_brokers()
        except NetworkError:
            return True

    async def master(self, queue: MessageQueue) -> str:
        """Give the address of a queue's master. Raises like ``get``, and NoRoute if there is none."""
        address = (await self.get(queue.topic)).master(queue.broker_name)
        if address is None:
            raise NoRoute(f"no master of broker {queue.broker_name!r} is known for topic {queue.topic!r}")
        return address

    def brokers(self, *, masters_only: bool = False) -> set[str]:
        """Give the addresses of the brokers of all topics that were asked for."""
        return {
            address
            for known in self._known.values()
            for by_id in known.route.addresses.values()
            for broker_id, address in by_id.items()
            if broker_id == MASTER or not masters_only
        }

    def forget(self, topic: str) -> None:
        """Ask again next time: a broker of the topic does not answer."""
        if (known := self._known.get(topic)) is not None:
            self._known[topic] = known._replace(fresh_until=0.0)

    async def _refresh(self, topic: str) -> Route:
        now = asyncio.get_running_loop().time
        try:
            route = await self._ask(topic)
        except CometMQError as error:
            if (known := self._known.get(topic)) is None:
                raise
            if isinstance(error, NoRoute):
                denied_at = now() if known.denied_at is None else known.denied_at
                if now() - denied_at >= self._gone_s:
                    del self._known[topic]
                    raise
                known = known._replace(denied_at=denied_at)
            self._known[topic] = known._replace(fresh_until=now() + RETRY_S)
            return known.route
        finally:
            del self._asking[topic]
        self._known[topic] = _Known(route, now() + REFRESH_S, None, asyncio.get_running_loop())
        return route

    async def _ask(self, topic: str) -> Route:
        header = GetRouteHeader(topic=topic, standard_json_only=True)
        address, answer = await self.ask_any(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields(header))
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            why = f"no route for topic {topic!r}: name server {address} says: {answer.remark}"
            raise NoRoute(why, topic)
        return _route(topic, decode(TopicRoute, successful(answer).body))

    async def ask_any(
        self, code: RequestCode, request_fields: Mapping[str, str] | None = None
    ) -> tuple[str, Command]:
        """Return the answer of the first name server that has one, and its address.

        Raises:
            NetworkError: none answers.
            WrongServer, WrongProtocol: none of the addresses is a name server's, and this is why.
        """
        failures: list[NetworkError | WrongServer] = []
        for address in list(self._name_servers):
            command = Command(code, ext_fields=dict(request_fields or {}))
            try:
                answer = await self._connections.request(address, command)
                await check_kind(self._connections, address, answer, ServerKind.NAME_SERVER)
            except (NetworkError, WrongServer) as error:
                failures.append(error)
                if self._name_servers[0] == address:  # else another request has found it out
                    self._name_servers.append(self._name_servers.pop(0))
            else:
                return address, answer
        if all(isinstance(error, WrongServer | WrongProtocol) for error in failures):
            raise failures[0]
        raise NetworkError(f"no name server answers: {'; '.join(map(str, failures))}")


def _route(topic: str, body: TopicRoute) -> Route:
    counts = (
        QueueCounts(queue.broker_name, queue.read_queue_count, queue.write_queue_count, queue.perm)
        for queue in body.queues
    )
    return Route(topic, tuple(counts), {broker.broker_name: broker.addrs for broker in body.brokers})


def _retrieve_error(task: "asyncio.Task[Route]") -> None:
    """Keep asyncio from logging a failure that nobody waits for any more."""
    if not task.cancelled():
        task.exception()
