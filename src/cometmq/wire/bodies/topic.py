"""Bodies about topics: their settings, the version of a topic table, their names.

RocketMQ: ``TopicConfig.java``, ``DataVersion.java``, ``TopicConfigSerializeWrapper.java`` and others.
"""

from typing import Any, Final

from msgspec import field

from cometmq.wire.bodies.body import Body
from cometmq.wire.headers.fields import Int, Long

TYPE_ATTRIBUTE: Final = "message.type"
"""The attribute that says which type of messages a topic accepts; NORMAL without it."""
MESSAGE_TYPES: Final = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED")
"""Its values; a MIXED topic accepts messages of all these types."""


class DataVersion(Body):
    """The version of a table, which changes with it.

    Attributes:
        counter: number of changes.
        timestamp: time of the last change, ms since the epoch.
    """

    counter: Long = 0
    state_version: Long = 0
    timestamp: Long = 0

    def next(self, now_ms: int) -> "DataVersion":
        """Return the version after one more change."""
        return DataVersion(self.counter + 1, self.state_version, now_ms)


class TopicConfig(Body):
    """The settings of a topic on one broker.

    Attributes:
        attributes: texts by name, such as ``TYPE_ATTRIBUTE``; ``broker.admin.attributes`` lists them.
        order: whether the queues keep their brokers when one is down.
        perm: the sum of 4 (read), 2 (write) and 1 (inherit).
    """

    topic: str = field(name="topicName")
    read_queue_count: Int = field(default=16, name="readQueueNums")
    write_queue_count: Int = field(default=16, name="writeQueueNums")
    perm: Int = 6
    filter_type: str = field(default="SINGLE_TAG", name="topicFilterType")
    sys_flag: Int = field(default=0, name="topicSysFlag")
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)


class TopicConfigs(Body):
    """UPDATE_AND_CREATE_TOPIC_LIST: topics to create."""

    topics: list[TopicConfig] = field(name="topicConfigList")


class TopicTable(Body):
    """GET_ALL_TOPIC_CONFIG, the file ``topics.json``, and a part of REGISTER_BROKER.

    Attributes:
        mapping_version: version of the static topics' table; not in the file.
        mapping_details: RocketMQ's static topics, stored unchanged.
        mapping_infos: the same, in the form that name servers receive.
    """

    data_version: DataVersion = field(default_factory=DataVersion)
    topics: dict[str, TopicConfig] = field(default_factory=dict, name="topicConfigTable")
    mapping_version: DataVersion | None = field(default=None, name="mappingDataVersion")
    mapping_details: dict[str, Any] | None = field(default=None, name="topicQueueMappingDetailMap")
    mapping_infos: dict[str, Any] | None = field(default=None, name="topicQueueMappingInfoMap")


class TopicNames(Body):
    """The names of topics, from a name server or a broker."""

    topics: list[str] = field(default_factory=list, name="topicList")
    broker_addr: str | None = None
