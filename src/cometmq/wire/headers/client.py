"""Headers of the requests about the members of groups.

RocketMQ: ``UnregisterClientRequestHeader.java``, ``GetConsumerListByGroupRequestHeader.java`` and neighbours.
"""

from msgspec import field

from cometmq.wire.headers.fields import Header, Int


class HeartbeatResponseHeader(Header):
    """Whether the broker accepts heartbeats that leave the subscriptions out."""

    supports_heartbeat_v2: bool | None = field(default=None, name="IS_SUPPORT_HEART_BEAT_V2")
    subscription_changed: bool | None = field(default=None, name="IS_SUB_CHANGE")


class UnregisterClientHeader(Header):
    """UNREGISTER_CLIENT: a producer or consumer leaves its group."""

    client_id: str = field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class ConsumerGroupHeader(Header):
    """GET_CONSUMER_LIST_BY_GROUP, NOTIFY_CONSUMER_IDS_CHANGED and GET_CONSUMER_CONNECTION_LIST."""

    consumer_group: str


class ProducerGroupHeader(Header):
    """GET_PRODUCER_CONNECTION_LIST: the members of a producer group."""

    producer_group: str


class RunningInfoHeader(Header):
    """GET_CONSUMER_RUNNING_INFO: the state of one member of a consumer group."""

    consumer_group: str
    client_id: str
    with_stacks: bool = field(default=False, name="jstackEnable")


class ConsumeDirectlyHeader(Header):
    """CONSUME_MESSAGE_DIRECTLY: one member shall handle one message now; for the member it is the body.

    Attributes:
        message_id: the offset id of the message.
    """

    consumer_group: str
    client_id: str | None = None
    message_id: str | None = field(default=None, name="msgId")
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int | None = None
    group_sys_flag: Int | None = None
