"""The idempotence keys of consumed messages: messages with the same key are duplicates."""

from collections.abc import Callable
from typing import Final

from cometmq.format import properties
from cometmq.message import StoredMessage

IdempotentBy = str | Callable[[StoredMessage], str | None]
"""``message_id``, ``keys``, the name of a property, or a function of the message."""

MESSAGE_ID: Final = "message_id"
KEYS: Final = "keys"


def key_by(idempotent_by: IdempotentBy) -> Callable[[StoredMessage], str]:
    """Return the function that makes a message's key; the unique id is used where the chosen key is empty."""
    if idempotent_by == MESSAGE_ID:
        return unique_id
    if idempotent_by == KEYS:
        return lambda message: properties.KEY_SEPARATOR.join(message.keys) or unique_id(message)
    if isinstance(idempotent_by, str):
        return lambda message: message.properties.get(idempotent_by) or unique_id(message)
    return lambda message: idempotent_by(message) or unique_id(message)


def unique_id(message: StoredMessage) -> str:
    """Return the id that a message keeps through retries of its producer and redeliveries."""
    for name in (properties.UNIQ_KEY, properties.ORIGIN_MESSAGE_ID):
        if found := message.properties.get(name):
            return found
    return message.message_id
