"""What the driver asks of name servers and brokers to plan a read, and what it tells them of a stream."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from functools import partial
from itertools import repeat
from typing import Any, Final, Self, TypeVar

from cometmq.client.heartbeat import beat, say_goodbye
from cometmq.client.identity import client_id
from cometmq.client.offset_store import RemoteOffsets
from cometmq.client.queue_requests import QueueRequests
from cometmq.client.routes import Routes
from cometmq.errors import NoRoute, SettingsError
from cometmq.format.layout import DLQ_PREFIX, RETRY_PREFIX
from cometmq.message import MessageQueue
from cometmq.net.client import Connections
from cometmq.spark.live.offsets import EARLIEST, LATEST, Offsets
from cometmq.spark.live.options import (
    READER_GROUP,
    At,
    Committed,
    Earliest,
    Latest,
    LiveOptions,
    Position,
    Since,
    Subscription,
    Until,
)
from cometmq.spark.live.patience import is_retriable, patiently
from cometmq.spark.live.ranges import Range
from cometmq.spark.values import CLOCK_SLACK_MS, NUMBER_MAX
from cometmq.wire.bodies.heartbeat import ConsumerData, ConsumeType, Heartbeat

T = TypeVar("T")

REQUEST_TIMEOUT_MS: Final = 3_000
LOOK_AGAIN_S: Final = 1.0
SYSTEM_PREFIX: Final = "rmq_sys_"
SYSTEM_TOPICS: Final = frozenset(
    {"TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT"}
)

log = logging.getLogger(__name__)


class Cluster:
    """The brokers of the topics that are read. Its event loop and connections stay until it is closed."""

    def __init__(self, options: LiveOptions) -> None:
        self._options = options
        self._runner = asyncio.Runner()
        self._runner.run(self._open())

    def __enter__(self) -> Self:
        """Get ready to ask."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close the connections and end the loop."""
        self._runner.run(self._connections.close())
        self._runner.close()

    def queues(self) -> set[MessageQueue]:
        """Give the queues that are read. A topic or queue that is named but not there is left out.

        Raises:
            NetworkError: no name server answers for ``retrySeconds``.
            RemoteError: one refuses.
        """
        return self._run(self._queues(self._options.subscription))

    def wait_for(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Give the queues that are read, once these are among them, or after ``retrySeconds``."""
        return self._run(self._wait_for(set(queues)))

    def resolve(self, position: Position, queues: Iterable[MessageQueue], what: str) -> Offsets:
        """Give the offset of each queue at a position.

        Raises:
            SettingsError: queues and those of the position are not the same; named ``what``.
            NetworkError: a broker does not answer for ``retrySeconds``.
            RemoteError: it refuses.
        """
        return self._run(self._resolve(position, sorted(queues), what))

    def record_sizes(self, ranges: Iterable[Range]) -> dict[MessageQueue, int]:
        """Give about how many bytes a record of each range takes: looks at its beginning and its middle."""
        return self._run(self._record_sizes([one for one in ranges if one.size]))

    def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit offsets for the group. Raises CometMQError if a broker does not take them."""
        self._run(self._commit(offsets))

    async def _open(self) -> None:
        self._connections = Connections()
        self._routes = Routes(self._connections, self._options.name_servers)
        self._requests = self._requests_of(self._options.group or READER_GROUP)
        self._is_introduced = False

    def _requests_of(self, group: str) -> QueueRequests:
        return QueueRequests(self._connections, self._routes, group, REQUEST_TIMEOUT_MS)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    async def _commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        await RemoteOffsets(self._requests).write(offsets)
        if not self._is_introduced:
            await self._introduce(self._requests.group)
            self._is_introduced = True

    async def _introduce(self, group: str) -> None:
        """Have brokers make the group, if there is none: tools find groups by their retry topics.

        They make it for who says to be a member; true members would leave queues to it, so it leaves at once.
        """
        try:
            await self._routes.get(RETRY_PREFIX + group)
        except NoRoute:
            me, brokers = client_id(), self._routes.brokers(masters_only=True)
            member = ConsumerData(group, consume_type=ConsumeType.CONSUME_ACTIVELY)
            await beat(self._connections, brokers, Heartbeat(me, consumers=[member]))
            await say_goodbye(self._connections, brokers, me, consumer_group=group)

    async def _queues(self, subscription: Subscription) -> set[MessageQueue]:
        if subscription.queues is not None:
            of_topics = await self._queues_of({queue.topic for queue in subscription.queues})
            return {queue for queue in of_topics if subscription.assigned(queue)}
        if subscription.pattern is None:
            return await self._queues_of(subscription.topics or ())
        topics = await self._ask_name_server("the list of topics", self._routes.topics)
        matches = subscription.pattern.fullmatch
        return await self._queues_of(topic for topic in topics if matches(topic) and is_users(topic))

    async def _queues_of(self, topics: Iterable[str]) -> set[MessageQueue]:
        found: set[MessageQueue] = set()
        for topic in topics:
            self._routes.forget(topic)
            try:
                route = await self._ask_name_server(f"the route of topic {topic}", self._routes.get, topic)
            except NoRoute:
                continue
            found.update(route.subscribe_queues())
        return found

    async def _wait_for(self, wanted: set[MessageQueue]) -> set[MessageQueue]:
        deadline = asyncio.get_running_loop().time() + self._options.retry_s
        while True:
            found = await self._queues(self._options.subscription)
            if wanted <= found or asyncio.get_running_loop().time() >= deadline:
                return found
            await asyncio.sleep(LOOK_AGAIN_S)

    async def _resolve(self, position: Position, queues: list[MessageQueue], what: str) -> Offsets:
        match position:
            case Earliest():
                return await self._each("first offset", queues, self._requests.min_offset)
            case Latest():
                return await self._each("last offset", queues, self._requests.max_offset)
            case Since(time_ms):
                return await self._each("offset by time", queues, partial(self._since, time_ms))
            case Until(time_ms):
                return await self._each("offset by time", queues, partial(self._until, time_ms))
            case Committed(group):
                return await self._committed(group, queues)
            case At(offsets):
                return await self._given(offsets, queues, what)

    async def _since(self, time_ms: int, queue: MessageQueue) -> int:
        found = await self._requests.offset_by_time(queue, max(time_ms - CLOCK_SLACK_MS, 0))
        return max(found, await self._requests.min_offset(queue))

    async def _until(self, time_ms: int, queue: MessageQueue) -> int:
        found = await self._requests.offset_by_time(queue, min(time_ms + CLOCK_SLACK_MS, NUMBER_MAX))
        return min(
            found + 1, await self._requests.max_offset(queue)
        )  # older brokers give the nearest message

    async def _committed(self, group: str, queues: list[MessageQueue]) -> Offsets:
        offsets = await self._each("committed offset", queues, self._requests_of(group).committed)
        young = [queue for queue, offset in offsets.items() if offset is None]
        firsts = await self._each("first offset", young, self._requests.min_offset)
        return {queue: firsts[queue] if offset is None else offset for queue, offset in offsets.items()}

    async def _given(self, offsets: Offsets, queues: list[MessageQueue], what: str) -> Offsets:
        if set(queues) != set(offsets):
            missing, unknown = sorted(set(queues) - set(offsets)), sorted(set(offsets) - set(queues))
            raise SettingsError(
                f"option {what} must name each queue that is read, and no other: "
                + "; ".join(
                    f"{queue.topic} {queue.broker_name} {queue.queue_id} is {how}"
                    for queue, how in [*zip(missing, repeat("left out")), *zip(unknown, repeat("not there"))]
                )
            )
        resolved = dict(offsets)
        for sign, where in ((EARLIEST, Earliest()), (LATEST, Latest())):
            some = [queue for queue in queues if offsets[queue] == sign]
            resolved |= await self._resolve(where, some, what)
        return resolved

    async def _record_sizes(self, ranges: list[Range]) -> dict[MessageQueue, int]:
        return {one.queue: await self._record_size(one) for one in ranges}

    async def _record_size(self, one: Range) -> int:
        size = count = 0
        for offset in {one.start, (one.start + one.end) // 2}:
            pulled = await self._ask("a sample", one.queue, self._requests.pull_records, one.queue, offset)
            size += len(pulled.body)
            count += pulled.next_offset - offset if pulled.body else 0
        return max(size // max(count, 1), 1)

    async def _ask_name_server(self, what: str, ask: Callable[..., Awaitable[T]], *given: Any) -> T:
        """Ask again while none answers; that a topic has no route is an answer."""
        return await patiently(
            f"name server: {what}",
            self._options.retry_s,
            lambda: ask(*given),
            is_worth=lambda error: is_retriable(error) and not isinstance(error, NoRoute),
        )

    async def _each(
        self, what: str, queues: list[MessageQueue], ask: Callable[[MessageQueue], Awaitable[T]]
    ) -> dict[MessageQueue, T]:
        answers = await asyncio.gather(*(self._ask(what, queue, ask, queue) for queue in queues))
        return dict(zip(queues, answers, strict=True))

    async def _ask(self, what: str, queue: MessageQueue, ask: Callable[..., Awaitable[T]], *given: Any) -> T:
        return await patiently(
            f"broker {queue.broker_name}, topic {queue.topic}, queue {queue.queue_id}: {what}",
            self._options.retry_s,
            lambda: ask(*given),
            before_retry=lambda: self._routes.forget(queue.topic),
        )


def is_users(topic: str) -> bool:
    """Whether a topic is none of those that brokers and groups make for themselves."""
    return (
        topic not in SYSTEM_TOPICS
        and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
        and not (topic.lower().startswith(SYSTEM_PREFIX))
    )
