"""Bodies about groups: their members, their settings, their offsets.

RocketMQ: ``GetConsumerListByGroupResponseBody.java``, ``ConsumerConnection.java``,
``SubscriptionGroupConfig.java``, ``ConsumerOffsetSerializeWrapper.java`` and their neighbours.
"""

from typing import Any

from msgspec import field

from cometmq.wire.bodies.body import Body
from cometmq.wire.bodies.heartbeat import ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionData
from cometmq.wire.bodies.topic import DataVersion
from cometmq.wire.codes import LanguageCode
from cometmq.wire.headers.fields import Int, Long


class ConsumerIds(Body):
    """GET_CONSUMER_LIST_BY_GROUP: the client ids of a group's members."""

    ids: list[str] = field(default_factory=list, name="consumerIdList")


class ClientConnection(Body):
    """The connection of one member."""

    client_addr: str
    client_id: str
    language: LanguageCode
    version: Int


class SubscriptionDifference(Body):
    """CometMQ's extension: members of a group subscribe to a topic differently, so that each misses messages.

    Attributes:
        wants: for each expression, the ids of the clients that subscribe with it.
    """

    topic: str
    wants: dict[str, list[str]] = field(default_factory=dict)


class ConsumerConnections(Body):
    """GET_CONSUMER_CONNECTION_LIST: the members of a consumer group, and their subscriptions.

    Attributes:
        differences: CometMQ's extension, which RocketMQ's tools ignore: the topics to which members subscribe
            differently; None if there are none.
    """

    connections: list[ClientConnection] = field(name="connectionSet")
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    message_model: MessageModel = MessageModel.CLUSTERING
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict, name="subscriptionTable")
    differences: list[SubscriptionDifference] | None = field(default=None, name="subscriptionDifferences")


class ProducerConnections(Body):
    """GET_PRODUCER_CONNECTION_LIST: the members of a producer group."""

    connections: list[ClientConnection] = field(name="connectionSet")


class GroupNames(Body):
    """QUERY_TOPIC_CONSUME_BY_WHO: the groups that consume a topic."""

    groups: list[str] = field(default_factory=list, name="groupList")


class GroupConfig(Body):
    """The settings of a consumer group.

    Attributes:
        consume_timeout_minutes: how long clients may take to handle a message.
        retry_policy: RocketMQ's own object, stored unchanged.
        retry_max_times: the number of retries after which a message becomes a dead letter.
        slow_broker_id: the broker that slow consumers are told to pull from.
    """

    group: str = field(name="groupName")
    attributes: dict[str, str] = field(default_factory=dict)
    broker_id: Long = 0
    consume_broadcast_enable: bool = True
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_message_orderly: bool = False
    consume_timeout_minutes: Int = field(default=15, name="consumeTimeoutMinute")
    retry_policy: dict[str, Any] = field(
        default_factory=lambda: {"type": "CUSTOMIZED"}, name="groupRetryPolicy"
    )
    sys_flag: Int = field(default=0, name="groupSysFlag")
    notify_consumer_ids_changed_enable: bool = True
    retry_max_times: Int = 16
    retry_queue_count: Int = field(default=1, name="retryQueueNums")
    subscription_data_set: list[dict[str, Any]] | None = None
    slow_broker_id: Long = field(default=1, name="whichBrokerWhenConsumeSlowly")


class GroupConfigs(Body):
    """GET_ALL_SUBSCRIPTIONGROUP_CONFIG, and the file ``subscriptionGroup.json``.

    Attributes:
        forbidden: per group and topic, a bit set of the actions that the group must not do.
    """

    data_version: DataVersion = field(default_factory=DataVersion)
    forbidden: dict[str, dict[str, Int]] = field(default_factory=dict, name="forbiddenTable")
    groups: dict[str, GroupConfig] = field(default_factory=dict, name="subscriptionGroupTable")


class GroupConfigList(Body):
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: groups to create."""

    groups: list[GroupConfig] = field(name="groupConfigList")


class GroupForbidden(Body):
    """UPDATE_AND_GET_GROUP_FORBIDDEN: whether a group may read a topic."""

    group: str
    topic: str
    is_readable: bool = field(name="readable")


class QueriedSubscription(Body):
    """QUERY_SUBSCRIPTION_BY_CONSUMER: a group's subscription to a topic, None if it has none."""

    group: str
    topic: str | None = None
    subscription: SubscriptionData | None = field(default=None, name="subscriptionData")


class ProducerMember(Body):
    """A member of a producer group.

    Attributes:
        address: as Java prints it: ``/ip:port``.
        heard_time: of its last heartbeat, ms since the epoch.
    """

    client_id: str
    address: str = field(name="remoteIP")
    language: LanguageCode
    version: Int
    heard_time: Long = field(name="lastUpdateTimestamp")


class ProducerMembers(Body):
    """GET_ALL_PRODUCER_INFO: the members of all producer groups."""

    groups: dict[str, list[ProducerMember]] = field(default_factory=dict, name="data")


class DelayOffsets(Body):
    """GET_ALL_DELAY_OFFSET, and the file ``delayOffset.json``.

    Attributes:
        offsets: by delay level, the queue offset of the next message to deliver.
    """

    data_version: DataVersion | None = None
    offsets: dict[Int, Long] = field(default_factory=dict, name="offsetTable")


class ConsumerOffsets(Body):
    """GET_ALL_CONSUMER_OFFSET, and the file ``consumerOffset.json``.

    Attributes:
        offsets: committed queue offset by ``topic@group`` and queue id.
        ends: the queue offset behind the last message, by topic and queue id; None unless a broker of CometMQ
            was asked for it.
        begins: where groups begin that have committed nothing, as far as it is known, as ``offsets``; None as
            ``ends``.
    """

    data_version: DataVersion | None = None
    offsets: dict[str, dict[Int, Long]] = field(default_factory=dict, name="offsetTable")
    ends: dict[str, dict[Int, Long]] | None = field(default=None, name="endTable")
    begins: dict[str, dict[Int, Long]] | None = field(default=None, name="beginTable")
