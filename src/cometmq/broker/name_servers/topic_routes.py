"""The routes of topics on all brokers of the cluster, as the name servers know them, for assignments.

A route is queried when it is first needed, and again when it is needed and older than
``loadBalancePollNameServerInterval``; all that need it meanwhile wait for the same query. While no name
server answers, the last route is used on. A broker without name servers knows its own queues only.
(RocketMQ: TopicRouteInfoManager.java, which queries all routes that were ever needed at that interval.)
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from cometmq.broker.settings import BrokerSettings
from cometmq.broker.state.topics import Topics
from cometmq.client.routes import route_of
from cometmq.cluster.route import READ, QueueCounts, Route
from cometmq.errors import CometMQError, NetworkError, RemoteError
from cometmq.io.clock import Clock
from cometmq.logs import get_logger
from cometmq.net.client import Connections
from cometmq.wire.bodies import TopicRoute, decode
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import GetRouteHeader, fields

QUERY_S_MAX: Final = 1.0
"""Most time for a name server's answer. Clients wait 3 s for theirs, so two name servers may be lost."""
ROUTES_MAX: Final = 10_000
"""Most routes that are kept; the oldest one makes room for another."""
WAITING_MAX: Final = 10_000
"""Most callbacks that wait for name servers; further ones get no route."""

RouteCallback: TypeAlias = Callable[[Route | None], None]
"""Called with a topic's route; None if no name server knows one, or none answers."""

_log = get_logger(__name__)


class TopicRoutes:
    """The routes of topics, queried from the name servers of the settings."""

    def __init__(self, topics: Topics, settings: BrokerSettings, clock: Clock) -> None:
        self._topics = topics
        self._broker_name = settings.identity.broker_name
        self._name_servers = list(settings.network.name_servers)
        self._fresh_ms = settings.assignments.load_balance_poll_name_server_interval
        self._clock = clock
        self._connections = Connections(
            credentials=settings.auth.inner_credentials, tls=settings.tls.name_server_tls
        )
        self._known: dict[str, _KnownRoute] = {}  # the oldest first
        self._waiting: dict[str, list[RouteCallback]] = {}
        self._waiting_count = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def when_known(self, topic: str, action: RouteCallback) -> None:
        """Call ``action``, which must not raise, with a topic's route: at once, or when it is queried."""
        known = self._known.get(topic)
        if known is not None and self._clock.monotonic_ms() < known.fresh_until_ms:
            action(known.route)
        elif not self._name_servers:
            action(self._own_route(topic))
        elif self._waiting_count >= WAITING_MAX:
            action(None)
        else:
            if topic not in self._waiting:
                self._waiting[topic] = []
                task = asyncio.create_task(self._refresh(topic))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            self._waiting[topic].append(action)
            self._waiting_count += 1

    async def stop(self) -> None:
        """Close the connections to the name servers; callbacks that wait are not called any more."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._connections.close()

    def _own_route(self, topic: str) -> Route | None:
        own = self._topics.find(topic)
        if own is None:
            return None
        counts = QueueCounts(self._broker_name, own.read_queue_count, own.write_queue_count, own.perm)
        return _readable(Route(topic, (counts,), {}))

    async def _refresh(self, topic: str) -> None:
        """Query a route, and call the callbacks that wait for it."""
        known = self._known.get(topic)
        try:
            route = await self._query(topic)
        except NetworkError:  # the registration logs that, and once
            route = None if known is None else known.route
        self._known.pop(topic, None)
        if route is not None:
            self._known[topic] = _KnownRoute(route, self._clock.monotonic_ms() + self._fresh_ms)
        if len(self._known) > ROUTES_MAX:
            del self._known[next(iter(self._known))]
        actions = self._waiting.pop(topic)
        self._waiting_count -= len(actions)
        for action in actions:
            action(route)

    async def _query(self, topic: str) -> Route | None:
        """Query the name servers in turn; one that does not answer is the last one next time.

        Returns None if there is no route with a queue that can be read. Raises NetworkError if none answers.
        """
        for address in tuple(self._name_servers):
            try:
                async with asyncio.timeout(QUERY_S_MAX):
                    return await self._query_one(address, topic)
            except (CometMQError, TimeoutError) as error:
                _log.debug("name server %s gives no route: %s", address, error)
                self._name_servers.remove(address)
                self._name_servers.append(address)
        raise NetworkError(f"no name server answers: {', '.join(self._name_servers)}")

    async def _query_one(self, address: str, topic: str) -> Route | None:
        header = GetRouteHeader(topic, standard_json_only=True)
        command = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext_fields=fields(header))
        answer = await self._connections.request(address, command)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise RemoteError(answer.code, answer.remark or "")
        return _readable(route_of(topic, decode(TopicRoute, answer.body)))


class _KnownRoute(NamedTuple):
    """A route, and until when it is fresh, ms on the monotonic clock."""

    route: Route
    fresh_until_ms: int


def _readable(route: Route) -> Route | None:
    """Return a route, or None if it has no queue that can be read."""
    return route if any(counts.perm & READ and counts.read_count > 0 for counts in route.queues) else None
