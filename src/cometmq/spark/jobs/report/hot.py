"""Find hot keys and queues: those with far more of their topic's messages than others.

Both need ``HOT_MIN`` messages: with fewer, chance alone makes some keys and queues look hot.

* A **key** is hot if at least one in ``KEY_SHARE`` of its topic's messages has it, and ``KEY_TIMES`` times as
  many as the average key. Eight keys that share a topic evenly are not hot, nor is one that was sent twice.
* A **queue** is hot if it has ``QUEUE_TIMES`` times as many messages as the average of the topic's other
  queues in the store. In RocketMQ's topic of delayed messages a queue is a delay level, and none is hot.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from cometmq.format.delay_level import SCHEDULE_TOPIC
from cometmq.io.files import FileLayer
from cometmq.spark.jobs.report.config_table import load_table

HOT_MIN: Final = 100
KEY_SHARE: Final = 100
KEY_TIMES: Final = 10
QUEUE_TIMES: Final = 3

TABLE: Final = "topics"


class HotQueue(msgspec.Struct, frozen=True):
    """A queue with far more messages than the others of its topic in the same store.

    Attributes:
        others: their average number of messages.
        queues: number of the topic's queues in the store.
    """

    store: str
    queue_id: int
    messages: int
    others: float
    queues: int


def hot_queues(
    messages: Mapping[tuple[str, str, int], int], queue_counts: Mapping[tuple[str, str], int]
) -> dict[str, list[HotQueue]]:
    """Return the hot queues by topic, the fullest first.

    Args:
        messages: counts by store, topic and queue id.
        queue_counts: numbers of queues by store and topic. Where unknown, or too low, the number of queues
            with messages is used.
    """
    by_topic: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    for (store, topic, queue_id), count in messages.items():
        by_topic[store, topic][queue_id] += count
    hot: defaultdict[str, list[HotQueue]] = defaultdict(list)
    for (store, topic), queues in by_topic.items():
        known = max(queue_counts.get((store, topic), 0), len(queues))
        if known == 1 or topic == SCHEDULE_TOPIC:
            continue
        for queue_id, count in queues.items():
            others = (queues.total() - count) / (known - 1)
            if count >= max(HOT_MIN, QUEUE_TIMES * others):
                hot[topic].append(HotQueue(store, queue_id, count, others, known))
    return {topic: sorted(found, key=lambda one: -one.messages) for topic, found in hot.items()}


def load_queue_counts(layer: FileLayer, root: Path) -> dict[str, int]:
    """Load the number of queues of each topic from ``config/topics.json``; empty if it is unreadable."""
    topics = load_table(layer, root, TABLE, _TopicTable).topics
    return {name: topic.queue_count for name, topic in topics.items()}


class _Topic(msgspec.Struct):
    queue_count: int = msgspec.field(name="writeQueueNums", default=0)


class _TopicTable(msgspec.Struct):
    topics: dict[str, _Topic] = msgspec.field(name="topicConfigTable", default_factory=dict)
