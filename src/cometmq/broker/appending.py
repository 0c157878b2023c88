"""Appending of the broker's own messages, of which one that is illegal must not keep the others out."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from cometmq.errors import MessageIllegal

MessageT = TypeVar("MessageT")


def append_legal(
    append: Callable[[Sequence[MessageT]], object],
    messages: Sequence[MessageT],
    on_illegal: Callable[[MessageT, MessageIllegal], None],
) -> None:
    """Append messages together, or one by one if one of them is illegal. Raises StoreNotWritable.

    Args:
        append: appends all or none: see ``MessageStore.append``.
        on_illegal: called with each message that cannot be stored, and why.
    """
    if not messages:
        return
    try:
        append(messages)
    except MessageIllegal as error:
        if len(messages) == 1:
            on_illegal(messages[0], error)
            return
        for message in messages:
            append_legal(append, [message], on_illegal)
