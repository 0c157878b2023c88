"""Read messages of queues from their end, or from an offset, without committing anything."""

import asyncio
from operator import attrgetter
from typing import NamedTuple

import msgspec

from cometmq.admin.cluster import ClusterAdmin
from cometmq.admin.messages import TOOLS_GROUP
from cometmq.admin.tolerant import Trouble
from cometmq.arguments import TEXT, check, number, or_none
from cometmq.client.consumer.pull import PullConsumer
from cometmq.client.consumer.queue_requests import PullStatus, QueuePull
from cometmq.errors import NetworkError, NotFound, RemoteError
from cometmq.format.stored import with_readable_body
from cometmq.message import MessageQueue, StoredMessage


class NewestMessages(NamedTuple):
    """The newest messages of a topic, the newest first, and the queues that could not be read."""

    messages: list[StoredMessage]
    troubles: list[Trouble]


async def newest(
    cluster: ClusterAdmin, topic: str, *, limit: int, tags: str = "*", sql: str | None = None
) -> NewestMessages:
    """Return those of the last ``limit`` messages of each queue that a filter selects, at most ``limit``.

    Raises NoRoute, NetworkError if no name server answers, FormatError for an illegal tag expression.
    """
    check(TEXT, topic=topic, tags=tags)
    check(number(1), limit=limit)
    check(or_none(TEXT), sql=sql)
    async with reader_of(cluster) as reader:
        queues = await reader.queues(topic)
        found = await asyncio.gather(*(_last(reader, queue, limit, tags, sql) for queue in queues))
    messages = [message for one in found if isinstance(one, list) for message in one]
    messages.sort(key=attrgetter("store_time", "physical_offset"), reverse=True)
    troubles = [one for one in found if isinstance(one, Trouble)]
    return NewestMessages(messages[:limit], list(dict.fromkeys(troubles)))


async def from_offset(
    cluster: ClusterAdmin,
    queue: MessageQueue,
    offset: int,
    *,
    limit: int,
    tags: str = "*",
    sql: str | None = None,
) -> list[StoredMessage]:
    """Return the first ``limit`` messages of a queue that a filter selects, from a queue offset on.

    Raises NotFound if the topic has no such queue, NoRoute, RemoteError, NetworkError, FormatError.
    """
    check(TEXT, tags=tags)
    check(number(0), offset=offset)
    check(number(1), limit=limit)
    check(or_none(TEXT), sql=sql)
    async with reader_of(cluster) as reader:
        queues = await reader.queues(queue.topic)
        if queue not in queues:
            known = ", ".join(f"{one.broker_name}:{one.queue_id}" for one in queues[:20])
            raise NotFound(
                f"topic {queue.topic} has no queue {queue.broker_name}:{queue.queue_id}: it has {known}"
            )
        end = await reader.max_offset(queue)
        return await pull_until(reader, QueuePull(queue, offset, tags, sql), end, limit)


def reader_of(cluster: ClusterAdmin) -> PullConsumer:
    """Return a reader with the cluster's servers and credentials, to be opened by ``async with``."""
    servers = ";".join(cluster.name_servers)
    return PullConsumer(servers, TOOLS_GROUP, credentials=cluster.credentials, tls=cluster.tls)


async def _last(
    reader: PullConsumer, queue: MessageQueue, limit: int, tags: str, sql: str | None
) -> list[StoredMessage] | Trouble:
    try:
        first, end = await asyncio.gather(reader.min_offset(queue), reader.max_offset(queue))
        wanted = QueuePull(queue, max(first, end - limit), tags, sql)
        return await pull_until(reader, wanted, end, limit)
    except (RemoteError, NetworkError) as error:
        return Trouble(queue.broker_name, f"queue {queue.queue_id}", str(error))


async def pull_until(reader: PullConsumer, wanted: QueuePull, end: int, limit: int) -> list[StoredMessage]:
    """Return the first messages before ``end`` that a pull would get, one pull after another.

    Raises RemoteError, NetworkError.
    """
    found: list[StoredMessage] = []
    while wanted.queue_offset < end and len(found) < limit:
        pulled = await reader.pull_stored(wanted)
        found += [with_readable_body(one) for one in pulled.messages if one.queue_offset < end]
        if pulled.next_offset == wanted.queue_offset or pulled.status is PullStatus.NO_NEW_MESSAGE:
            break
        wanted = msgspec.structs.replace(wanted, queue_offset=pulled.next_offset)
    return found[:limit]
