"""The brokers behind the proxy: connections, routes, and what is cached of topics and groups.

All requests of one proxy share its connections; each goes by the building blocks of our own client.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from cometmq.client.answer import successful
from cometmq.client.producer.sending import Sender, SendSettings
from cometmq.client.requests.pop_requests import PopRequests
from cometmq.client.requests.queue_requests import QueueRequests
from cometmq.client.routes import GONE_S, Routes
from cometmq.cluster.route import MASTER, Route
from cometmq.errors import NoRoute
from cometmq.io.clock import Clock
from cometmq.net.client import Connections
from cometmq.net.connection import Connection, refuse_request
from cometmq.net.tls.client import TLS
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.messages.message_types import accepted_types
from cometmq.proxy.outcomes import Failure
from cometmq.wire.acl import Credentials
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.group import GroupConfig
from cometmq.wire.bodies.topic import TopicConfig
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import fields
from cometmq.wire.headers.admin import GroupHeader, TopicHeader

REQUEST_TIMEOUT_MS: Final = 3_000
FRESH_S: Final = 20.0
"""How long the settings of a topic or a group are fresh."""
CACHED_MAX: Final = 10_000
"""Most topics, and most groups, of which something is cached."""

_ValueT = TypeVar("_ValueT")


class _Cached(NamedTuple, Generic[_ValueT]):
    """A value, and until when it is fresh by the event loop's clock."""

    value: _ValueT
    fresh_until: float


class Brokers:
    """The brokers of one cluster, or several, that some name servers know.

    Args:
        on_request: called with each request that a broker sends.
        credentials: sign all requests.
        tls: how to connect by TLS; None to connect plainly.
    """

    def __init__(
        self,
        name_servers: Sequence[str],
        clock: Clock,
        on_request: Callable[[Connection, Command], None] = refuse_request,
        *,
        credentials: Credentials | None = None,
        tls: TLS | None = None,
    ) -> None:
        self.clock = clock
        self.connections = Connections(on_request, credentials=credentials, tls=tls)
        self.routes = Routes(self.connections, name_servers, gone_s=GONE_S)
        self._senders: dict[str, Sender] = {}
        self._pops: dict[str, PopRequests] = {}
        self._pulls: dict[str, QueueRequests] = {}
        self._types: dict[str, _Cached[tuple[pb.MessageType, ...]]] = {}
        self._groups: dict[str, _Cached[GroupConfig]] = {}

    async def close(self) -> None:
        """Close all connections."""
        await self.connections.close()

    def sender(self, topic: str) -> Sender:
        """Return the sender of a topic's messages; its producer group has the name of the topic.

        It tries once: the client tries again, and must know how often.
        """
        settings = SendSettings(topic, REQUEST_TIMEOUT_MS, tries=1)
        return _kept(
            self._senders, topic, lambda: Sender(self.connections, self.routes, settings, self.clock)
        )

    def pops(self, group: str) -> PopRequests:
        """Return what pops for a group."""
        return _kept(
            self._pops,
            group,
            lambda: PopRequests(self.connections, self.routes, group, REQUEST_TIMEOUT_MS),
        )

    def pulls(self, group: str) -> QueueRequests:
        """Return what pulls for a group, and commits its offsets."""
        return _kept(
            self._pulls,
            group,
            lambda: QueueRequests(self.connections, self.routes, group, REQUEST_TIMEOUT_MS),
        )

    async def route(self, topic: str) -> Route:
        """Return a topic's route. Raises NoRoute, NetworkError or RemoteError."""
        try:
            return await self.routes.get(topic)
        except NoRoute:
            text = f"CODE: 17  DESC: No topic route info in name server for the topic: {topic}"
            raise NoRoute(f"{text}: create it, by cometmq topic create for example", topic) from None

    async def accepted_types(self, topic: str) -> tuple[pb.MessageType, ...]:
        """Return the types of messages that a topic accepts. Raises like ``route``."""
        return await _fresh(self._types, topic, self._query_types)

    async def group(self, group: str, topic: str) -> GroupConfig:
        """Return a group's settings, as a broker of the topic has them.

        Raises like ``route``, and Failure if it knows no such group.
        """

        async def query(name: str) -> GroupConfig:
            header = fields(GroupHeader(name))
            answer = await self._ask_one(topic, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header)
            if answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                raise Failure(
                    pb.ILLEGAL_CONSUMER_GROUP,
                    f"group not found: {name}: create it, by cometmq group create for example",
                )
            return decode(GroupConfig, successful(answer).body)

        return await _fresh(self._groups, group, query)

    async def _query_types(self, topic: str) -> tuple[pb.MessageType, ...]:
        answer = await self._ask_one(topic, RequestCode.GET_TOPIC_CONFIG, fields(TopicHeader(topic)))
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            raise NoRoute(f"topic {topic!r}: {answer.remark or 'its broker does not know it'}", topic)
        return accepted_types(decode(TopicConfig, successful(answer).body).attributes)

    async def _ask_one(self, topic: str, code: RequestCode, header: Mapping[str, str]) -> Command:
        """Send a request to one of a topic's masters; return the response."""
        route = await self.route(topic)
        masters = sorted(by_id[MASTER] for by_id in route.addresses.values() if MASTER in by_id)
        if not masters:
            raise NoRoute(f"topic {topic!r} has no broker with a master now", topic)
        return await self.connections.request(masters[0], Command(code, ext_fields=dict(header)))


def _kept(values: dict[str, _ValueT], name: str, make: Callable[[], _ValueT]) -> _ValueT:
    """Return the value of a name, made if there is none; the oldest ones are dropped."""
    value = values.get(name)
    if value is None:
        value = values[name] = make()
        if len(values) > CACHED_MAX:
            del values[next(iter(values))]
    return value


async def _fresh(
    cached: dict[str, _Cached[_ValueT]], name: str, query: Callable[[str], Awaitable[_ValueT]]
) -> _ValueT:
    """Return a cached value if it is fresh, else query it."""
    now = asyncio.get_running_loop().time()
    found = cached.get(name)
    if found is not None and now < found.fresh_until:
        return found.value
    value = await query(name)
    cached.pop(name, None)
    cached[name] = _Cached(value, now + FRESH_S)
    if len(cached) > CACHED_MAX:
        del cached[next(iter(cached))]
    return value
