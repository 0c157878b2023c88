"""REGISTER_BROKER: the topics that a broker registers with a name server.

RocketMQ: ``RegisterBrokerBody.java``, ``TopicConfig.java`` (encode, decode).

The body is JSON, or, when the header says *compressed*, a zlib stream of

* text: DataVersion, JSON;
* int: number of topics, then for each a text ``name read write perm filterType attributes``, separated by
  blanks; the attributes are JSON, 4.x brokers send none;
* text: list of filter servers, JSON;
* from version 5.0.0 on, int: number of static topics, then for each a text, JSON;

where an int has 4 bytes, big-endian, and a text is an int, its length in bytes, and UTF-8.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Final

from msgspec import field

from cometmq.errors import FormatError
from cometmq.format.compression import decompress
from cometmq.format.java import fastjson
from cometmq.format.sys_flag import COMPRESSED
from cometmq.message import Buffer
from cometmq.wire.bodies.body import Body, from_plain, to_plain
from cometmq.wire.bodies.body import decode as decode_json
from cometmq.wire.bodies.body import encode as encode_json
from cometmq.wire.bodies.topic import DataVersion, TopicConfig, TopicTable
from cometmq.wire.codes import Version

DECOMPRESSED_MAX: Final = 16 * 1024 * 1024
"""Largest body after decompression, in bytes: the limit of an uncompressed body."""

_INT: Final = struct.Struct(">i")


class Registration(Body):
    """A broker's topics: all of them, or those that changed."""

    filter_servers: list[str] = field(default_factory=list, name="filterServerList")
    table: TopicTable = field(default_factory=TopicTable, name="topicConfigSerializeWrapper")


def encode(registration: Registration, *, compressed: bool = False) -> bytes:
    """Encode a registration."""
    return zlib.compress(b"".join(_packed(registration))) if compressed else encode_json(registration)


def decode(data: Buffer, *, compressed: bool = False, version: int = Version.V5_0_0) -> Registration:
    """Decode a registration; ``version`` is the command's, because later versions send more.

    Raises:
        FormatError: the body is damaged.
    """
    if not compressed:
        return decode_json(Registration, data)
    reader = _RegistrationReader(decompress(data, COMPRESSED, size_max=DECOMPRESSED_MAX))
    data_version = from_plain(DataVersion, fastjson.loads(reader.text()))
    topics = [_topic(reader.text()) for _ in range(reader.count())]
    registration = from_plain(Registration, {"filterServerList": fastjson.loads(reader.text())})
    registration.table = TopicTable(data_version, {topic.topic: topic for topic in topics})
    if version >= Version.V5_0_0:
        infos = [fastjson.loads(reader.text()) for _ in range(reader.count())]
        registration.table.mapping_infos = {
            str(info.get("topic")): info for info in infos if isinstance(info, dict)
        }
    return registration


def _packed(registration: Registration) -> Iterator[bytes]:
    table = registration.table
    yield _text(fastjson.dumps(to_plain(table.data_version)))
    yield _INT.pack(len(table.topics))
    for topic in table.topics.values():
        yield _text(_topic_text(topic))
    yield _text(fastjson.dumps(registration.filter_servers))
    mapping_infos = table.mapping_infos or {}
    yield _INT.pack(len(mapping_infos))
    for info in mapping_infos.values():
        yield _text(fastjson.dumps(info))


def _topic_text(topic: TopicConfig) -> str:
    return (
        f"{topic.topic} {topic.read_queue_count} {topic.write_queue_count} {topic.perm} {topic.filter_type} "
        f"{fastjson.dumps(topic.attributes)}"
    )


_TOPIC_NAMES: Final = ("topicName", "readQueueNums", "writeQueueNums", "perm", "topicFilterType")


def _topic(text: str) -> TopicConfig:
    *values, attributes = text.split(" ", len(_TOPIC_NAMES))
    if len(values) == len(_TOPIC_NAMES) - 1:  # a 4.x broker's
        values, attributes = [*values, attributes], "{}"
    members = dict(zip(_TOPIC_NAMES, values, strict=False))
    return from_plain(TopicConfig, {**members, "attributes": fastjson.loads(attributes or "{}")})


def _text(text: str) -> bytes:
    data = text.encode()
    return _INT.pack(len(data)) + data


class _RegistrationReader:
    """A decoder of consecutive ints and texts."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def count(self) -> int:
        end = self._position + _INT.size
        if end > len(self._data):
            raise FormatError(f"registration of {len(self._data)} bytes is cut at {self._position}")
        (value,) = _INT.unpack_from(self._data, self._position)
        if value < 0:
            raise FormatError(f"registration has a negative count or length, {value}, at {self._position}")
        self._position = end
        return int(value)

    def text(self) -> str:
        length = self.count()
        data = self._data[self._position : self._position + length]
        if len(data) < length:
            raise FormatError(
                f"registration of {len(self._data)} bytes: text of {length} at {self._position}"
            )
        self._position += length
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise FormatError(f"registration has a text that is not UTF-8: {error}") from None
