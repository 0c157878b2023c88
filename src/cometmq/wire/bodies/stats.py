"""Bodies with the state of topics, groups and servers, for operators.

RocketMQ: ``TopicStatsTable.java``, ``ConsumeStats.java``, ``ResetOffsetBody.java``, ``KVTable.java``.
"""

from msgspec import field

from cometmq.message import MessageQueue
from cometmq.wire.bodies.body import Body


class TopicOffset(Body):
    """The offsets of a queue's ends; the time is that of its last message, ms since the epoch, or 0."""

    last_update_time: int = field(default=0, name="lastUpdateTimestamp")
    max_offset: int = 0
    min_offset: int = 0


class TopicStats(Body):
    """GET_TOPIC_STATS_INFO; ``put_tps`` is in messages per second."""

    offsets: dict[MessageQueue, TopicOffset] = field(default_factory=dict, name="offsetTable")
    put_tps: float = field(default=0.0, name="topicPutTps")


class ConsumeOffset(Body):
    """The progress of a group in a queue.

    Attributes:
        last_time: store time of the last consumed message, ms since the epoch, or 0.
        pull_offset: the queue offset that the group will pull next.
    """

    broker_offset: int = 0
    consumer_offset: int = 0
    last_time: int = field(default=0, name="lastTimestamp")
    pull_offset: int = 0


class ConsumeStats(Body):
    """GET_CONSUME_STATS; ``consume_tps`` is in messages per second."""

    consume_tps: float = 0.0
    offsets: dict[MessageQueue, ConsumeOffset] = field(default_factory=dict, name="offsetTable")


class QueueOffsets(Body):
    """A queue offset for each of several queues: the result of a reset of offsets."""

    offsets: dict[MessageQueue, int] = field(default_factory=dict, name="offsetTable")


class TextTable(Body):
    """Texts by name: GET_BROKER_RUNTIME_INFO, GET_KVLIST_BY_NAMESPACE, the answer to REGISTER_BROKER."""

    table: dict[str, str] = field(default_factory=dict)
