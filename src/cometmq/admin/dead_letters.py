"""Dead letters: what a consumer group has given up on after its retries, in the topic ``%DLQ%group``.

A letter that is sent again goes to the group's retry topic: no other group of its topic sees it, and its
retries begin anew. The letter itself stays where it is until it expires: the log only grows.
"""

from collections.abc import AsyncGenerator
from typing import NamedTuple

from cometmq.admin.cluster import Cluster
from cometmq.admin.messages import TIME_MAX, Sent, by_time, send_again
from cometmq.admin.topics import TopicAdmin
from cometmq.arguments import FLAG, TEXT, check, instance_of, number
from cometmq.errors import NoRoute, NotFound
from cometmq.format import properties
from cometmq.format.layout import DLQ_PREFIX, RETRY_PREFIX
from cometmq.message import StoredMessage


class DeadLetters(NamedTuple):
    """The dead letters of a group: how many are there, and when the last one came (ms; 0 for never)."""

    group: str
    letters: int
    last_time: int


async def groups(admin: TopicAdmin) -> list[DeadLetters]:
    """Tell which groups have dead letters. Raises RemoteError or NetworkError."""
    found = []
    for topic in await admin.topics():
        if topic.startswith(DLQ_PREFIX):
            queues = await admin.queues(topic)
            total = sum(queue.max_offset - queue.min_offset for queue in queues)
            last_time = max((queue.last_time for queue in queues), default=0)
            found.append(DeadLetters(topic.removeprefix(DLQ_PREFIX), total, last_time))
    return found


async def letters(
    cluster: Cluster, group: str, *, begin: int = 0, end: int = TIME_MAX
) -> AsyncGenerator[StoredMessage]:
    """Go through the dead letters of a group that came from ``begin`` to ``end`` (ms, both included).

    Raises NotFound if it never had any, RemoteError, NetworkError.
    """
    check(TEXT, group=group)
    check(number(), begin=begin, end=end)
    try:
        async for letter in by_time(cluster, DLQ_PREFIX + group, begin=begin, end=end):
            yield letter
    except NoRoute:
        raise NotFound(f"group {group} has no dead letters: there is no topic {DLQ_PREFIX}{group}") from None


def topic_of(letter: StoredMessage) -> str:
    """Give the topic that a dead letter was sent to."""
    return letter.properties.get(properties.RETRY_TOPIC, letter.topic)


async def resend(cluster: Cluster, group: str, letter: StoredMessage, *, to_topic: bool = False) -> Sent:
    """Let a group have a dead letter again, or all groups of its topic. Raises as ``send_again``."""
    check(TEXT, group=group)
    check(instance_of(StoredMessage), letter=letter)
    check(FLAG, to_topic=to_topic)
    if to_topic:
        return await send_again(cluster, letter, topic_of(letter))
    return await send_again(
        cluster, letter, RETRY_PREFIX + group, **{properties.RETRY_TOPIC: topic_of(letter)}
    )
