"""Requests of the driver to name servers and brokers, to plan reads and commit a stream's offsets."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from itertools import repeat
from typing import Any, Final, Self, TypeVar

from cometmq.client.identity import client_id
from cometmq.client.requests.heartbeat import send_heartbeat, unregister
from cometmq.client.requests.queue_requests import QueuePull, QueueRequests
from cometmq.errors import CometMQError, NoRoute, RemoteError, SettingsError
from cometmq.format.layout import RETRY_PREFIX
from cometmq.format.record import decode_many
from cometmq.message import MessageQueue
from cometmq.spark.live.first_messages import FirstMessage
from cometmq.spark.live.links import LINKS
from cometmq.spark.live.offsets import EARLIEST, LATEST, Offsets
from cometmq.spark.live.options import LiveOptions
from cometmq.spark.live.positions import At, ByTime, Committed, Earliest, Latest, Position, Since, Until
from cometmq.spark.live.ranges import QueueRange
from cometmq.spark.live.retries import ask_each, is_doubtful, is_retriable, with_retries
from cometmq.spark.live.survey import Extents, Survey, TopicOnBroker
from cometmq.spark.live.times import of_queues, refuse_late
from cometmq.spark.values import CLOCK_SLACK_MS, NUMBER_MAX
from cometmq.wire.bodies.heartbeat import ConsumerData, ConsumeType, Heartbeat
from cometmq.wire.codes import ResponseCode

T = TypeVar("T")

REQUEST_TIMEOUT_MS: Final = 10_000
SAMPLE: Final = 32
"""Records sampled for the record size of a range, at each of two offsets."""


class Cluster:
    """The brokers of the topics that are read, over a link that is not shared until ``close``.

    Args:
        at_one_time: whether all positions are of one moment: each broker gets one request per topic.
    """

    def __init__(self, options: LiveOptions, *, at_one_time: bool = False) -> None:
        self._options = options
        self._link = LINKS.acquire(options.cluster)
        self._routes = self._link.routes
        self._requests = self._requests_of(options.reader_group)
        self._survey = Survey(options, self._routes, self._requests, at_one_time=at_one_time)
        self._group_exists = False
        self._lists_entries = True
        self._pulled: set[TopicOnBroker] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the link."""
        LINKS.release(self._link)

    def queues(self) -> set[MessageQueue]:
        """Return the queues that are read; missing topics and queues are left out.

        Raises:
            NetworkError: no name server responded for ``retrySeconds``.
            RemoteError: a name server refuses the request.
        """
        return self._link.run(self._survey.queues())

    def wait_for_brokers(self) -> set[MessageQueue]:
        """Wait until a name server knows a broker, then return the queues that are read."""
        return self._link.run(self._survey.wait_for_brokers())

    def wait_for_queues(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Wait until some queues are among those that are read, or are gone; return those that are read.

        They count as gone after ``retrySeconds``, or if their brokers are known and have only others.
        """
        return self._link.run(self._survey.wait_for_queues(set(queues)))

    def all_extents(self) -> Extents:
        """Return the first and end offsets of all queues that are read. Raises like ``resolve``."""
        return self._link.run(self._survey.all_extents())

    def extents(self, queues: Collection[MessageQueue]) -> Extents:
        """Return the first and end offsets of some queues. Raises like ``resolve``."""
        return self._link.run(self._survey.extents(queues))

    def resolve(self, position: Position, queues: Iterable[MessageQueue], what: str) -> Offsets:
        """Return the offset of each queue at a position.

        Raises:
            SettingsError: the position is not of just these queues; ``what`` names its option.
            NetworkError: a broker did not respond for ``retrySeconds``.
            RemoteError: a broker refuses the request.
        """
        return self._link.run(self._resolve(position, sorted(queues), what))

    def record_sizes(self, ranges: Iterable[QueueRange]) -> dict[MessageQueue, int]:
        """Estimate the bytes of a record of each range, by queue entries at its start and middle."""
        some = [one for one in ranges if one.size]
        sizes = self._link.run(ask_each(self._record_size, some))
        return {one.queue: size for one, size in sizes.items()}

    def check_pulls(self, ranges: Iterable[QueueRange]) -> None:
        """Pull a message of each topic and broker that was not pulled from yet.

        So a missing permission or a refused filter fails the plan and not a task. Raises RemoteError or
        NetworkError.
        """
        self._link.run(self._check_pulls(ranges))

    def first_messages(
        self, expected: Mapping[MessageQueue, FirstMessage]
    ) -> dict[MessageQueue, FirstMessage | None]:
        """Return the first message of each queue; None if there is none, or it expires during the request.

        Args:
            expected: its queue offset, and its store time if that is known: one request confirms it then.
        """
        return self._link.run(
            ask_each(lambda queue: self._first_message(queue, expected[queue]), expected.keys())
        )

    def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit offsets for the group. Raises CometMQError if a broker refuses some."""
        self._link.run(self._commit(offsets))

    def _requests_of(self, group: str) -> QueueRequests:
        return QueueRequests(self._link.connections, self._routes, group, REQUEST_TIMEOUT_MS)

    async def _commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        async def commit(queue: MessageQueue) -> CometMQError | None:
            try:
                await self._requests.commit(queue, offsets[queue])
            except CometMQError as error:
                return error  # the others are committed all the same
            return None

        failures = [error for error in (await ask_each(commit, offsets.keys())).values() if error]
        if failures:
            raise failures[0]
        if not self._group_exists:
            await self._create_group(self._requests.group)
            self._group_exists = True

    async def _create_group(self, group: str) -> None:
        """Register the group with the brokers, unless it exists: tools find groups by their retry topics.

        Brokers create it at a member's heartbeat. The member leaves at once, or it would be assigned queues.
        """
        try:
            await self._routes.get(RETRY_PREFIX + group)
        except NoRoute:
            me, brokers = client_id(), self._routes.brokers(masters_only=True)
            member = ConsumerData(group, consume_type=ConsumeType.CONSUME_ACTIVELY)
            await send_heartbeat(self._link.connections, brokers, Heartbeat(me, consumers=[member]))
            await unregister(self._link.connections, brokers, me, consumer_group=group)

    async def _resolve(self, position: Position, queues: list[MessageQueue], what: str) -> Offsets:
        match position:
            case Earliest():
                return await self._firsts(queues)
            case Latest():
                return await self._ends(queues)
            case Since(time_ms, needs_message):
                if needs_message:
                    await self._by_time(dict.fromkeys(queues, time_ms), "startingTimestamp")
                return await self._since(time_ms, queues)
            case Until(time_ms):
                return await self._until(time_ms, queues)
            case Committed(group):
                return await self._committed(group, queues)
            case At(offsets):
                return await self._explicit(offsets, queues, what)
            case ByTime(times, needs_message):
                option = f"{what}ByTimestamp"
                of_each = of_queues(times, queues, option)
                return await self._by_time(of_each, option if needs_message else None)

    async def _since(self, time_ms: int, queues: list[MessageQueue]) -> Offsets:
        found = await self._nearest(max(time_ms - CLOCK_SLACK_MS, 0), queues)
        firsts = await self._firsts(queues)
        return {queue: max(offset, firsts[queue]) for queue, offset in found.items()}

    async def _until(self, time_ms: int, queues: list[MessageQueue]) -> Offsets:
        found = await self._nearest(min(time_ms + CLOCK_SLACK_MS, NUMBER_MAX), queues)
        ends = await self._ends(queues)
        return {queue: min(offset + 1, ends[queue]) for queue, offset in found.items()}

    async def _nearest(self, time_ms: int, queues: list[MessageQueue]) -> Offsets:
        """Find in each queue the first message stored at or after a time; old brokers return the nearest."""
        ask = self._requests.offset_by_time
        return await self._each("offset by time", queues, lambda queue: ask(queue, time_ms))

    async def _by_time(self, times: Mapping[MessageQueue, int], needed_by: str | None) -> Offsets:
        """Find each queue's first message stored at or after its time; the queue's end if it has none.

        Args:
            needed_by: the option that requires such a message in each queue; None if it is not required.

        Raises SettingsError, naming the queues, if a required one is missing.
        """
        found = await self._each("offset by time", sorted(times), partial(self._first_since, times))
        late = [queue for queue, offset in found.items() if offset is None]
        ends = await self._ends(late)
        if late and needed_by is not None:
            refuse_late(needed_by, times, ends)
        return {queue: ends[queue] if offset is None else offset for queue, offset in found.items()}

    async def _first_since(self, times: Mapping[MessageQueue, int], queue: MessageQueue) -> int | None:
        """Find a queue's first message stored at or after its time; None if there is none."""
        offset = await self._requests.offset_by_time(queue, times[queue])
        pulled = await self._requests.pull_records(QueuePull(queue, offset, max_count=1))
        first = next(decode_many(pulled.body), None)
        if first is not None and first.store_time < times[queue]:
            offset += 1  # brokers before 5.0 return the nearest message
        offset = max(offset, pulled.min_offset)
        return offset if offset < pulled.max_offset else None

    async def _committed(self, group: str, queues: list[MessageQueue]) -> Offsets:
        offsets = await self._each("committed offset", queues, self._requests_of(group).committed)
        young = [queue for queue, offset in offsets.items() if offset is None]
        firsts = await self._firsts(young)
        return {queue: firsts[queue] if offset is None else offset for queue, offset in offsets.items()}

    async def _firsts(self, queues: Collection[MessageQueue]) -> Offsets:
        return {queue: one.first for queue, one in (await self._survey.extents(queues)).items()}

    async def _ends(self, queues: Collection[MessageQueue]) -> Offsets:
        return {queue: one.end for queue, one in (await self._survey.extents(queues)).items()}

    async def _explicit(self, offsets: Offsets, queues: list[MessageQueue], what: str) -> Offsets:
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

    async def _record_size(self, one: QueueRange) -> int:
        places = {one.start, (one.start + one.end) // 2} if one.size > SAMPLE else {one.start}
        sizes = [size for offset in places for size in await self._sample(one, offset)]
        return max(sum(sizes) // max(len(sizes), 1), 1)

    async def _sample(self, one: QueueRange, offset: int) -> list[int]:
        """Return the sizes of some records, by entries; pull them if the server lists no entries."""
        ask, count = partial(self._ask, "a sample", one.queue), min(SAMPLE, one.end - offset)
        if self._lists_entries:
            try:
                return await ask(self._requests.record_sizes, one.queue, offset, count)
            except RemoteError as error:
                if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise
            self._lists_entries = False
        pulled = await ask(self._requests.pull_records, QueuePull(one.queue, offset))
        return [len(pulled.body) // (pulled.next_offset - offset)] if pulled.body else []

    async def _check_pulls(self, ranges: Iterable[QueueRange]) -> None:
        firsts: dict[TopicOnBroker, QueueRange] = {}
        for one in ranges:
            firsts.setdefault((one.queue.topic, one.queue.broker_name), one)
        new = {place: one for place, one in firsts.items() if place not in self._pulled}
        await ask_each(self._check_pull, list(new.values()))
        self._pulled |= new.keys()

    async def _check_pull(self, one: QueueRange) -> None:
        await with_retries(
            f"{one._replace(end=one.start + 1)}: a pull for group {self._requests.group}",
            self._options.retry_s,
            lambda: self._requests.pull_records(
                QueuePull(one.queue, one.start, self._options.expression, self._options.sql, max_count=1)
            ),
            before_retry=lambda: self._routes.expire(one.queue.topic),
            is_worth=lambda error: is_retriable(error) and not is_doubtful(error),
        )

    async def _first_message(self, queue: MessageQueue, expected: FirstMessage) -> FirstMessage | None:
        store_time = await self._ask("first store time", queue, self._requests.first_store_time, queue)
        if store_time is None or store_time == expected.store_time:
            return None if store_time is None else expected
        first = await self._ask("first offset", queue, self._requests.min_offset, queue)
        if first != expected.queue_offset:
            return None  # the store time may be that of either message
        return FirstMessage(queue.queue_id, first, store_time)

    async def _each(
        self, what: str, queues: Collection[MessageQueue], ask: Callable[[MessageQueue], Awaitable[T]]
    ) -> dict[MessageQueue, T]:
        return await ask_each(lambda queue: self._ask(what, queue, ask, queue), queues)

    async def _ask(
        self, what: str, queue: MessageQueue, ask: Callable[..., Awaitable[T]], *arguments: Any
    ) -> T:
        return await with_retries(
            f"broker {queue.broker_name}, topic {queue.topic}, queue {queue.queue_id}: {what}",
            self._options.retry_s,
            lambda: ask(*arguments),
            before_retry=lambda: self._routes.expire(queue.topic),
        )
