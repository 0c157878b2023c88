"""The body of SEND_BATCH_MESSAGE: messages of one topic and queue, concatenated.

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
"""Most messages decoded from one batch: in memory each takes more bytes than in the batch."""

_HEAD: Final = struct.Struct(">5i")
_PROPERTIES_LENGTH: Final = struct.Struct(">h")
FLAG_AT: Final = 12
BODY_LENGTH_AT: Final = 16
HEAD_SIZE: Final = 20
SIZE_MIN: Final = 22
assert _HEAD.size == HEAD_SIZE and HEAD_SIZE + _PROPERTIES_LENGTH.size == SIZE_MIN


class BatchMessage(NamedTuple):
    """One message of a batch, with its encoded properties string."""

    body: bytes
    properties: bytes
    flag: int = 0


def encode(messages: Iterable[BatchMessage]) -> bytes:
    """Encode messages as one body. Raises like ``encode_each``."""
    return b"".join(encode_each(messages))


def encode_each(messages: Iterable[tuple[bytes, bytes, int]]) -> list[bytes]:
    """Encode messages, given as (body, properties, flag), one by one: joined they are a batch's body.

    Raises:
        MessageIllegal: a message's properties are too long.
    """
    encoded: list[bytes] = []
    head = length = b""
    known: tuple[int, int, int] | None = None
    for body, properties, flag in messages:
        sizes = (len(body), len(properties), flag)
        if sizes != known:  # most messages have the sizes of the one before
            head, length = _head(*sizes)
            known = sizes
        encoded.append(b"".join((head, body, length, properties)))
    return encoded


def encode_one(body: bytes, properties: bytes, flag: int = 0) -> bytes:
    """Encode one message. Raises like ``encode_each``."""
    head, length = _head(len(body), len(properties), flag)
    return b"".join((head, body, length, properties))


def _head(body_length: int, properties_length: int, flag: int) -> tuple[bytes, bytes]:
    """Encode the bytes before the body, and those before the properties."""
    if properties_length > properties_format.MAX_LENGTH:
        raise MessageIllegal(
            f"properties of {properties_length} bytes, at most {properties_format.MAX_LENGTH} are allowed"
        )
    return (
        _HEAD.pack(SIZE_MIN + body_length + properties_length, 0, 0, flag, body_length),
        _PROPERTIES_LENGTH.pack(properties_length),
    )


def decode(data: bytes) -> list[BatchMessage]:
    """Decode the messages of a batch.

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
