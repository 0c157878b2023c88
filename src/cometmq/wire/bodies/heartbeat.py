"""HEART_BEAT: the groups of a client, and its subscriptions.

RocketMQ: ``HeartbeatData.java``, ``ConsumerData.java``, ``ProducerData.java``, ``SubscriptionData.java``,
``CheckClientRequestBody.java``.
"""

from enum import StrEnum
from typing import Any, Final

from msgspec import field

from cometmq.format.java.java_hash import java_hash
from cometmq.wire.bodies.body import Body
from cometmq.wire.headers.fields import Int, Long


class ConsumeType(StrEnum):
    """Who initiates consumption; the position in this list is the number that C++ clients send."""

    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
    CONSUME_POP = "CONSUME_POP"


class MessageModel(StrEnum):
    """Whether each member of a group receives all messages or a share; C++ clients send the position."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeFromWhere(StrEnum):
    """Where a group without a committed offset begins; C++ clients send the position."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class SubscriptionData(Body):
    """The subscription of a group to a topic.

    Attributes:
        expression: ``*``, tags joined by ``||``, or SQL.
        expression_type: ``TAG`` or ``SQL92``.
        version: when the subscription was created or its queues last changed, ms since the epoch.
        tags: the tags of a TAG expression; empty for all tags.
        codes: the hashes of ``tags``, which the broker compares with the tags codes of queue entries.
    """

    topic: str
    expression: str = field(default="*", name="subString")
    expression_type: str = "TAG"
    version: Long = field(default=0, name="subVersion")
    tags: set[str] = field(default_factory=set, name="tagsSet")
    codes: set[Int] = field(default_factory=set, name="codeSet")
    class_filter_mode: bool = False


class ConsumerData(Body):
    """A consumer group of which a client is a member."""

    group: str = field(name="groupName")
    subscriptions: list[SubscriptionData] = field(default_factory=list, name="subscriptionDataSet")
    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    unit_mode: bool = False


class ProducerData(Body):
    """A producer group of which a client is a member."""

    group: str = field(name="groupName")


class Heartbeat(Body):
    """A client's heartbeat.

    Attributes:
        fingerprint: a hash of the subscriptions, if the client may leave them out; else 0.
        without_subscriptions: whether the subscriptions are left out because they have not changed.
    """

    client_id: str = field(name="clientID")
    producers: list[ProducerData] = field(default_factory=list, name="producerDataSet")
    consumers: list[ConsumerData] = field(default_factory=list, name="consumerDataSet")
    fingerprint: Int = field(default=0, name="heartbeatFingerprint")
    without_subscriptions: bool = field(default=False, name="withoutSub")

    @classmethod
    def loosen(cls, members: dict[Any, Any]) -> None:
        """Replace the numbers that C++ clients send by names."""
        consumers = members.get("consumerDataSet")
        for consumer in consumers if isinstance(consumers, list) else ():
            if isinstance(consumer, dict):
                _name_numbers(consumer)


class ClientConfigCheck(Body):
    """CHECK_CLIENT_CONFIG: whether the broker accepts a subscription; sent for other types than tags."""

    client_id: str
    group: str
    subscription: SubscriptionData = field(name="subscriptionData")


def tag_subscription(topic: str, expression: str | None, version: int) -> SubscriptionData:
    """Build the subscription of a TAG expression; ``*``, empty and None mean all tags."""
    if not expression or expression == "*":
        return SubscriptionData(topic, version=version)
    tags = {tag.strip() for tag in expression.split("||")} - {""}
    codes = {java_hash(tag) for tag in tags}
    return SubscriptionData(topic, expression, version=version, tags=tags, codes=codes)


_ENUMS: Final[dict[str, type[StrEnum]]] = {
    "consumeFromWhere": ConsumeFromWhere,
    "consumeType": ConsumeType,
    "messageModel": MessageModel,
}


def _name_numbers(consumer: dict[Any, Any]) -> None:
    for name, enum in _ENUMS.items():
        values = list(enum)
        number = consumer.get(name)
        if isinstance(number, int) and 0 <= number < len(values):
            consumer[name] = values[number].value
