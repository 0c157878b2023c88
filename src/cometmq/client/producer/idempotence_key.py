"""By what a producer's messages are told to be the same: the consumer's side is ``idempotence.key``."""

from collections.abc import Callable

from cometmq.errors import SettingsError
from cometmq.format.properties import KEY_SEPARATOR
from cometmq.message import Message

IdempotentBy = str | Callable[[Message], str | None]
"""``message_id``, ``keys``, or a function of the message."""


def key_by(idempotent_by: IdempotentBy) -> Callable[[Message], str | None]:
    """Give the function that makes a message's key, None for one that is the same as no other.

    Raises SettingsError for a word that means nothing.
    """
    if idempotent_by == "message_id":
        return lambda _: None
    if idempotent_by == "keys":
        return lambda message: KEY_SEPARATOR.join(message.keys) or None
    if isinstance(idempotent_by, str):
        raise SettingsError(f"idempotent_by {idempotent_by!r}: give message_id, keys, or a function")
    return idempotent_by
