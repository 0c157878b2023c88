"""Convert between the JSON of a command's body and a typed value, as RocketMQ's fastjson does.

Encoding: members in the order of their names, None left out, number keys without quotes unless standard
JSON is requested, and a :class:`~cometmq.message.MessageQueue` as an object even as a key
(``{{"brokerName":"b","queueId":0,"topic":"t"}:5}``), as Java clients expect it.

Decoding: accepts all that :mod:`cometmq.format.java.fastjson` accepts; null counts as absent, numbers may be
quoted, unknown members are ignored.
"""

from collections.abc import Callable
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from cometmq.errors import FormatError
from cometmq.format.java import fastjson
from cometmq.format.layout import QUEUE_COUNT_MAX, ROUTE_QUEUES_MAX
from cometmq.message import Buffer, MessageQueue

LENIENT_LENGTH_MAX: Final = 4 * 1024 * 1024
"""Largest body, in bytes, that is decoded if it is not standard JSON of its type.

Lenient decoding creates objects for everything in the body, known or not; strict decoding only for known
members.
"""


class BodyLimits(NamedTuple):
    """The limits of request bodies that a server decodes; by default its loop needs less than 50 ms for each.

    Attributes:
        usual_bytes: largest body, unless its code allows more; also the largest that does not match its type.
        list_bytes: largest heartbeat or list of topics.
        list_items: most groups, or subscriptions of a group, in a heartbeat; most topics in a list.
        nonstandard_bytes: largest body that is not standard JSON.
        registration_topics: most topics in a registration at a name server that is not compressed; each JSON
            object counts as one.
        topic_queues: most queues of a topic on one broker, to read and to write each.
        route_queues: most queues of a topic on all brokers that a name server knows.
        route_topics: most topics that a name server knows; each counts once for each broker that has it.
    """

    usual_bytes: int = 96 * 1024
    list_bytes: int = 512 * 1024
    list_items: int = 4_000
    nonstandard_bytes: int = 24 * 1024
    registration_topics: int = 40_000
    topic_queues: int = QUEUE_COUNT_MAX
    route_queues: int = ROUTE_QUEUES_MAX
    route_topics: int = 1_000_000


LIMITS: Final = BodyLimits()
"""The default limits."""


class Body(msgspec.Struct, rename="camel"):
    """The base of all JSON bodies: attributes by our names, encoded under RocketMQ's names."""

    @classmethod
    def loosen(cls, members: dict[Any, Any]) -> None:
        """Change members in place that some clients encode differently. By default nothing."""


BodyType = TypeVar("BodyType", bound=Body)


def encode(body: Body, *, standard: bool = False) -> bytes:
    """Encode a body; with ``standard``, number keys are quoted, so that any JSON parser can decode it."""
    return _text(body, standard=standard).encode()


def decode(
    body_type: type[BodyType],
    data: Buffer,
    *,
    lenient_max: int = LENIENT_LENGTH_MAX,
    nonstandard_max: int = LENIENT_LENGTH_MAX,
) -> BodyType:
    """Decode a body.

    Args:
        lenient_max: largest body, in bytes, that may differ from standard JSON of its type.
        nonstandard_max: largest body, in bytes, that may differ from standard JSON at all.

    Raises:
        FormatError: it is not JSON, or not of this type; the text says where.
    """
    try:
        return msgspec.json.decode(data, type=body_type, strict=False)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        pass  # the lenient decoder below accepts it, or raises an error that says what is wrong
    if len(data) > lenient_max:
        raise FormatError(
            f"body of {len(data)} bytes is not standard JSON of {body_type.__name__}; "
            f"otherwise at most {lenient_max} bytes are read"
        )
    if len(data) <= nonstandard_max:
        try:
            return msgspec.json.decode(fastjson.with_quoted_keys(data), type=body_type, strict=False)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
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
    """Convert a body to dicts, lists, strings and numbers under RocketMQ's names, for ``fastjson.dumps``."""
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


def _text(value: Any, *, standard: bool) -> str:
    """Encode a value in one go, as ``fastjson.dumps`` encodes what ``to_plain`` returns."""
    write = _SCALARS.get(type(value))
    if write is not None:
        return write(value)
    if isinstance(value, msgspec.Struct):
        begins, members_of = _member_texts(type(value))
        members = members_of(value)
        texts = [
            f"{begin}{_text(member, standard=standard)}"
            for begin, member in zip(begins, members, strict=True)
            if member is not None
        ]
        return f"{{{','.join(texts)}}}"
    if isinstance(value, dict):
        texts = [
            f"{_key_text(key, standard=standard)}:{_text(member, standard=standard)}"
            for key, member in value.items()
            if member is not None
        ]
        return f"{{{','.join(texts)}}}"
    if type(value) is list:
        return f"[{','.join([_text(item, standard=standard) for item in value])}]"
    return fastjson.dumps(to_plain(value, standard=standard))


def _key_text(key: Any, *, standard: bool) -> str:
    if type(key) is str:
        return fastjson.quoted(key)
    if type(key) is MessageQueue:
        return _queue_text(key)
    return fastjson.key_text(_plain_key(key, standard=standard))


def _queue_text(queue: MessageQueue) -> str:
    topic, broker_name, queue_id = queue
    quoted = fastjson.quoted
    return f'{{"brokerName":{quoted(broker_name)},"queueId":{queue_id},"topic":{quoted(topic)}}}'


_SCALARS: Final[dict[type, Callable[[Any], str]]] = {
    int: int.__repr__,
    str: fastjson.quoted,
    bool: {False: "false", True: "true"}.__getitem__,
    float: fastjson.dumps,
    type(None): fastjson.dumps,
    MessageQueue: _queue_text,
}
"""How values are encoded that have no members."""


@cache
def _member_texts(body_type: type[msgspec.Struct]) -> tuple[list[str], Callable[[Any], tuple[Any, ...]]]:
    """Return what is before the value of each member of a type, and what returns these values."""
    members = _members(body_type)
    begins = [f"{fastjson.quoted(name)}:" for name, _ in members]
    attributes = [attribute for _, attribute in members]
    if len(attributes) < 2:
        return begins, lambda body: tuple(getattr(body, attribute) for attribute in attributes)
    return begins, attrgetter(*attributes)


def wire_name(body_type: type[Body], attribute: str) -> str:
    """Return the name of an attribute on the wire. Raises ValueError if the type has no such attribute."""
    return body_type.__struct_encode_fields__[body_type.__struct_fields__.index(attribute)]


def from_plain(body_type: type[BodyType], value: Any) -> BodyType:
    """Convert what ``fastjson.loads`` returned to a body.

    Raises:
        FormatError: it is not of this type; the text says where.
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
    """Return (wire name, attribute) of each member of a type, in the order in which RocketMQ encodes them."""
    return sorted(zip(body_type.__struct_encode_fields__, body_type.__struct_fields__, strict=True))


def _plain_key(key: Any, *, standard: bool) -> Any:
    if isinstance(key, MessageQueue):
        return fastjson.ObjectKey(to_plain(key).items())
    if isinstance(key, Enum):
        return key.value
    return str(key) if standard else key


def _tidied(value: Any) -> Any:
    """Remove nulls, and convert objects that represent a queue to tuples, from which msgspec reads one."""
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
    """Return a queue as a tuple: msgspec checks the types in a tuple, but not in a MessageQueue."""
    return members["topic"], members["brokerName"], members["queueId"]
