"""Check the arguments of producers and of their send methods."""

from collections.abc import Iterable
from typing import Final

from cometmq.arguments import TEXT, ArgumentKind, check, instance_of, shown
from cometmq.client.producer.sending import Where
from cometmq.errors import IllegalType, SettingsError
from cometmq.format.sys_flag import CompressionType
from cometmq.message import QUEUE, Message

MESSAGE: Final = instance_of(Message)
WHERE: Final = ArgumentKind(
    f"{QUEUE.wanted}, a function that chooses one, or None",
    lambda value: value is None or QUEUE.is_type(value) or callable(value),
)
TEXT_OR_FUNCTION: Final = ArgumentKind(
    "a str or a function", lambda value: isinstance(value, str) or callable(value)
)
_ITERABLE: Final = ArgumentKind("Messages, as a list", lambda value: isinstance(value, Iterable))


def compression_of(name: str) -> CompressionType:
    """Return the compression with a name. Raises SettingsError if there is none."""
    check(TEXT, compression=name)
    if name.upper() not in CompressionType.__members__:
        raise SettingsError(f"compression {name!r}: give zlib, lz4 or zstd")
    return CompressionType[name.upper()]


def check_sent(message: Message, where: Where) -> None:
    """Check a message and its queue. Raises IllegalType."""
    check(MESSAGE, message=message)
    check(WHERE, queue=where)


def listed(messages: Iterable[Message]) -> list[Message]:
    """Return messages as a list. Raises IllegalType if they are not messages."""
    check(_ITERABLE, messages=messages)
    given = list(messages)
    if not set(map(type, given)) <= {Message}:
        for index, one in enumerate(given):
            if not isinstance(one, Message):
                raise IllegalType(
                    f"messages with {shown(one)} ({type(one).__name__}) at {index}: give {_ITERABLE.wanted}"
                )
    return given
