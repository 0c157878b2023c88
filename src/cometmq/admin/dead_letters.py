"""Dead letters: messages that a consumer group gave up after its retries, in the topic ``%DLQ%group``.

A dead letter that is sent again goes to the group's retry topic: no other group of its topic receives it, and
its retries begin anew. The letter itself stays stored until it expires: the log is only appended to.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import NamedTuple

from cometmq.admin.cluster import ClusterAdmin
from cometmq.admin.messages import TIME_MAX, ResendResult, by_time, send_again
from cometmq.admin.topics import TopicAdmin
from cometmq.arguments import FLAG, TEXT, check, instance_of, number
from cometmq.errors import CometMQError, NoRoute, NotFound, PartlyResent
from cometmq.format import properties
from cometmq.format.layout import DLQ_PREFIX, RETRY_PREFIX
from cometmq.message import StoredMessage


class DeadLetters(NamedTuple):
    """The dead letters of a group: their number, and the time of the last one (ms since the epoch, or 0)."""

    group: str
    letters: int
    last_time: int


async def groups(admin: TopicAdmin) -> list[DeadLetters]:
    """Return the groups that have dead letters. Raises NoBroker, RemoteError or NetworkError."""
    found = []
    for topic in await admin.topics():
        if topic.startswith(DLQ_PREFIX):
            queues = await admin.queues(topic)
            total = sum(queue.max_offset - queue.min_offset for queue in queues)
            last_time = max((queue.last_time for queue in queues), default=0)
            found.append(DeadLetters(topic.removeprefix(DLQ_PREFIX), total, last_time))
    return found


async def letters(
    cluster: ClusterAdmin, group: str, *, begin: int = 0, end: int = TIME_MAX
) -> AsyncGenerator[StoredMessage]:
    """Iterate over the dead letters of a group stored from ``begin`` to ``end`` (ms, both included).

    Raises NotFound if the group never had any, NoBroker, RemoteError, NetworkError.
    """
    check(TEXT, group=group)
    check(number(), begin=begin, end=end)
    try:
        async with aclosing(by_time(cluster, DLQ_PREFIX + group, begin=begin, end=end)) as found:
            async for letter in found:
                yield letter
    except NoRoute:
        await cluster.registered()
        raise NotFound(f"group {group} has no dead letters: there is no topic {DLQ_PREFIX}{group}") from None


def topic_of(letter: StoredMessage) -> str:
    """Return the topic to which a dead letter was originally sent."""
    return letter.properties.get(properties.RETRY_TOPIC, letter.topic)


async def resend(
    cluster: ClusterAdmin, group: str, letter: StoredMessage, *, to_topic: bool = False
) -> ResendResult:
    """Send a dead letter again to its group, or to all groups of its topic. Raises as ``send_again``."""
    check(TEXT, group=group)
    check(instance_of(StoredMessage), letter=letter)
    check(FLAG, to_topic=to_topic)
    if to_topic:
        return await send_again(cluster, letter, topic_of(letter))
    return await send_again(
        cluster, letter, RETRY_PREFIX + group, **{properties.RETRY_TOPIC: topic_of(letter)}
    )


async def resend_all(
    cluster: ClusterAdmin, group: str, letters: Sequence[StoredMessage], *, to_topic: bool = False
) -> list[ResendResult]:
    """Send dead letters again, one after the other, until one fails.

    Raises PartlyResent if some were sent before, else as ``resend``.
    """
    sent: list[ResendResult] = []
    for letter in letters:
        try:
            sent.append(await resend(cluster, group, letter, to_topic=to_topic))
        except CometMQError as error:
            if not sent:
                raise
            raise PartlyResent(sent, [one.offset_id for one in letters[len(sent) :]], error) from error
    return sent
