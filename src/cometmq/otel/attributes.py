"""The attributes of spans.

Source: OpenTelemetry's semantic conventions, "Messaging spans" and "RocketMQ"; their names are still in
development there, so they are written out here instead of imported.
"""

from collections.abc import Sequence
from typing import Final

from opentelemetry.util.types import AttributeValue

from cometmq.message import Message, StoredMessage

MESSAGE_ID: Final = "messaging.message.id"
ERROR_TYPE: Final = "error.type"


def attributes_of(
    operation: str, messages: Sequence[Message] | Sequence[StoredMessage]
) -> dict[str, AttributeValue]:
    """Return the attributes of an operation on messages: ``send`` or ``process``."""
    found: dict[str, AttributeValue] = {
        "messaging.system": "rocketmq",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
    }
    if (topic := common_topic(messages)) is not None:
        found["messaging.destination.name"] = topic
    if len(messages) == 1:
        found |= _of_message(messages[0])
    else:
        found["messaging.batch.message_count"] = len(messages)
    return found


def common_topic(messages: Sequence[Message] | Sequence[StoredMessage]) -> str | None:
    """Return the topic of messages; None if they have several."""
    topics = {message.topic for message in messages}
    return topics.pop() if len(topics) == 1 else None


def _of_message(message: Message | StoredMessage) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {"messaging.message.body.size": len(message.body)}
    if message.tags:
        found["messaging.rocketmq.message.tag"] = message.tags
    if message.keys:
        found["messaging.rocketmq.message.keys"] = message.keys
    if isinstance(message, StoredMessage):
        found[MESSAGE_ID] = message.message_id
        return found
    if message.sharding_key is not None:
        found["messaging.rocketmq.message.group"] = message.sharding_key
    if message.delay_level:
        found["messaging.rocketmq.message.delay_time_level"] = message.delay_level
    if message.deliver_time:
        found["messaging.rocketmq.message.delivery_timestamp"] = message.deliver_time
    return found
