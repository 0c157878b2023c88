"""Notice that a topic was deleted and made anew, by the first message that it had when it was last read.

A topic that is made anew counts from 0 again. As long as a queue is shorter than it was read, that shows in
its offsets; once it has grown longer it does not. So the offsets of a stream also hold, for each topic and
broker, the first message of one queue, under the topic's name behind an ``@``, with which no name begins::

    {"orders": {"broker-a": {"0": 17, "1": 4}},
     "@orders": {"broker-a": {"queue_id": 0, "queue_offset": 0, "store_time": 1767225600000}}}

Checkpoints of earlier versions have none of this, and get it with the next micro-batch that has messages.
When the message expires another one is the first, at a later queue offset. One at an earlier queue offset,
or at the same with another store time, is a message of another topic.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec

from cometmq.errors import SettingsError
from cometmq.message import MessageQueue
from cometmq.spark.live.offsets import APART, Written
from cometmq.spark.live.survey import EMPTY, Extents, Place


class FirstMessage(msgspec.Struct, frozen=True):
    """The first message of a queue; ``store_time`` is in ms since the epoch."""

    queue_id: int
    queue_offset: int
    store_time: int


FirstMessages: TypeAlias = dict[Place, FirstMessage]
Find: TypeAlias = Callable[[Collection[MessageQueue]], Mapping[MessageQueue, FirstMessage | None]]
"""Finds the first message of each queue; None of one that has none, or that loses it at this moment."""


class Compared(NamedTuple):
    """What is known now.

    Attributes:
        known: first messages by topic and broker.
        anew: topics that were made anew on a broker.
    """

    known: FirstMessages
    anew: set[Place]


def read(what: str, value: Mapping[str, Any]) -> FirstMessages:
    """Read the first messages that offsets hold. Raises SettingsError, naming ``what``, for what are none."""
    apart = {topic: of_brokers for topic, of_brokers in value.items() if topic.startswith(APART)}
    try:
        by_topic = msgspec.convert(apart, dict[str, dict[str, FirstMessage]])
    except msgspec.ValidationError as error:
        raise SettingsError(f"{what}: {apart!r} holds no first messages of topics: {error}") from None
    return {
        (topic.removeprefix(APART), broker_name): first
        for topic, by_broker in by_topic.items()
        for broker_name, first in by_broker.items()
    }


def with_first_messages(offsets: Written, known: FirstMessages) -> Written:
    """Return written offsets with first messages."""
    apart: Written = {}
    for (topic, broker_name), first in sorted(known.items(), key=lambda item: item[0]):
        apart.setdefault(APART + topic, {})[broker_name] = msgspec.to_builtins(first)
    return offsets | apart


def compare(known: FirstMessages, extents: Extents, places: Collection[Place], find: Find) -> Compared:
    """Compare the first messages of some topics on some brokers with those that are known.

    Args:
        extents: the ends of all queues.
        places: the topics and brokers to look at.
    """
    queues = {place: queue for place, queue in _queues_to_ask(known, extents).items() if place in places}
    found = find(list(queues.values()))
    now, anew = dict(known), set()
    for place, queue in queues.items():
        before, after = known.get(place), found[queue]
        if before is not None and _is_another(before, extents.get(queue, EMPTY).end, after):
            anew.add(place)
            del now[place]
        if after is not None:
            now[place] = after
    return Compared(now, anew)


def _queues_to_ask(known: FirstMessages, extents: Extents) -> dict[Place, MessageQueue]:
    """Return of each place the queue whose first message is known, else the first one with messages."""
    queues: dict[Place, MessageQueue] = {}
    for queue, extent in sorted(extents.items()):
        if extent.end > extent.first:
            queues.setdefault((queue.topic, queue.broker_name), queue)
    return queues | {
        place: queue
        for place, first in known.items()
        if (queue := MessageQueue(*place, first.queue_id)) in extents
    }


def _is_another(before: FirstMessage, end: int, after: FirstMessage | None) -> bool:
    """Check whether a queue that had one message first, and now ends at ``end``, is another topic's now."""
    if end <= before.queue_offset:
        return True
    if after is None or after.queue_offset > before.queue_offset:
        return False
    return after != before
