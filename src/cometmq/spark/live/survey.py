"""Find the queues of a subscription, and their offsets, by one request for each topic and broker.

Theory of operation. GET_TOPIC_STATS_INFO returns the first and end offsets of all queues that a topic has on
a broker, so the requests of a trigger without messages do not grow with the number of queues. A response
that equals the one before is not decoded again: of very many queues that takes longer than all else. Routes
are cached for half a minute, as in clients, and requested again before that if a broker has another number
of queues than its route says, does not know the topic, or does not respond. Servers without this request (a
proxy, for instance) get requests for each queue, some at a time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from cometmq.client.answer import successful
from cometmq.client.requests.queue_requests import QueueRequests
from cometmq.client.routes import Routes
from cometmq.cluster.route import READ, QueueCounts, Route
from cometmq.cluster.system_names import is_user_topic
from cometmq.errors import CometMQError, FormatError, NoRoute, RemoteError
from cometmq.message import MessageQueue
from cometmq.spark.live.options import LiveOptions, TopicChoice
from cometmq.spark.live.retries import ask_each, is_retriable, with_retries
from cometmq.wire.bodies import ClusterInfo, decode, decode_topic_stats
from cometmq.wire.codes import RequestCode, ResponseCode

T = TypeVar("T")

LOOK_AGAIN_S: Final = 1.0


class Extent(NamedTuple):
    """The queue offsets of a queue's first message that can be read, and behind its last."""

    first: int
    end: int


TopicOnBroker: TypeAlias = tuple[str, str]
"""A topic, and the name of a broker that has queues of it."""
Extents: TypeAlias = dict[MessageQueue, Extent]

EMPTY: Final = Extent(0, 0)
"""The brokers' response for a queue that they do not have."""


class Survey:
    """Requests the queues of one subscription from name servers and brokers.

    Args:
        at_one_time: whether the offsets of a topic are requested once, so that all are of one moment.
    """

    def __init__(
        self, options: LiveOptions, routes: Routes, requests: QueueRequests, *, at_one_time: bool
    ) -> None:
        self._options = options
        self._routes = routes
        self._requests = requests
        self._kept: dict[TopicOnBroker, Extents] | None = {} if at_one_time else None
        self._decoded: dict[TopicOnBroker, tuple[bytes, Extents]] = {}

    async def queues(self) -> set[MessageQueue]:
        """Return the queues that are read, by fresh routes."""
        topics = await self._topics()
        self._drop_routes(topics)
        return self._covered(
            queue for route in (await self._routes_of(topics)).values() for queue in route.subscribe_queues()
        )

    async def wait_for_brokers(self) -> set[MessageQueue]:
        """Return the queues that are read; while no name server knows a broker, as after a restart, wait."""
        deadline = asyncio.get_running_loop().time() + self._options.retry_s
        while True:
            found = await self.queues()
            if not is_incomplete(self._options.subscription, found) or await self._has_brokers():
                return found
            if asyncio.get_running_loop().time() >= deadline:
                return found
            await asyncio.sleep(LOOK_AGAIN_S)

    async def wait_for_queues(self, wanted: Collection[MessageQueue]) -> set[MessageQueue]:
        """Return the queues that are read, once ``wanted`` are among them, or after ``retrySeconds``.

        Queues whose brokers are known without them are looked up only once more: a broker that starts
        registers all its topics together.
        """
        deadline = asyncio.get_running_loop().time() + self._options.retry_s
        brokers: frozenset[str] = frozenset()
        while True:
            found = await self.queues()
            lacking = {queue.broker_name for queue in wanted if queue not in found}
            if lacking <= brokers or asyncio.get_running_loop().time() >= deadline:
                return found
            brokers = await self._broker_names()
            await asyncio.sleep(LOOK_AGAIN_S)

    async def all_extents(self) -> Extents:
        """Return the first and end offsets of all queues that are read."""
        topics = await self._topics()
        extents = await with_retries(
            "the ends of queues",
            self._options.retry_s,
            lambda: self._extents_of(topics),
            before_retry=lambda: self._drop_routes(topics),
            is_worth=is_unknown,
        )
        if self._options.subscription.queues is None:
            return extents
        covered = self._covered(extents)
        return {queue: extent for queue, extent in extents.items() if queue in covered}

    async def extents(self, queues: Collection[MessageQueue]) -> Extents:
        """Return the first and end offsets of some queues."""
        kept = {} if self._kept is None else self._kept
        kept |= await ask_each(
            lambda place: self._ends(place, is_retriable), topics_on_brokers(queues) - kept.keys()
        )
        return {queue: kept[queue.topic, queue.broker_name].get(queue, EMPTY) for queue in queues}

    async def _extents_of(self, topics: Collection[str]) -> Extents:
        routes = await self._routes_of(topics)
        places = [(topic, one.broker_name) for topic, route in routes.items() for one in _readable(route)]
        ends = await ask_each(lambda place: self._ends(place, _is_passing), places)
        changed = {topic for topic, route in routes.items() if _has_others(route, ends)}
        self._drop_routes(changed)
        newer = await self._routes_of(changed)
        changed = {topic for topic in changed if newer.get(topic) != routes[topic]}
        extents: Extents = await self._extents_of(changed) if changed else {}
        for topic in routes.keys() - changed:
            extents |= _subscribed(routes[topic], ends)
        return extents

    async def _ends(self, place: TopicOnBroker, is_worth: Callable[[CometMQError], bool]) -> Extents:
        topic, broker_name = place
        try:
            body = await with_retries(
                f"broker {broker_name}, topic {topic}: the ends of its queues",
                self._options.retry_s,
                lambda: self._requests.topic_stats_body(*place),
                before_retry=lambda: self._routes.expire(topic),
                is_worth=is_worth,
            )
        except RemoteError as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            return await self._ends_of_each(place)
        if self._decoded.get(place, (None,))[0] != body:
            stats = decode_topic_stats(body).offsets
            extents = {queue: Extent(at.min_offset, at.max_offset) for queue, at in stats.items()}
            self._decoded[place] = body, extents
        return self._decoded[place][1]

    async def _ends_of_each(self, place: TopicOnBroker) -> Extents:
        topic, broker_name = place
        route = await self._routes.get(topic)
        queues = [queue for queue in route.subscribe_queues() if queue.broker_name == broker_name]

        async def ends(queue: MessageQueue) -> Extent:
            return Extent(await self._requests.min_offset(queue), await self._requests.max_offset(queue))

        def ask(queue: MessageQueue) -> Awaitable[Extent]:
            what = f"broker {broker_name}, topic {topic}, queue {queue.queue_id}: its ends"
            return with_retries(what, self._options.retry_s, lambda: ends(queue))

        return await ask_each(ask, queues)

    async def _topics(self) -> list[str]:
        """Return the topics that the subscription names, or that its pattern matches now."""
        subscription = self._options.subscription
        if subscription.queues is not None:
            return sorted({queue.topic for queue in subscription.queues})
        if subscription.pattern is None:
            return sorted(subscription.topics or ())
        topics = await self._ask_name_server("the list of topics", self._routes.topics)
        return [topic for topic in topics if is_matched(subscription.pattern.fullmatch, topic)]

    async def _routes_of(self, topics: Collection[str]) -> dict[str, Route]:
        """Return the routes of those topics that exist."""
        found = await ask_each(self._route, topics)
        return {topic: route for topic, route in found.items() if route is not None}

    async def _route(self, topic: str) -> Route | None:
        try:
            return await self._ask_name_server(f"the route of topic {topic}", self._routes.get, topic)
        except NoRoute:
            return None
        except FormatError:  # the routes have logged it: a pattern's other topics are read
            if self._options.subscription.pattern is None:
                raise
            return None

    async def _has_brokers(self) -> bool:
        return bool(await self._broker_names())

    async def _broker_names(self) -> frozenset[str]:
        """Return the names of the brokers that are registered."""

        async def ask() -> frozenset[str]:
            _, answer = await self._routes.ask_any(RequestCode.GET_BROKER_CLUSTER_INFO)
            return frozenset(decode(ClusterInfo, successful(answer).body).brokers)

        return await self._ask_name_server("the list of brokers", ask)

    async def _ask_name_server(self, what: str, ask: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Retry a request while no name server responds; NoRoute is a response."""
        return await with_retries(
            f"name server: {what}",
            self._options.retry_s,
            lambda: ask(*arguments),
            is_worth=lambda error: is_retriable(error) and not isinstance(error, NoRoute),
        )

    def _drop_routes(self, topics: Iterable[str]) -> None:
        for topic in topics:
            self._routes.expire(topic)

    def _covered(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        return {queue for queue in queues if covers(self._options.subscription, queue)}


def topics_on_brokers(queues: Iterable[MessageQueue]) -> set[TopicOnBroker]:
    """Return the topic and broker of each queue."""
    return {(queue.topic, queue.broker_name) for queue in queues}


def covers(subscription: TopicChoice, queue: MessageQueue) -> bool:
    """Check whether a subscription covers a queue."""
    if subscription.queues is not None:
        return bool(subscription.assigned(queue))
    if subscription.topics is not None:
        return queue.topic in subscription.topics
    return subscription.pattern is not None and is_matched(subscription.pattern.fullmatch, queue.topic)


def is_incomplete(subscription: TopicChoice, found: Collection[MessageQueue]) -> bool:
    """Check whether a subscribed topic or queue is missing; a pattern needs at least one queue."""
    if subscription.queues is not None:
        there = {assigned for queue in found for assigned in subscription.assigned(queue)}
        return not subscription.queues <= there
    if subscription.topics is not None:
        return not subscription.topics <= {queue.topic for queue in found}
    return not found


def is_matched(matches: Callable[[str], object], topic: str) -> bool:
    """Check whether a pattern matches a topic that users created."""
    return is_user_topic(topic) and bool(matches(topic))


def is_unknown(error: CometMQError) -> bool:
    """Check whether a server does not know a topic: its route may be old, or not registered yet."""
    if isinstance(error, RemoteError):
        return error.code == ResponseCode.TOPIC_NOT_EXIST
    return isinstance(error, NoRoute)


def _is_passing(error: CometMQError) -> bool:
    return is_retriable(error) and not is_unknown(error)


def _readable(route: Route) -> list[QueueCounts]:
    return [counts for counts in route.queues if counts.perm & READ]


def _subscribed(route: Route, ends: dict[TopicOnBroker, Extents]) -> Extents:
    """Return the first and end offsets of the readable queues of a route."""
    extents: Extents = {}
    for counts in _readable(route):
        of_broker = ends[route.topic, counts.broker_name]
        if len(of_broker) == counts.read_count:  # as nearly always, and there may be very many
            extents |= of_broker
        else:
            queues = (MessageQueue(route.topic, counts.broker_name, n) for n in range(counts.read_count))
            extents |= {queue: of_broker.get(queue, EMPTY) for queue in queues}
    return extents


def _has_others(route: Route, ends: dict[TopicOnBroker, Extents]) -> bool:
    """Check whether brokers have another number of queues of a topic than its route."""
    return any(
        len(ends[route.topic, counts.broker_name]) != max(counts.read_count, counts.write_count)
        for counts in _readable(route)
    )
