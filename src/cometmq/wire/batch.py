"""The body of SEND_BATCH_MESSAGE: messages of one topic and queue, back to back.

RocketMQ: ``MessageDecoder.java`` (encodeMessage, decodeMessage). All integers are big-endian.

======  ====  ================================================
Offset  Size  Field
======  ====  ================================================
0       4     TOTAL_SIZE: of this message, this field included
4       4     MAGIC: 0
8       4     BODY_CRC: 0
12      4     FLAG: the application's own
16      4     BODY_LENGTH
20      n     BODY
20 + n  2     PROPERTIES_LENGTH
22 + n  m     PROPERTIES: see :mod:`cometmq.format.properties`
======  ====  ================================================
"""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from cometmq.errors import FormatError, MessageIllegal
from cometmq.format import properties as properties_format

COUNT_MAX: Final = 65_536
"""The most messages that are read from one batch: each costs more memory than the bytes it takes here."""

_HEAD: Final = struct.Struct(">5i")
_PROPERTIES_LENGTH: Final = struct.Struct(">h")
HEAD_SIZE: Final = 20
SIZE_MIN: Final = 22
assert _HEAD.size == HEAD_SIZE and HEAD_SIZE + _PROPERTIES_LENGTH.size == SIZE_MIN


class BatchMessage(NamedTuple):
    """One message of a batch; properties as their string."""

    body: bytes
    properties: bytes
    flag: int = 0


def encode(messages: Iterable[BatchMessage]) -> bytes:
    """Write messages as one body.

    Raises:
        MessageIllegal: a message's properties are too long.
    """
    return b"".join([encode_one(*message) for message in messages])


def encode_one(body: bytes, properties: bytes, flag: int = 0) -> bytes:
    """Write one message: a batch's body is any number of them, one behind the other.

    Raises:
        MessageIllegal: its properties are too long.
    """
    length = len(properties)
    if length > properties_format.MAX_LENGTH:
        raise MessageIllegal(
            f"properties of {length} bytes, at most {properties_format.MAX_LENGTH} are allowed"
        )
    head = _HEAD.pack(SIZE_MIN + len(body) + length, 0, 0, flag, len(body))
    return b"".join((head, body, _PROPERTIES_LENGTH.pack(length), properties))


def decode(data: bytes) -> list[BatchMessage]:
    """Read the messages of a batch.

    Raises:
        FormatError: a length does not fit, or there are too many messages.
    """
    messages: list[BatchMessage] = []
    position, end = 0, len(data)
    while position < end:
        if len(messages) == COUNT_MAX:
            raise FormatError(f"batch of more than {COUNT_MAX} messages")
        message_end, message = _decode_one(data, position, end)
        messages.append(message)
        position = message_end
    return messages


def _decode_one(data: bytes, position: int, end: int) -> tuple[int, BatchMessage]:
    if end - position < SIZE_MIN:
        raise FormatError(f"batch message at {position}: {end - position} bytes left of at least {SIZE_MIN}")
    total_size, _magic, _crc, flag, body_length = _HEAD.unpack_from(data, position)
    if not 0 <= body_length <= end - position - SIZE_MIN:
        raise FormatError(f"batch message at {position}: body of {body_length}, {end - position} bytes left")
    body_end = position + HEAD_SIZE + body_length
    (properties_length,) = _PROPERTIES_LENGTH.unpack_from(data, body_end)
    properties_at = body_end + _PROPERTIES_LENGTH.size
    message_end = properties_at + properties_length
    if properties_length < 0 or message_end > end or message_end - position != total_size:
        raise FormatError(
            f"batch message at {position}: size {total_size}, body {body_length}, "
            f"properties {properties_length}, {end - position} bytes left"
        )
    body = data[position + HEAD_SIZE : body_end]
    return message_end, BatchMessage(body, data[properties_at:message_end], flag)
