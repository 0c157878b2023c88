"""Follow a topic: its new messages, as they come, without committing anything.

A round asks each broker of the topic for the ends of its queues, and pulls only from those that have grown:
a topic that is idle costs one request to each of its brokers.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, NamedTuple

import msgspec

from cometmq.admin.browsing import messages_of, reader_of
from cometmq.admin.cluster import ClusterAdmin
from cometmq.admin.readable import Excerpt, excerpt_of
from cometmq.admin.tolerant import TolerantAdmin, Trouble
from cometmq.arguments import TEXT, check, number, or_none
from cometmq.client.consumer.pull import PullConsumer
from cometmq.client.requests.queue_requests import QueuePull
from cometmq.errors import NetworkError, RemoteError
from cometmq.filter import tag
from cometmq.message import MessageQueue

PAUSE_S: Final = 1.0
"""How long, in seconds, it waits between two rounds."""


class NewMessages(NamedTuple):
    """What one round has found.

    Attributes:
        messages: in the order in which they were stored, with the beginning of their bodies.
        skipped: how many older ones were not read, or not shown, since more came than a round takes.
        troubles: the brokers, or queues, that could not be read; they are tried again in the next round.
    """

    messages: list[Excerpt]
    skipped: int
    troubles: list[Trouble]


async def follow(
    cluster: ClusterAdmin,
    topic: str,
    *,
    limit: int,
    tags: str = "*",
    sql: str | None = None,
    pause_s: float = PAUSE_S,
) -> AsyncGenerator[NewMessages]:
    """Yield what comes to a topic from now on, a round at a time, also when nothing has come.

    Args:
        limit: of the messages of a round.

    Raises NoRoute, NetworkError if no name server answers, FormatError for an illegal tag expression.
    """
    check(TEXT, topic=topic, tags=tags)
    check(number(1), limit=limit)
    check(or_none(TEXT), sql=sql)
    tag.check_filter(tags, sql)
    places: dict[MessageQueue, int] = {}
    async with reader_of(cluster) as reader:
        found = await _ends(cluster, topic)
        places |= found.ends
        while True:
            yield await _round(reader, found, places, limit, QueuePull(_NO_QUEUE, 0, tags, sql))
            await asyncio.sleep(pause_s)
            found = await _ends(cluster, topic)


_NO_QUEUE: Final = MessageQueue("", "", 0)


class _Ends(NamedTuple):
    """The ends of a topic's queues, and where they begin."""

    ends: dict[MessageQueue, int]
    begins: dict[MessageQueue, int]
    troubles: list[Trouble]


async def _ends(cluster: ClusterAdmin, topic: str) -> _Ends:
    tolerant = TolerantAdmin(cluster)
    lines = await tolerant.queues(topic)
    queues = {MessageQueue(topic, line.broker_name, line.queue_id): line for line in lines}
    return _Ends(
        {queue: line.max_offset for queue, line in queues.items()},
        {queue: line.min_offset for queue, line in queues.items()},
        tolerant.troubles,
    )


async def _round(
    reader: PullConsumer, found: _Ends, places: dict[MessageQueue, int], limit: int, filtered: QueuePull
) -> NewMessages:
    """Read what has come to each queue, and move their places on."""
    wanted, skipped = [], 0
    for queue, end in found.ends.items():
        first = found.begins[queue]
        place = max(places.get(queue, first), first)
        place = first if place > end else place  # the topic was deleted, and created again
        begin = max(place, end - limit)
        skipped += begin - place
        if begin < end:
            wanted.append((msgspec.structs.replace(filtered, queue=queue, queue_offset=begin), end))
    answers = await asyncio.gather(*(_pull(reader, pull, end, limit) for pull, end in wanted))
    messages: list[Excerpt] = []
    troubles = list(found.troubles)
    for (pull, end), answer in zip(wanted, answers, strict=True):
        if isinstance(answer, Trouble):
            troubles.append(answer)
        else:
            messages += answer
            places[pull.queue] = end
    messages.sort(key=lambda one: (one.message.store_time, one.message.physical_offset))
    shown = messages[-limit:]
    return NewMessages(shown, skipped + len(messages) - len(shown), list(dict.fromkeys(troubles)))


async def _pull(reader: PullConsumer, pull: QueuePull, end: int, limit: int) -> list[Excerpt] | Trouble:
    found: list[Excerpt] = []
    try:
        async with aclosing(messages_of(reader, pull, end)) as messages:
            async for message in messages:
                found.append(excerpt_of(message))
                if len(found) == limit:
                    break
    except (RemoteError, NetworkError) as error:
        return Trouble(pull.queue.broker_name, f"queue {pull.queue.queue_id}", str(error))
    return found
