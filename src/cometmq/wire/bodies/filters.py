"""The filters of consumer groups, as ``config/consumerFilter.json`` holds them.

RocketMQ: ``ConsumerFilterManager.java``, ``ConsumerFilterData.java``, ``BloomFilterData.java``.
"""

from msgspec import field

from cometmq.wire.bodies.body import Body
from cometmq.wire.headers.fields import Int, Long


class BloomData(Body):
    """The bits of a message's bitmap that belong to a group.

    Attributes:
        bit_count: length of the bitmap, in bits.
    """

    bit_count: Int = field(name="bitNum")
    positions: tuple[Int, ...] = field(name="bitPos")


class ConsumerFilterData(Body):
    """The subscription of one group to one topic, and its times.

    Attributes:
        born_time: when the broker received it, ms since the epoch: messages stored later have its bits.
        dead: whether ``dead_time`` is not before ``born_time``; encoded for other readers, ignored when
            decoded.
        dead_time: when the group's last member left, ms since the epoch; 0 while there are members.
        client_version: the version of the subscription, ms since the epoch.
    """

    group: str = field(name="consumerGroup")
    topic: str
    expression: str
    expression_type: str
    born_time: Long
    dead_time: Long = 0
    dead: bool = False
    bloom: BloomData | None = field(default=None, name="bloomFilterData")
    client_version: Long = 0


class TopicFilters(Body):
    """The filters of one topic, by group."""

    topic: str
    filters: dict[str, ConsumerFilterData] = field(default_factory=dict, name="groupFilterData")


class ConsumerFilterTable(Body):
    """All filters, by topic."""

    topics: dict[str, TopicFilters] = field(default_factory=dict, name="filterDataByTopic")
