"""Headers of the requests by which clients and brokers know of each other.

RocketMQ: ``UnregisterClientRequestHeader.java``, ``GetConsumerListByGroupRequestHeader.java`` and neighbours.
"""

from msgspec import field

from cometmq.wire.headers.fields import Header, Int


class HeartbeatResponseHeader(Header):
    """What the broker can do with heartbeats that leave the subscriptions out."""

    supports_heartbeat_v2: bool | None = field(default=None, name="IS_SUPPORT_HEART_BEAT_V2")
    subscription_changed: bool | None = field(default=None, name="IS_SUB_CHANGE")


class UnregisterClientHeader(Header):
    """UNREGISTER_CLIENT: a producer or consumer goes away."""

    client_id: str = field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class ConsumerGroupHeader(Header):
    """GET_CONSUMER_LIST_BY_GROUP, NOTIFY_CONSUMER_IDS_CHANGED and GET_CONSUMER_CONNECTION_LIST."""

    consumer_group: str


class ProducerGroupHeader(Header):
    """GET_PRODUCER_CONNECTION_LIST."""

    producer_group: str


class RunningInfoHeader(Header):
    """GET_CONSUMER_RUNNING_INFO: how one member of a consumer group is doing."""

    consumer_group: str
    client_id: str
    with_stacks: bool = field(default=False, name="jstackEnable")


class ConsumeDirectlyHeader(Header):
    """CONSUME_MESSAGE_DIRECTLY: one member shall handle one message now; it is the body for the member.

    Attributes:
        message_id: the offset id.
    """

    consumer_group: str
    client_id: str | None = None
    message_id: str | None = field(default=None, name="msgId")
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int | None = None
    group_sys_flag: Int | None = None
