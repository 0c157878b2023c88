"""Headers of the requests that operators send to brokers.

RocketMQ: ``CreateTopicRequestHeader.java``, ``GetConsumeStatsRequestHeader.java`` and their neighbours.
"""

from msgspec import field

from cometmq.wire.headers.fields import Header, Int, Long


class CreateTopicHeader(Header):
    """UPDATE_AND_CREATE_TOPIC.

    Attributes:
        default_topic: a topic name that Java clients must send and brokers ignore.
        perm: the sum of 4 (read), 2 (write) and 1 (inherit).
        filter_type: ``SINGLE_TAG``.
        order: whether the topic's queues keep their brokers when one is down.
        attributes: ``+name=value,-name``.
    """

    topic: str
    default_topic: str
    read_queue_count: Int = field(name="readQueueNums")
    write_queue_count: Int = field(name="writeQueueNums")
    perm: Int
    filter_type: str = field(name="topicFilterType")
    sys_flag: Int | None = field(default=None, name="topicSysFlag")
    order: bool = False
    attributes: str | None = None
    force: bool = False


class TopicHeader(Header):
    """A topic name: the header of many requests about one topic."""

    topic: str


class AllOffsetsHeader(Header):
    """GET_ALL_CONSUMER_OFFSET.

    Attributes:
        with_ends: whether the answer shall have the ends of the queues, too. Only CometMQ's brokers know it;
            others pass it over.
    """

    with_ends: bool = False


class GetAllTopicConfigHeader(Header):
    """GET_ALL_TOPIC_CONFIG: all topics, or a page of them.

    Attributes:
        first: number of the first topic of the page, in the order of their names.
        data_version: the version that the earlier pages were read from, as JSON.
        max_count: most topics in the page.
    """

    first: Int | None = field(default=None, name="topicSeq")
    data_version: str | None = None
    max_count: Int | None = field(default=None, name="maxTopicNum")


class GetAllTopicConfigResponseHeader(Header):
    """The total number of topics."""

    total: Int | None = field(default=None, name="totalTopicNum")


class GetBrokerConfigResponseHeader(Header):
    """The version of the settings, as JSON of DataVersion; the settings are the body."""

    version: str


class GetAllGroupConfigHeader(Header):
    """GET_ALL_SUBSCRIPTIONGROUP_CONFIG: all groups, or a page of them."""

    first: Int | None = field(default=None, name="groupSeq")
    data_version: str | None = None
    max_count: Int | None = field(default=None, name="maxGroupNum")


class GetAllGroupConfigResponseHeader(Header):
    """The total number of groups."""

    total: Int | None = field(default=None, name="totalGroupNum")


class DeleteGroupHeader(Header):
    """DELETE_SUBSCRIPTIONGROUP: delete a consumer group."""

    group: str = field(name="groupName")
    clean_offset: bool = False


class GetConsumeStatsHeader(Header):
    """GET_CONSUME_STATS: the lag of a group in all its topics, in one, or in some joined by ``;``."""

    consumer_group: str
    topic: str | None = None
    topics: str | None = field(default=None, name="topicList")


class GroupHeader(Header):
    """A consumer group as ``group``: GET_SUBSCRIPTIONGROUP_CONFIG, QUERY_TOPICS_BY_CONSUMER."""

    group: str


class BrokerConsumeStatsHeader(Header):
    """GET_BROKER_CONSUME_STATS: of all topics, or only of those whose messages are in order."""

    is_order: bool


class ConsumerStatusHeader(Header):
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS, and GET_CONSUMER_STATUS_FROM_CLIENT to each client.

    Attributes:
        client_id: the id of the only member whose offsets to return; None for all members.
    """

    topic: str
    group: str
    client_id: str | None = field(default=None, name="clientAddr")


class CorrectionOffsetHeader(Header):
    """QUERY_CORRECTION_OFFSET: compare the offsets of a group with those of all others.

    Attributes:
        left_out: names of groups, joined by commas, that are not compared.
    """

    topic: str
    compare_group: str
    left_out: str | None = field(default=None, name="filterGroups")


class GroupForbiddenHeader(Header):
    """UPDATE_AND_GET_GROUP_FORBIDDEN.

    Attributes:
        is_readable: whether the group may read the topic from now on; None changes nothing.
    """

    group: str
    topic: str
    is_readable: bool | None = field(default=None, name="readable")


class GroupTopicHeader(Header):
    """A consumer group and a topic: QUERY_CONSUME_TIME_SPAN."""

    topic: str
    group: str


class GroupSubscriptionHeader(Header):
    """QUERY_SUBSCRIPTION_BY_CONSUMER: the subscription of a group to a topic."""

    group: str
    topic: str | None = None


class QueueWritesHeader(Header):
    """CHECK_ROCKSDB_CQ_WRITE_PROGRESS: compare queues in files with those in RocksDB.

    Attributes:
        topic: the only topic to compare; empty for all.
        check_store_time: ms since the epoch; older messages are not compared.
    """

    topic: str
    check_store_time: Long | None = None


class ResumeCheckHeader(Header):
    """RESUME_CHECK_HALF_MESSAGE: ask producers again for a half message that was given up.

    Attributes:
        message_id: the offset message id of the record in the topic of those that were given up.
    """

    topic: str | None = None
    message_id: str | None = field(default=None, name="msgId")


class StatisticHeader(Header):
    """VIEW_BROKER_STATS_DATA: one statistic.

    Attributes:
        name: such as ``TOPIC_PUT_NUMS``.
        key: what is counted: a topic, ``topic@group``, ``topic@queueId``, a cluster.
    """

    name: str = field(name="statsName")
    key: str = field(name="statsKey")
