"""Routes of topics: queried from the name servers and cached for a while."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cometmq.client.answer import ServerKind, check_kind, successful
from cometmq.cluster.route import MASTER, QueueCounts, Route
from cometmq.errors import (
    CometMQError,
    FormatError,
    NetworkError,
    NoRoute,
    WrongServer,
)
from cometmq.logs import get_logger
from cometmq.message import MessageQueue
from cometmq.net.client import Connections
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.route import ClusterInfo, TopicRoute
from cometmq.wire.bodies.topic import TopicNames
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import DEFAULT_TOPIC, DEFAULT_TOPIC_QUEUES, GetRouteHeader, fields

REFRESH_S = 30.0
"""How long a cached route is fresh."""
RETRY_S = 1.0
"""How long a cached route is used on when no name server responds, or a broker in it lacks a master."""
GONE_S = 60.0
"""How long a topic must be unknown to a name server before producers and group members drop its route: a
restarted name server knows a broker only when that registers next, which Java brokers do each 30 s."""


_log = get_logger(__name__)


class _CachedRoute(NamedTuple):
    """A route, until when it is fresh by the loop's clock, and since when no name server knows it."""

    route: Route
    fresh_until: float
    missing_since: float | None
    loop: asyncio.AbstractEventLoop  # finding the running loop would cost as much as the rest of a look-up


class Routes:
    """A cache of routes by topic.

    Clients survive a loss of all name servers: cached routes are used until one responds again.

    Args:
        name_servers: tried in turn until one responds; that one is tried first next time.
        gone_s: how long a topic must be unknown to a name server before its cached route is dropped.
    """

    def __init__(self, connections: Connections, name_servers: Sequence[str], *, gone_s: float = 0.0) -> None:
        self._gone_s = gone_s
        self._connections = connections
        self._name_servers = list(name_servers)
        self._cached: dict[str, _CachedRoute] = {}
        self._refreshing: dict[str, asyncio.Task[Route]] = {}
        self._unusable: dict[str, str] = {}  # by topic: why its route is none, as it was logged

    async def get(self, topic: str) -> Route:
        """Return a topic's route, at most 30 s old if a name server knows it, 1 s if a master is missing.

        Raises, if no route is cached:
            NoRoute: the name server knows no broker for the topic.
            NetworkError: no name server responds.
            RemoteError, FormatError: a name server refuses, or its response is not a route.
        Raises NoRoute also if one is cached and the topic has been unknown for ``gone_s``.
        """
        if (route := self.fresh(topic)) is not None:
            return route
        task = self._refreshing.get(topic)
        if task is None:  # concurrent callers share one request
            task = self._refreshing[topic] = asyncio.create_task(self._refresh(topic))
            task.add_done_callback(_retrieve_error)
        return await asyncio.shield(task)

    def fresh(self, topic: str) -> Route | None:
        """Return a topic's cached route if it is fresh: nearly all sends need only this, without a wait."""
        cached = self._cached.get(topic)
        if cached is not None and cached.loop.time() < cached.fresh_until:
            return cached.route
        return None

    async def get_for_sending(self, topic: str) -> Route:
        """Return a topic's route, or for a missing topic the route that it gets when a send creates it.

        Raises like ``get``.
        """
        try:
            return await self.get(topic)
        except NoRoute as error:
            try:
                default = await self.get(DEFAULT_TOPIC)
            except NoRoute:
                raise error from None
        queues = tuple(
            QueueCounts(
                counts.broker_name,
                min(counts.read_count, DEFAULT_TOPIC_QUEUES),
                min(counts.read_count, DEFAULT_TOPIC_QUEUES),
                counts.perm,
            )
            for counts in default.queues
        )
        return Route(topic, queues, default.addresses)

    async def topics(self) -> list[str]:
        """Return the names of all topics, sorted. Raises NetworkError or RemoteError."""
        _, answer = await self.ask_any(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return sorted(decode(TopicNames, successful(answer).body).topics)

    async def has_brokers(self) -> bool:
        """Return whether a name server knows any broker. Raises NetworkError, RemoteError, FormatError."""
        return bool((await self._cluster_info()).brokers)

    async def any_masters(self) -> set[str]:
        """Return the address of one master of each cluster. Raises like ``has_brokers``."""
        info = await self._cluster_info()
        found: dict[str, str] = {}
        for one in (info.brokers[name] for name in sorted(info.brokers)):
            if MASTER in one.addrs:
                found.setdefault(one.cluster, one.addrs[MASTER])
        return set(found.values())

    async def _cluster_info(self) -> ClusterInfo:
        _, answer = await self.ask_any(RequestCode.GET_BROKER_CLUSTER_INFO)
        return decode(ClusterInfo, successful(answer).body)

    async def may_appear(self, error: CometMQError) -> bool:
        """Return whether a missing route may appear later: no name server or no broker is there yet.

        A missing topic does not count: its name may be wrong.
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
        """Return the address of a queue's master. Raises like ``get``, and NoRoute if there is none."""
        return master_address(await self.get(queue.topic), queue)

    def brokers(self, *, masters_only: bool = False) -> set[str]:
        """Return the addresses of the brokers in all cached routes."""
        return {
            address
            for cached in self._cached.values()
            for by_id in cached.route.addresses.values()
            for broker_id, address in by_id.items()
            if broker_id == MASTER or not masters_only
        }

    def expire(self, topic: str) -> None:
        """Expire a topic's cached route, so that the next ``get`` queries a name server."""
        if (cached := self._cached.get(topic)) is not None:
            self._cached[topic] = cached._replace(fresh_until=0.0)

    async def _refresh(self, topic: str) -> Route:
        now = asyncio.get_running_loop().time
        try:
            route = await self._query(topic)
        except CometMQError as error:
            if isinstance(error, FormatError):
                self._log_once(topic, str(error))
            if (cached := self._cached.get(topic)) is None:
                raise
            if isinstance(error, NoRoute):
                missing_since = now() if cached.missing_since is None else cached.missing_since
                if now() - missing_since >= self._gone_s:
                    del self._cached[topic]
                    raise
                cached = cached._replace(missing_since=missing_since)
            self._cached[topic] = cached._replace(fresh_until=now() + RETRY_S)
            return cached.route
        finally:
            del self._refreshing[topic]
        self._unusable.pop(topic, None)
        has_masters = all(route.master(counts.broker_name) is not None for counts in route.queues)
        fresh_until = now() + (REFRESH_S if has_masters else RETRY_S)
        self._cached[topic] = _CachedRoute(route, fresh_until, None, asyncio.get_running_loop())
        return route

    def _log_once(self, topic: str, reason: str) -> None:
        """Log why a topic's route cannot be used, unless that was logged and no route has come since."""
        if self._unusable.get(topic) != reason:
            self._unusable[topic] = reason
            _log.warning("no route of topic %.300r can be used: %s", topic, reason)

    async def _query(self, topic: str) -> Route:
        header = GetRouteHeader(topic=topic, standard_json_only=True)
        address, answer = await self.ask_any(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields(header))
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            why = f"no route for topic {topic!r}: name server {address} says: {answer.remark}"
            raise NoRoute(why, topic)
        return route_of(topic, decode(TopicRoute, successful(answer).body))

    async def ask_any(
        self, code: RequestCode, request_fields: Mapping[str, str] | None = None
    ) -> tuple[str, Command]:
        """Send a request to the name servers in turn; return the first response and its address.

        Raises:
            NetworkError: none responds.
            WrongServer, WrongProtocol, TLSError: none of the addresses is a name server's, or none accepts
            TLS as it is asked for.
        """
        failures: list[NetworkError | WrongServer] = []
        for address in list(self._name_servers):
            command = Command(code, ext_fields=dict(request_fields or {}))
            try:
                answer = await self._connections.request(address, command)
                await check_kind(self._connections, address, answer, ServerKind.NAME_SERVER)
            except (NetworkError, WrongServer) as error:
                failures.append(error)
                if self._name_servers[0] == address:  # else another request has moved it already
                    self._name_servers.append(self._name_servers.pop(0))
            else:
                return address, answer
        if not any(error.retriable for error in failures):
            raise failures[0]
        raise NetworkError(f"no name server answers: {'; '.join(map(str, failures))}")


def master_address(route: Route, queue: MessageQueue) -> str:
    """Return the address of a queue's master. Raises NoRoute if the route has none."""
    address = route.master(queue.broker_name)
    if address is None:
        raise NoRoute(f"no master of broker {queue.broker_name!r} is known for topic {queue.topic!r}")
    return address


def route_of(topic: str, body: TopicRoute) -> Route:
    """Return a topic's route, as a name server has sent it. Raises FormatError for a count of queues."""
    counts = (
        QueueCounts(queue.broker_name, queue.read_queue_count, queue.write_queue_count, queue.perm)
        for queue in body.queues
    )
    return Route(topic, tuple(counts), {broker.broker_name: broker.addrs for broker in body.brokers})


def _retrieve_error(task: "asyncio.Task[Route]") -> None:
    """Keep asyncio from logging an error that no caller waits for any more."""
    if not task.cancelled():
        task.exception()
