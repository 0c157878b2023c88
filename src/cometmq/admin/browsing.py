"""Read messages of queues from their end, or from an offset, without committing anything.

Messages have their bodies as they are stored: see ``messages``.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import msgspec

from cometmq.admin.cluster import ClusterAdmin
from cometmq.admin.messages import TOOLS_GROUP
from cometmq.admin.tolerant import Trouble
from cometmq.arguments import TEXT, check, number, or_none
from cometmq.client.answer import answers_of
from cometmq.client.consumer.pull import PullConsumer
from cometmq.client.lookup import age
from cometmq.client.merging import merged
from cometmq.client.requests.queue_requests import PULL_COUNT, PullStatus, QueuePull
from cometmq.errors import NetworkError, NotFound, RemoteError
from cometmq.filter import tag
from cometmq.message import MessageQueue, StoredMessage

KEPT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Most bytes of bodies, as stored, that are held of all queues of a topic, but for one message of each."""


async def newest(
    cluster: ClusterAdmin,
    topic: str,
    troubles: list[Trouble],
    *,
    limit: int,
    tags: str = "*",
    sql: str | None = None,
) -> AsyncGenerator[StoredMessage]:
    """Iterate over the last ``limit`` messages of each queue that a filter selects, the newest first.

    Args:
        troubles: gets the queues that cannot be read; the others are.

    Raises NoRoute, NetworkError if no name server answers, FormatError for an illegal tag expression.
    """
    check(TEXT, topic=topic, tags=tags)
    check(number(1), limit=limit)
    check(or_none(TEXT), sql=sql)
    tag.check_filter(tags, sql)
    async with reader_of(cluster) as reader:
        queues = await reader.queues(topic)
        share = KEPT_BYTES_MAX // max(len(queues), 1)
        walks = [
            _backwards(reader, QueuePull(queue, 0, tags, sql), limit, share, troubles) for queue in queues
        ]
        async with aclosing(merged(walks, age)) as found:
            async for message in found:
                yield message


async def from_offset(
    cluster: ClusterAdmin, queue: MessageQueue, offset: int, *, tags: str = "*", sql: str | None = None
) -> AsyncGenerator[StoredMessage]:
    """Iterate over the messages of a queue that a filter selects, from a queue offset to its present end.

    Raises NotFound if the topic has no such queue, NoRoute, RemoteError, NetworkError, FormatError.
    """
    check(TEXT, tags=tags)
    check(number(0), offset=offset)
    check(or_none(TEXT), sql=sql)
    tag.check_filter(tags, sql)
    async with reader_of(cluster) as reader:
        queues = await reader.queues(queue.topic)
        if queue not in queues:
            known = ", ".join(f"{one.broker_name}:{one.queue_id}" for one in queues[:20])
            raise NotFound(
                f"topic {queue.topic} has no queue {queue.broker_name}:{queue.queue_id}: it has {known}"
            )
        with answers_of(queue.broker_name):
            end = await reader.max_offset(queue)
        async with aclosing(messages_of(reader, QueuePull(queue, offset, tags, sql), end)) as found:
            async for message in found:
                yield message


def reader_of(cluster: ClusterAdmin) -> PullConsumer:
    """Return a reader with the cluster's servers and credentials, to be opened by ``async with``."""
    servers = ";".join(cluster.name_servers)
    return PullConsumer(servers, TOOLS_GROUP, credentials=cluster.credentials, tls=cluster.tls)


async def messages_of(reader: PullConsumer, wanted: QueuePull, end: int) -> AsyncGenerator[StoredMessage]:
    """Iterate over the messages before ``end`` that a pull would get, one pull after another.

    Raises RemoteError, NetworkError.
    """
    while wanted.queue_offset < end:
        with answers_of(wanted.queue.broker_name):
            pulled = await reader.pull_stored(wanted)
        for message in pulled.messages:
            if message.queue_offset < end:
                yield message
        if pulled.next_offset <= wanted.queue_offset or pulled.status is PullStatus.NO_NEW_MESSAGE:
            return
        wanted = msgspec.structs.replace(wanted, queue_offset=pulled.next_offset)


async def _backwards(
    reader: PullConsumer, wanted: QueuePull, limit: int, bytes_max: int, troubles: list[Trouble]
) -> AsyncGenerator[StoredMessage]:
    """Iterate over the last messages of a queue, the last one first, by reading a part after the other."""
    queue, count = wanted.queue, PULL_COUNT
    try:
        with answers_of(queue.broker_name):
            first, end = await asyncio.gather(reader.min_offset(queue), reader.max_offset(queue))
        first = max(first, end - limit)
        while end > first:
            begin = max(first, end - count)
            part = msgspec.structs.replace(wanted, queue_offset=begin)
            kept, is_whole = await _last_of(reader, part, end, bytes_max)
            end, count = (
                (begin, min(2 * count, PULL_COUNT)) if is_whole else (kept[0].queue_offset, len(kept))
            )
            while kept:
                yield kept.pop()
    except (RemoteError, NetworkError) as error:
        trouble = Trouble(queue.broker_name, f"queue {queue.queue_id}", str(error))
        if trouble not in troubles:
            troubles.append(trouble)


async def _last_of(
    reader: PullConsumer, wanted: QueuePull, end: int, bytes_max: int
) -> tuple[deque[StoredMessage], bool]:
    """Return the last messages before ``end``, as many as have so many bytes; and whether those are all."""
    kept: deque[StoredMessage] = deque()
    size, is_whole = 0, True
    async for message in messages_of(reader, wanted, end):
        kept.append(message)
        size += len(message.body)
        while size > bytes_max and len(kept) > 1:
            size -= len(kept.popleft().body)
            is_whole = False
    return kept, is_whole
