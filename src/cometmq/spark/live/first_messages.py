"""Detect that a topic was deleted and created again, by the first message that it had at the last read.

A topic that is created again starts at offset 0. That shows as long as a queue ends before the offset up to
which it was read, but no longer once it has grown. So the offsets of a stream also hold, for each topic and
broker, the first message of one queue, under the topic's name behind an ``@``, with which no name begins::

    {"orders": {"broker-a": {"0": 17, "1": 4}},
     "@orders": {"broker-a": {"queue_id": 0, "queue_offset": 0, "store_time": 1767225600000}}}

Checkpoints of earlier versions have none, and get it with the next micro-batch that has messages. When the
message expires, the first one is at a later queue offset. A first message at the same queue offset with
another store time, or at an earlier one though it was stored later, belongs to another topic.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from cometmq.errors import SettingsError
from cometmq.message import MessageQueue
from cometmq.spark.live.offsets import META_PREFIX, NestedOffsets
from cometmq.spark.live.survey import Extents, TopicOnBroker

UNKNOWN: Final = 0
"""The store time of a message whose store time was not requested."""


class FirstMessage(msgspec.Struct, frozen=True):
    """The first message of a queue; ``store_time`` is in ms since the epoch."""

    queue_id: int
    queue_offset: int
    store_time: int


FirstMessages: TypeAlias = dict[TopicOnBroker, FirstMessage]
Find: TypeAlias = Callable[[Mapping[MessageQueue, FirstMessage]], Mapping[MessageQueue, FirstMessage | None]]
"""Finds the first message of each queue by the expected one; None if there is none, or it expires."""


class Compared(NamedTuple):
    """The result of a comparison.

    Attributes:
        known: the present first messages by topic and broker.
        recreated: topics that were deleted and created again on a broker.
    """

    known: FirstMessages
    recreated: set[TopicOnBroker]


def read(what: str, value: Mapping[str, Any]) -> FirstMessages:
    """Read the first messages that offsets hold. Raises SettingsError, naming ``what``, if malformed."""
    found = {topic: of_brokers for topic, of_brokers in value.items() if topic.startswith(META_PREFIX)}
    try:
        by_topic = msgspec.convert(found, dict[str, dict[str, FirstMessage]])
    except msgspec.ValidationError as error:
        raise SettingsError(f"{what}: {found!r} holds no first messages of topics: {error}") from None
    return {
        (topic.removeprefix(META_PREFIX), broker_name): first
        for topic, by_broker in by_topic.items()
        for broker_name, first in by_broker.items()
    }


def with_first_messages(offsets: NestedOffsets, known: FirstMessages) -> NestedOffsets:
    """Add first messages to nested offsets."""
    added: NestedOffsets = {}
    for (topic, broker_name), first in sorted(known.items(), key=lambda item: item[0]):
        added.setdefault(META_PREFIX + topic, {})[broker_name] = msgspec.to_builtins(first)
    return offsets | added


def compare(
    known: FirstMessages, extents: Extents, places: Collection[TopicOnBroker], find: Find
) -> Compared:
    """Compare the present first messages of some topics on some brokers with the known ones.

    Args:
        extents: the ends of all queues.
        places: the topics and brokers to compare.
    """
    queues = {place: queue for place, queue in _compared_queues(known, extents).items() if place in places}
    found = find({queue: _expected(queue, extents, known.get(place)) for place, queue in queues.items()})
    now, recreated = dict(known), set()
    for place, queue in queues.items():
        before, after = known.get(place), found[queue]
        if before is not None and _is_another(before, extents[queue].end, after):
            recreated.add(place)
            del now[place]
        if after is not None:
            now[place] = after
    return Compared(now, recreated)


def _compared_queues(known: FirstMessages, extents: Extents) -> dict[TopicOnBroker, MessageQueue]:
    """Return by place the queue whose first message is known, else the first queue with messages."""
    queues: dict[TopicOnBroker, MessageQueue] = {}
    for queue, extent in sorted(extents.items()):
        if extent.end > extent.first:
            queues.setdefault((queue.topic, queue.broker_name), queue)
    return queues | {
        place: queue
        for place, first in known.items()
        if (queue := MessageQueue(*place, first.queue_id)) in extents
    }


def _expected(queue: MessageQueue, extents: Extents, known: FirstMessage | None) -> FirstMessage:
    """Return the first message that a queue should have: the known one if its offset is still the first."""
    first = extents[queue].first
    if known is not None and known.queue_offset == first:
        return known
    return FirstMessage(queue.queue_id, first, UNKNOWN)


def _is_another(before: FirstMessage, end: int, after: FirstMessage | None) -> bool:
    """Check whether a queue that ends at ``end`` is now of another topic, by its first messages."""
    if end <= before.queue_offset:
        return True
    if after is None or after.queue_offset > before.queue_offset:
        return False
    if after.queue_offset < before.queue_offset:
        return after.store_time > before.store_time
    return after != before
