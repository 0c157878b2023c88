"""From the JSON of a command's body to a typed value, and back: as RocketMQ's fastjson does it.

Written: members in the order of their names, None left out, number keys without quotes unless standard
JSON is asked for, and a :class:`~cometmq.message.MessageQueue` as an object even where it is a key
(``{{"brokerName":"b","queueId":0,"topic":"t"}:5}``), which is how Java clients read it.

Read: all that :mod:`cometmq.format.fastjson` reads; null counts as absent, numbers may stand in quotes,
unknown members are ignored.
"""

from enum import Enum
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from cometmq.errors import FormatError
from cometmq.format import fastjson
from cometmq.message import Buffer, MessageQueue

USUAL_LENGTH_MAX: Final = 96 * 1024
"""Bytes of a request's body that a server reads in its loop, unless the code has reason to bring more; so
many are read, too, that are not of their type."""
NONSTANDARD_LENGTH_MAX: Final = 24 * 1024
"""Bytes of one that is not standard JSON at all."""
LENIENT_LENGTH_MAX: Final = 4 * 1024 * 1024
"""The longest body that is read when it is not standard JSON of its type, bytes.

Reading leniently makes objects of everything in the body, known or not; a type keeps that in bounds.
"""


class Body(msgspec.Struct, rename="camel"):
    """What all JSON bodies are: attributes in our words, each under RocketMQ's name on the wire."""

    @classmethod
    def loosen(cls, members: dict[Any, Any]) -> None:
        """Change, in place, what some clients write otherwise than the type says. By default nothing."""


BodyType = TypeVar("BodyType", bound=Body)


def encode(body: Body, *, standard: bool = False) -> bytes:
    """Write a body; with ``standard``, number keys get quotes and any JSON parser can read it."""
    return fastjson.dumps(to_plain(body, standard=standard)).encode()


def decode(
    body_type: type[BodyType],
    data: Buffer,
    *,
    lenient_max: int = LENIENT_LENGTH_MAX,
    nonstandard_max: int = LENIENT_LENGTH_MAX,
) -> BodyType:
    """Read a body.

    Args:
        lenient_max: the longest that is read when it is not standard JSON of its type, bytes.
        nonstandard_max: the longest that is read when it is not standard JSON at all.

    Raises:
        FormatError: it is not JSON, or not of this type; says where.
    """
    try:
        return msgspec.json.decode(data, type=body_type, strict=False)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        pass  # the lenient way reads it, or says what is wrong
    if len(data) > lenient_max:
        raise FormatError(
            f"body of {len(data)} bytes is not standard JSON of {body_type.__name__}; "
            f"otherwise at most {lenient_max} bytes are read"
        )
    if len(data) <= nonstandard_max:
        return from_plain(body_type, fastjson.loads(data))
    try:
        plain = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise FormatError(
            f"body of {len(data)} bytes is not standard JSON; otherwise at most "
            f"{nonstandard_max} bytes are read"
        ) from None
    return from_plain(body_type, plain)


def to_plain(value: Any, *, standard: bool = False) -> Any:
    """Give a body as dicts, lists, strings and numbers, under RocketMQ's names, for ``fastjson.dumps``."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, msgspec.Struct):
        members = _members(type(value))
        return {name: to_plain(getattr(value, attribute), standard=standard) for name, attribute in members}
    if isinstance(value, MessageQueue):
        return {"brokerName": value.broker_name, "queueId": value.queue_id, "topic": value.topic}
    if isinstance(value, dict):
        return {
            _plain_key(key, standard=standard): to_plain(member, standard=standard)
            for key, member in value.items()
        }
    if isinstance(value, tuple):
        return tuple(to_plain(item, standard=standard) for item in value)
    if isinstance(value, set | frozenset):
        value = sorted(value)
    return [to_plain(item, standard=standard) for item in value]


def wire_name(body_type: type[Body], attribute: str) -> str:
    """Give the name of an attribute on the wire. Raises ValueError if there is none of this name."""
    return body_type.__struct_encode_fields__[body_type.__struct_fields__.index(attribute)]


def from_plain(body_type: type[BodyType], value: Any) -> BodyType:
    """Make a body of what ``fastjson.loads`` gave.

    Raises:
        FormatError: it is not of this type; says where.
    """
    try:
        members = _tidied(value)
        if isinstance(members, dict):
            body_type.loosen(members)
        return msgspec.convert(members, body_type, strict=False)
    except (msgspec.ValidationError, RecursionError) as error:
        raise FormatError(f"body is not {body_type.__name__}: {error}") from None


_QUEUE_NAMES: Final = frozenset(("brokerName", "queueId", "topic"))


@cache
def _members(body_type: type[msgspec.Struct]) -> list[tuple[str, str]]:
    """Give the wire names and the attributes of a type, in the order in which RocketMQ writes them."""
    return sorted(zip(body_type.__struct_encode_fields__, body_type.__struct_fields__, strict=True))


def _plain_key(key: Any, *, standard: bool) -> Any:
    if isinstance(key, MessageQueue):
        return fastjson.ObjectKey(to_plain(key).items())
    if isinstance(key, Enum):
        return key.value
    return str(key) if standard else key


def _tidied(value: Any) -> Any:
    """Take out nulls and turn the objects that stand for a queue into what a MessageQueue is read from."""
    if isinstance(value, dict):
        if value.keys() == _QUEUE_NAMES:
            return _queue(value)
        return {_tidied_key(key): _tidied(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_tidied(item) for item in value]
    return value


def _tidied_key(key: Any) -> Any:
    if isinstance(key, fastjson.ObjectKey) and (members := dict(key)).keys() == _QUEUE_NAMES:
        return _queue(members)
    return key


def _queue(members: dict[Any, Any]) -> tuple[Any, ...]:
    """Give a queue as a tuple: msgspec checks the types in one, and would take a MessageQueue as it is."""
    return members["topic"], members["brokerName"], members["queueId"]
