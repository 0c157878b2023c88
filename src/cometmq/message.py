"""The values that users of every layer hold: messages and queues. Nothing here does I/O.

Messages never change: ``msgspec.structs.replace`` gives changed copies. The types of a message's parts are
checked when it is made, their values when it is sent.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import astuple

from cometmq.arguments import DATA, TEXT, TEXTS, ArgumentKind, mismatch, number, or_none
from cometmq.errors import IllegalField

Buffer = bytes | bytearray | memoryview
"""Anything that holds bytes, until Python 3.12's ``collections.abc.Buffer`` can be relied on."""


class MessageQueue(NamedTuple):
    """One queue of a topic on one broker."""

    topic: str
    broker_name: str
    queue_id: int


def _is_queue(value: object) -> bool:
    if not isinstance(value, MessageQueue):
        return False
    return TEXT.is_type(value.topic) and TEXT.is_type(value.broker_name) and number().is_type(value.queue_id)


QUEUE: Final = ArgumentKind("a MessageQueue(topic, broker_name, queue_id) of two strs and an int", _is_queue)
"""The kind of an argument that names one queue of a topic."""


class Message(msgspec.Struct, frozen=True, gc=False):
    """A message as an application sends it.

    Attributes:
        topic: topic name, 1–127 characters of ``%|a-zA-Z0-9_-``.
        body: the payload, at most 4 MiB.
        tags: one tag, by which consumers can filter.
        keys: business keys by which the message can be found later.
        properties: further string properties; names that RocketMQ reserves are refused.
        flag: any number of the application's own; it is stored unchanged.
        delay_level: the broker delivers the message after the delay of this level (1: 1 s, …, 18: 2 h unless
            its ``messageDelayLevel`` says otherwise); 0 delivers it at once.
        sharding_key: messages with the same key go to the same queue, and so keep their order.
        delay_ms: the broker delivers the message this much later, rounded to a second.
        deliver_time: the broker delivers the message at this time, ms since the epoch. Only one of
            ``delay_level``, ``delay_ms`` and ``deliver_time`` may be set; 0 means not set.
    """

    topic: str
    body: bytes
    tags: str | None = None
    keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = {}
    flag: int = 0
    delay_level: int = 0
    sharding_key: str | None = None
    delay_ms: int = 0
    deliver_time: int = 0

    def __post_init__(self) -> None:
        """Check the types of all fields. Raises IllegalField."""
        is_plain = (  # as ``has_body_only``, whose call would cost as much as all the rest
            type(self.topic) is str
            and type(self.body) is bytes
            and self.tags is self.sharding_key is None
            and not (
                self.keys
                or self.properties
                or self.flag
                or self.delay_level
                or self.delay_ms
                or self.deliver_time
            )
        )
        if not is_plain and not _is_usual(self):
            _check_types(self)

    @property
    def has_body_only(self) -> bool:
        """Whether only topic and body are set, as in most messages."""
        return self.sharding_key is None and not (
            self.tags
            or self.keys
            or self.properties
            or self.flag
            or self.delay_level
            or self.delay_ms
            or self.deliver_time
        )

    @property
    def is_delayed(self) -> bool:
        """Whether the broker delivers the message later than at once."""
        return bool(self.delay_level or self.delay_ms or self.deliver_time)


_KINDS: Final[Mapping[str, ArgumentKind]] = {
    "topic": TEXT,
    "body": DATA,
    "tags": or_none(TEXT),
    "keys": TEXTS._replace(wanted="strs as a tuple, such as ('42',)"),
    "properties": ArgumentKind("a dict of strs", lambda value: isinstance(value, Mapping)),
    "flag": number(),
    "delay_level": number(),
    "sharding_key": or_none(TEXT),
    "delay_ms": number(),
    "deliver_time": number(),
}


_NONE: Final = type(None)
_USUAL_TYPES: Final = frozenset(
    (str, bytes, tags, tuple, dict, int, int, sharding_key, int, int)
    for tags in (str, _NONE)
    for sharding_key in (str, _NONE)
)
_TEXT_ONLY: Final = frozenset((str,))


def _is_usual(message: Message) -> bool:
    """Check all types in one comparison: checking field by field would take ten times as long."""
    return (
        tuple(map(type, astuple(message))) in _USUAL_TYPES
        and (not message.keys or _TEXT_ONLY.issuperset(map(type, message.keys)))
        and (
            not message.properties
            or _TEXT_ONLY.issuperset(map(type, chain.from_iterable(message.properties.items())))
        )
    )


def _check_types(message: Message) -> None:
    """Check the type of each field of a message. Raises IllegalField."""
    if isinstance(message.keys, str):
        raise IllegalField(f"keys {message.keys!r}: give them as a tuple, ({message.keys!r},)")
    for name, kind in _KINDS.items():
        if not kind.is_type(value := getattr(message, name)):
            raise IllegalField(mismatch(name, value, kind.wanted))
    for name, value in message.properties.items():
        if not TEXT.is_type(name) or not TEXT.is_type(value):
            raise IllegalField(mismatch(f"property {name!r}", value, "a str for name and value"))


class StoredMessage(msgspec.Struct, frozen=True, gc=False):
    """A message as the log stores it and a consumer receives it.

    Attributes:
        message_id: the producer's unique id, or the offset id if the message has none.
        offset_id: RocketMQ's offset message id: store host and physical offset in hex.
        queue_offset: index of the message in its queue.
        physical_offset: first byte of its record in the CommitLog.
        born_time: when the producer created it, ms since the epoch.
        store_time: when the broker appended it, ms since the epoch.
        born_host: ``ip:port`` of the producer.
        store_host: ``ip:port`` of the broker.
        body: the payload, decompressed. Only look-ups return a body that cannot be decompressed: as it is
            stored, with the bit ``sys_flag & 1`` set.
    """

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    message_id: str
    offset_id: str
    tags: str | None
    keys: tuple[str, ...]
    properties: Mapping[str, str]
    body: bytes
    flag: int
    sys_flag: int
    born_time: int
    born_host: str
    store_time: int
    store_host: str
    reconsume_times: int
    body_crc: int
