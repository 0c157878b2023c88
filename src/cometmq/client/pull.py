"""The pull consumer: reads queues from offsets that its user keeps, or commits for a group.

::

    async with PullConsumer("127.0.0.1:9876", group="audit") as consumer:
        for queue in await consumer.queues("orders"):
            async for message in consumer.messages(queue, tags="paid"):
                ...
"""

from collections.abc import AsyncIterator
from enum import Enum, auto
from typing import Final, NamedTuple, Self

from cometmq.client.routes import Routes, parse_name_servers
from cometmq.cluster.route import Route
from cometmq.errors import NetworkError, NoRoute, RemoteError
from cometmq.filter import tag
from cometmq.format.layout import valid_group
from cometmq.format.record import decode_many
from cometmq.format.stored import readable_message
from cometmq.message import MessageQueue, StoredMessage
from cometmq.net.client import Connections
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import (
    GetMaxOffsetHeader,
    GetMinOffsetHeader,
    Header,
    OffsetResponseHeader,
    PullFlag,
    PullHeader,
    PullResponseHeader,
    QueryConsumerOffsetHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
    fields,
    parse,
)

SQL92: Final = "SQL92"
PULL_COUNT: Final = 32
PULL_GRACE_MS: Final = 10_000
"""A broker that holds a pull looks at its clock every few seconds, so its answer may be late."""


class PullStatus(Enum):
    """What a pull found."""

    FOUND = auto()
    NO_NEW_MESSAGE = auto()
    NO_MATCHED_MESSAGE = auto()
    OFFSET_ILLEGAL = auto()


_STATUS: Final[dict[int, PullStatus]] = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MESSAGE,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MESSAGE,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


class Pulled(NamedTuple):
    """What a pull gave.

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


class PullConsumer:
    """Reads queues.

    Args:
        name_servers: ``host:port``, several joined by ``;``.
        group: name of the consumer group for which offsets are committed.
        timeout_ms: how long a request may take, besides the time that a pull may be held.
    """

    def __init__(self, name_servers: str, group: str, *, timeout_ms: int = 3_000) -> None:
        self.group = valid_group(group)
        self._addresses = parse_name_servers(name_servers)
        self._timeout_ms = timeout_ms

    async def __aenter__(self) -> Self:
        """Get ready to pull."""
        self._connections = Connections()
        self._routes = Routes(self._connections, self._addresses)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self._connections.close()

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Give a topic's queues that can be read. Raises NoRoute or NetworkError."""
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
    ) -> Pulled:
        """Read messages of a queue from ``queue_offset`` on.

        Args:
            tags: ``*``, or tags joined by ``||``.
            sql: a condition over the messages' properties, instead of tags: ``size > 3 AND color = 'red'``.
                The broker alone evaluates it (its setting ``enablePropertyFilter``).
            wait_ms: how long the broker may hold the request when there is nothing new.

        Raises:
            FormatError: ``tags`` is no tag expression, or a message cannot be read.
            NoRoute, NetworkError, RemoteError: as requests do.
        """
        wanted = tag.parse(tags) if sql is None else None
        header = PullHeader(
            consumer_group=self.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=queue_offset,
            max_message_count=max_count,
            sys_flag=PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if wait_ms else 0),
            commit_offset=0,
            suspend_timeout_ms=wait_ms,
            subscription=tags if sql is None else sql,
            expression_type=None if sql is None else SQL92,
        )
        grace_ms = wait_ms + PULL_GRACE_MS if wait_ms else 0
        answer = await self._request(queue, RequestCode.PULL_MESSAGE, header, self._timeout_ms + grace_ms)
        status = _STATUS.get(answer.code)
        if status is None:
            raise RemoteError(answer.code, answer.remark or "")
        where = parse(PullResponseHeader, answer.ext_fields)
        messages = [readable_message(record) for record in decode_many(answer.body)]
        chosen = [message for message in messages if wanted is None or message.tags in wanted]
        return Pulled(status, chosen, where.next_offset, where.min_offset, where.max_offset)

    async def messages(
        self, queue: MessageQueue, queue_offset: int = 0, *, tags: str = "*", sql: str | None = None
    ) -> AsyncIterator[StoredMessage]:
        """Go through a queue's messages from ``queue_offset`` to its end. Raises like ``pull``."""
        while True:
            pulled = await self.pull(queue, queue_offset, tags=tags, sql=sql)
            for message in pulled.messages:
                yield message
            is_stuck = pulled.next_offset == queue_offset
            queue_offset = pulled.next_offset
            if is_stuck or pulled.status is PullStatus.NO_NEW_MESSAGE or queue_offset >= pulled.max_offset:
                return

    async def committed(self, queue: MessageQueue) -> int | None:
        """Give the offset that the group has committed, or None."""
        header = QueryConsumerOffsetHeader(
            consumer_group=self.group, topic=queue.topic, queue_id=queue.queue_id, set_zero_if_not_found=False
        )
        answer = await self._request(queue, RequestCode.QUERY_CONSUMER_OFFSET, header)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        return _offset(answer)

    async def commit(self, queue: MessageQueue, queue_offset: int) -> None:
        """Commit for the group that everything before ``queue_offset`` is handled."""
        header = UpdateConsumerOffsetHeader(
            consumer_group=self.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=queue_offset,
        )
        answer = await self._request(queue, RequestCode.UPDATE_CONSUMER_OFFSET, header)
        if answer.code != ResponseCode.SUCCESS:
            raise RemoteError(answer.code, answer.remark or "")

    async def min_offset(self, queue: MessageQueue) -> int:
        """Give the first queue offset that can be read."""
        header = GetMinOffsetHeader(topic=queue.topic, queue_id=queue.queue_id)
        return _offset(await self._request(queue, RequestCode.GET_MIN_OFFSET, header))

    async def max_offset(self, queue: MessageQueue) -> int:
        """Give the queue offset behind the last message."""
        header = GetMaxOffsetHeader(topic=queue.topic, queue_id=queue.queue_id)
        return _offset(await self._request(queue, RequestCode.GET_MAX_OFFSET, header))

    async def offset_by_time(self, queue: MessageQueue, time_ms: int) -> int:
        """Give the queue offset of the first message stored at or after ``time_ms`` since the epoch."""
        header = SearchOffsetHeader(topic=queue.topic, queue_id=queue.queue_id, time=time_ms)
        return _offset(await self._request(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header))

    async def _request(
        self, queue: MessageQueue, code: RequestCode, header: Header, timeout_ms: int | None = None
    ) -> Command:
        address = _address(await self._routes.get(queue.topic), queue)
        command = Command(code, ext_fields=fields(header))
        try:
            return await self._connections.request(address, command, timeout_ms or self._timeout_ms)
        except NetworkError:
            self._routes.forget(queue.topic)  # the broker may have come back elsewhere
            raise


def _address(route: Route, queue: MessageQueue) -> str:
    address = route.any_broker(queue.broker_name)
    if address is None:
        raise NoRoute(
            f"broker {queue.broker_name!r} of topic {queue.topic!r} is not known to the name server"
        )
    return address


def _offset(answer: Command) -> int:
    if answer.code != ResponseCode.SUCCESS:
        raise RemoteError(answer.code, answer.remark or "")
    return parse(OffsetResponseHeader, answer.ext_fields).offset
