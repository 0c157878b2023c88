"""Requests of a consumer about queues: pull messages, query and commit offsets."""

import asyncio
from enum import Enum, auto
from typing import Final, NamedTuple

import msgspec

from cometmq.arguments import TEXT, check, number, or_none
from cometmq.client.answer import registered, successful
from cometmq.client.requests.bodies import decompress_first
from cometmq.client.routes import Routes
from cometmq.cluster.route import MASTER, Route
from cometmq.errors import NetworkError, NoRoute, RemoteError
from cometmq.filter import tag
from cometmq.format.queue_entry import FILLER
from cometmq.format.record import decode_many
from cometmq.format.stored import message_as_stored
from cometmq.message import QUEUE, MessageQueue, StoredMessage
from cometmq.net.client import Connections
from cometmq.wire import headers as h
from cometmq.wire.bodies import ListedEntries, TopicOffset, decode, decode_topic_stats
from cometmq.wire.client_request import ClientRequest
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.pull_request import PullRequest

SQL92: Final = "SQL92"
PULL_COUNT: Final = 32
PULL_GRACE_MS: Final = 10_000
"""A broker checks held pulls every few seconds, so its response may be late."""
NO_MASTER_PAUSE_MS: Final = 1_000
"""Pause before a slave is asked again that sends its reader to a master which no name server knows."""


class PullStatus(Enum):
    """The outcome of a pull."""

    FOUND = auto()
    NO_NEW_MESSAGE = auto()
    NO_MATCHED_MESSAGE = auto()
    OFFSET_ILLEGAL = auto()


_NUMBER: Final = number()
_COUNT: Final = number(0)
_STATUS: Final[dict[int, PullStatus]] = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MESSAGE,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MESSAGE,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


class Pulled(NamedTuple):
    """The result of a pull.

    Attributes:
        next_offset: queue offset to pull from next.
        min_offset: first queue offset that can be read.
        max_offset: queue offset behind the last message.
    """

    status: PullStatus
    messages: list[StoredMessage]
    next_offset: int
    min_offset: int
    max_offset: int


class QueuePull(msgspec.Struct, frozen=True):
    """What to pull from a queue: see ``QueueRequests.pull``.

    Attributes:
        max_bytes: limit of the bytes, unless the first message is larger; None for the broker's own.
    """

    queue: MessageQueue
    queue_offset: int
    tags: str = "*"
    sql: str | None = None
    max_count: int = PULL_COUNT
    wait_ms: int = 0
    commit_offset: int | None = None
    max_bytes: int | None = None


class PulledRecords(msgspec.Struct, frozen=True):
    """The result of a pull with the messages as the bytes of their records.

    Attributes:
        body: CommitLog records back to back; as the broker filters by hashes of tags, other tags may occur.
        next_offset, min_offset, max_offset: as in ``Pulled``.
    """

    status: PullStatus
    body: bytes
    next_offset: int
    min_offset: int
    max_offset: int


class QueueRequests:
    """Sends requests of one consumer group, each to the broker of the queue.

    A queue is pulled from the broker of its name that the last answer has suggested: a slave, where the
    reader is far behind, and else the master. Offsets are the master's, as are pulls that commit.

    Args:
        timeout_ms: timeout of a request; a pull may be held longer by its ``wait_ms``.
    """

    def __init__(self, connections: Connections, routes: Routes, group: str, timeout_ms: int) -> None:
        self.group = group
        self._connections = connections
        self._routes = routes
        self._timeout_ms = timeout_ms
        self._first_commits: dict[tuple[str, str], asyncio.Lock] = {}
        self._has_committed: set[tuple[str, str]] = set()
        self._suggested: dict[MessageQueue, int] = {}  # broker ids, but for those of masters

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return a topic's queues that can be read. Raises NoRoute or NetworkError."""
        check(TEXT, topic=topic)
        return (await self._routes.get(topic)).subscribe_queues()

    async def pull(
        self,
        queue: MessageQueue,
        queue_offset: int,
        *,
        tags: str = "*",
        sql: str | None = None,
        max_count: int = PULL_COUNT,
        wait_ms: int = 0,
        commit_offset: int | None = None,
    ) -> Pulled:
        """Read messages of a queue from ``queue_offset`` on.

        The result ends before a body that cannot be decompressed or would take too much memory together with
        those before; the next pull begins there, at ``next_offset``.

        Args:
            tags: ``*``, or tags joined by ``||``.
            sql: a condition over the messages' properties, instead of tags: ``size > 3 AND color = 'red'``.
                Only the broker evaluates it (its setting ``enablePropertyFilter``).
            wait_ms: how long the broker may hold the request when there is no new message.
            commit_offset: offset to commit with it. A Java broker may store it later than a ``commit`` that
                is sent while this pull is in flight.

        Raises:
            FormatError: ``tags`` is not a tag expression, or a message cannot be decoded.
            IllegalArgument: both ``tags`` and ``sql`` are given.
            UndecodableBody: the body of the first message cannot be decompressed.
            NoRoute, NetworkError, RemoteError: the broker is unknown, does not respond, or refuses.
        """
        pulled = await self.pull_stored(
            QueuePull(queue, queue_offset, tags, sql, max_count, wait_ms, commit_offset)
        )
        whole = decompress_first(pulled.messages)
        if len(whole) == len(pulled.messages):
            return pulled._replace(messages=whole)
        return pulled._replace(messages=whole, next_offset=pulled.messages[len(whole)].queue_offset)

    async def pull_stored(self, wanted: QueuePull) -> Pulled:
        """Read messages like ``pull``, with bodies as stored: ``sys_flag`` says which are compressed."""
        check(QUEUE, queue=wanted.queue)
        check(_NUMBER, queue_offset=wanted.queue_offset)
        tag.check_filter(wanted.tags, wanted.sql)
        check(_COUNT, max_count=wanted.max_count, wait_ms=wanted.wait_ms)
        check(or_none(_NUMBER), commit_offset=wanted.commit_offset)
        expression = tag.parse(wanted.tags) if wanted.sql is None else None
        pulled = await self.pull_records(wanted)
        messages = [message_as_stored(record) for record in decode_many(pulled.body)]
        chosen = [message for message in messages if expression is None or message.tags in expression]
        return Pulled(pulled.status, chosen, pulled.next_offset, pulled.min_offset, pulled.max_offset)

    async def pull_records(self, wanted: QueuePull) -> PulledRecords:
        """Read messages like ``pull``, as the bytes of their records; arguments are not checked."""
        queue, queue_offset, wait_ms = wanted.queue, wanted.queue_offset, wanted.wait_ms
        request, timeout_ms = self._pull_request(wanted)
        broker_id = MASTER if wanted.commit_offset is not None else self._suggested.pop(queue, MASTER)
        answer = await self._send(queue, request, timeout_ms, broker_id)
        pulled = self.pulled(queue, queue_offset, answer)
        if pulled is None and broker_id != MASTER:
            answer = await self._send(queue, request, timeout_ms, MASTER)
            pulled = self.pulled(queue, queue_offset, answer)
        if pulled is not None:
            return pulled
        self._routes.expire(queue.topic)  # the master is not known, or it has become a slave
        await asyncio.sleep(min(wait_ms, NO_MASTER_PAUSE_MS) / 1000)
        where = h.parse(h.PullResponseHeader, answer.ext_fields)
        return PulledRecords(PullStatus.NO_NEW_MESSAGE, b"", queue_offset, where.min_offset, where.max_offset)

    def start_pull(self, wanted: QueuePull) -> "asyncio.Future[Command] | None":
        """Send a pull that commits nothing, without a wait; its response is for ``pulled``.

        The result is None if the queue's broker has to be found first, or its connection to be opened.
        """
        queue = wanted.queue
        if (route := self._routes.fresh(queue.topic)) is None:
            return None
        address = route.suggested(queue.broker_name, self._suggested.get(queue, MASTER))
        if address is None or (connection := self._connections.ready(address)) is None:
            return None
        self._suggested.pop(queue, None)
        return connection.request(*self._pull_request(wanted))

    def pulled(self, queue: MessageQueue, queue_offset: int, answer: Command) -> PulledRecords | None:
        """Return what the response to a pull from ``queue_offset`` brings.

        The result is None if a slave without new messages sends its reader back to the master. Raises
        RemoteError.
        """
        status = _STATUS.get(answer.code)
        if status is None:
            raise RemoteError(answer.code, answer.remark or "")
        where = h.parse(h.PullResponseHeader, answer.ext_fields)
        if where.suggested_broker_id != MASTER:
            self._suggested[queue] = where.suggested_broker_id
        elif status is PullStatus.NO_MATCHED_MESSAGE and where.next_offset <= queue_offset:
            return None
        return PulledRecords(status, answer.body, where.next_offset, where.min_offset, where.max_offset)

    def _pull_request(self, wanted: QueuePull) -> tuple[PullRequest, int]:
        """Return the request of a pull, and its timeout in ms."""
        queue, wait_ms, commit_offset = wanted.queue, wanted.wait_ms, wanted.commit_offset
        header = h.PullHeader(
            consumer_group=self.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=wanted.queue_offset,
            max_message_count=wanted.max_count,
            sys_flag=h.PullFlag.SUBSCRIPTION
            | (h.PullFlag.SUSPEND if wait_ms else 0)
            | (0 if commit_offset is None else h.PullFlag.COMMIT_OFFSET),
            commit_offset=commit_offset or 0,
            suspend_timeout_ms=wait_ms,
            subscription=wanted.tags if wanted.sql is None else wanted.sql,
            expression_type=None if wanted.sql is None else SQL92,
            max_message_bytes=wanted.max_bytes,
        )
        return PullRequest(header), self._timeout_ms + (wait_ms + PULL_GRACE_MS if wait_ms else 0)

    async def committed(self, queue: MessageQueue, *, young_is_zero: bool = False) -> int | None:
        """Return the offset that the group has committed, or None.

        Args:
            young_is_zero: whether a broker may return 0 instead of None for a queue so new that its first
                message is still in memory: a group that begins at the end then misses nothing of it.
        """
        check(QUEUE, queue=queue)
        header = h.QueryConsumerOffsetHeader(
            consumer_group=self.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            set_zero_if_not_found=None if young_is_zero else False,
        )
        answer = await self._request(queue, RequestCode.QUERY_CONSUMER_OFFSET, header)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        return _offset(answer)

    async def commit(self, queue: MessageQueue, queue_offset: int) -> None:
        """Commit for the group that everything before ``queue_offset`` is handled.

        The first commit in a topic is sent alone: a Java broker creates a table for the group and the topic
        then, and loses one of two concurrent commits that do so (RocketMQ: ConsumerOffsetManager.java).
        """
        check(QUEUE, queue=queue)
        check(_COUNT, queue_offset=queue_offset)
        table = queue.broker_name, queue.topic
        if table not in self._has_committed:
            async with self._first_commits.setdefault(table, asyncio.Lock()):
                if table not in self._has_committed:
                    await self._commit(queue, queue_offset)
                    self._has_committed.add(table)
                    return
        await self._commit(queue, queue_offset)

    async def _commit(self, queue: MessageQueue, queue_offset: int) -> None:
        header = h.UpdateConsumerOffsetHeader(
            consumer_group=self.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=queue_offset,
        )
        successful(await self._request(queue, RequestCode.UPDATE_CONSUMER_OFFSET, header))

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the first queue offset that can be read."""
        check(QUEUE, queue=queue)
        header = h.GetMinOffsetHeader(topic=queue.topic, queue_id=queue.queue_id)
        return _offset(await self._request(queue, RequestCode.GET_MIN_OFFSET, header))

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the queue offset behind the last message."""
        check(QUEUE, queue=queue)
        header = h.GetMaxOffsetHeader(topic=queue.topic, queue_id=queue.queue_id)
        return _offset(await self._request(queue, RequestCode.GET_MAX_OFFSET, header))

    async def topic_stats(self, topic: str, broker_name: str) -> dict[MessageQueue, TopicOffset]:
        """Return ``min_offset`` and ``max_offset`` of all queues of a topic on one broker, by one request.

        The result has all queues that can be read or written; both offsets are 0 before the first message.
        """
        return decode_topic_stats(await self.topic_stats_body(topic, broker_name)).offsets

    async def topic_stats_body(self, topic: str, broker_name: str) -> bytes:
        """Request what ``topic_stats`` returns, for ``decode_topic_stats``: equal bytes hold nothing new."""
        check(TEXT, topic=topic, broker_name=broker_name)
        any_queue = MessageQueue(topic, broker_name, 0)
        answer = await self._request(any_queue, RequestCode.GET_TOPIC_STATS_INFO, h.TopicHeader(topic))
        return successful(answer).body

    async def first_store_time(self, queue: MessageQueue) -> int | None:
        """Return when the first message that can be read was stored, ms since the epoch; None without one."""
        check(QUEUE, queue=queue)
        header = h.GetEarliestStoreTimeHeader(topic=queue.topic, queue_id=queue.queue_id)
        answer = successful(await self._request(queue, RequestCode.GET_EARLIEST_MSG_STORETIME, header))
        store_time = h.parse(h.GetEarliestStoreTimeResponseHeader, answer.ext_fields).store_time
        return store_time if store_time > 0 else None

    async def record_sizes(self, queue: MessageQueue, queue_offset: int, max_count: int) -> list[int]:
        """Return the sizes of records from ``queue_offset`` on, in bytes, by the queue's entries.

        There may be fewer than ``max_count``, as the broker has a limit too, and none where it has no
        entries. Fillers for lost messages are left out.
        """
        check(QUEUE, queue=queue)
        header = h.QueryConsumeQueueHeader(queue.topic, queue.queue_id, queue_offset, max_count)
        answer = successful(await self._request(queue, RequestCode.QUERY_CONSUME_QUEUE, header))
        entries = decode(ListedEntries, answer.body).entries if answer.body else []
        return [one.size for one in entries if one.size != FILLER.size]

    async def offset_by_time(self, queue: MessageQueue, time_ms: int) -> int:
        """Return the queue offset of the first message stored at or after ``time_ms`` since the epoch."""
        check(QUEUE, queue=queue)
        check(_NUMBER, time_ms=time_ms)
        header = h.SearchOffsetHeader(topic=queue.topic, queue_id=queue.queue_id, time=time_ms)
        return _offset(await self._request(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header))

    async def _request(self, queue: MessageQueue, code: RequestCode, header: h.Header) -> Command:
        return await self._send(queue, Command(code, ext_fields=h.fields(header)), self._timeout_ms, MASTER)

    async def _send(
        self, queue: MessageQueue, request: ClientRequest, timeout_ms: int, broker_id: int
    ) -> Command:
        address = _address(await self._routes.get(queue.topic), queue, broker_id)
        try:
            with registered(address):
                return await self._connections.request(address, request, timeout_ms)
        except NetworkError:
            self._routes.expire(queue.topic)  # the broker may have come back elsewhere
            raise


def _address(route: Route, queue: MessageQueue, broker_id: int) -> str:
    address = route.suggested(queue.broker_name, broker_id)
    if address is None:
        raise NoRoute(
            f"broker {queue.broker_name!r} of topic {queue.topic!r} is not known to the name server"
        )
    return address


def _offset(answer: Command) -> int:
    return h.parse(h.OffsetResponseHeader, successful(answer).ext_fields).offset
