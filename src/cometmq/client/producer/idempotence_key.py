"""The idempotence keys of a producer's messages; those of consumers are in ``idempotence.key``."""

from collections.abc import Callable

from cometmq.errors import SettingsError
from cometmq.format.properties import KEY_SEPARATOR
from cometmq.message import Message

IdempotentBy = str | Callable[[Message], str | None]
"""``message_id``, ``keys``, or a function of the message."""


def key_by(idempotent_by: IdempotentBy) -> Callable[[Message], str | None]:
    """Return the function that makes a message's key; it returns None for a message without duplicates.

    Raises SettingsError for any other word.
    """
    if idempotent_by == "message_id":
        return lambda _: None
    if idempotent_by == "keys":
        return lambda message: KEY_SEPARATOR.join(message.keys) or None
    if isinstance(idempotent_by, str):
        raise SettingsError(f"idempotent_by {idempotent_by!r}: give message_id, keys, or a function")
    return idempotent_by
