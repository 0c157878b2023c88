"""Checking inside kernels that the bytes at a position in the log are a whole, sound record."""

from typing import Any, Final

from cometmq.format.properties import KEY_SEPARATOR
from cometmq.format.record import (
    BODY_AT,
    BODY_CRC_AT,
    BODY_LENGTH_AT,
    HOST_GROWTH,
    MAGIC_AT,
    MAGIC_V1,
    MAGIC_V2,
    PHYSICAL_OFFSET_AT,
    QUEUE_OFFSET_AT,
    SYS_FLAG_AT,
)
from cometmq.format.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from cometmq.kernels.compiling.jit import Bytes, byte_at, inlined, int64, int_at, long_at, uint32, word_at
from cometmq.kernels.records.crc import crc32_of
from cometmq.kernels.records.properties import known_properties

_V1: Final = MAGIC_V1
_V2: Final = MAGIC_V2
_V6_BORN: Final = int(BORN_HOST_V6)
_V6_STORE: Final = int(STORE_HOST_V6)
_BLANK: Final = ord(KEY_SEPARATOR)


@inlined
def _unsigned(file: Bytes, position: int, width: int) -> Any:
    """Read an unsigned big-endian number of one or two bytes."""
    number = int64(byte_at(file, position))
    return number if width == 1 else number << 8 | byte_at(file, position + 1)


@inlined
def is_message(file: Bytes, position: int, size: int, physical_offset: int, queue_offset: int) -> Any:
    """Check what ``format.record_check.is_message`` checks; all of the ``size`` bytes are in the file."""
    if (
        int_at(file, position) != size
        or long_at(file, position + PHYSICAL_OFFSET_AT) != physical_offset
        or long_at(file, position + QUEUE_OFFSET_AT) != queue_offset
    ):
        return False
    magic = uint32(int_at(file, position + MAGIC_AT))
    if magic == _V1:
        width = 1
    elif magic == _V2:
        width = 2
    else:
        return False
    sys_flag = int_at(file, position + SYS_FLAG_AT)
    growth = (HOST_GROWTH if sys_flag & _V6_BORN else 0) + (HOST_GROWTH if sys_flag & _V6_STORE else 0)
    body, end = position + BODY_AT + growth, position + size
    if body + width + 2 > end:
        return False
    length = int64(int_at(file, position + BODY_LENGTH_AT + growth))
    topic = body + length + width
    if length < 0 or topic + 2 > end:
        return False
    properties = topic + _unsigned(file, topic - width, width) + 2
    if properties > end or properties + _unsigned(file, properties - 2, 2) != end:
        return False
    crc = int_at(file, position + BODY_CRC_AT)
    return length == 0 or int64(crc32_of(file, body, length) & 0x7FFFFFFF) == crc


@inlined
def _same(file: Bytes, begin: int, end: int, texts: Bytes, at: int, size: int) -> bool:
    """Return whether the bytes from ``begin`` to ``end`` equal ``texts[at : at + size]``: eight at a time."""
    if end - begin != size:
        return False
    i = 0
    while i + 8 <= size:
        if word_at(file, begin + i) != word_at(texts, at + i):
            return False
        i += 8
    while i < size:
        if byte_at(file, begin + i) != byte_at(texts, at + i):
            return False
        i += 1
    return True


@inlined
def has_key(
    file: Bytes,
    position: int,
    size: int,
    texts: Bytes,
    at: int,
    topic_size: int,
    key_size: int,
    unique_only: int,
) -> bool:
    """Return whether a sound record (see ``is_message``) belongs to a topic and has a key.

    Args:
        texts: uint8[], with the topic at position ``at``, and the key after it.
        unique_only: whether only the record's unique key counts.
    """
    sys_flag = int_at(file, position + SYS_FLAG_AT)
    growth = (HOST_GROWTH if sys_flag & _V6_BORN else 0) + (HOST_GROWTH if sys_flag & _V6_STORE else 0)
    width = 1 if uint32(int_at(file, position + MAGIC_AT)) == _V1 else 2
    topic = position + BODY_AT + growth + int64(int_at(file, position + BODY_LENGTH_AT + growth)) + width
    topic_end = topic + _unsigned(file, topic - width, width)
    if not _same(file, topic, topic_end, texts, at, topic_size):
        return False
    unique_key, unique_key_end, _, _, keys, keys_end, _, _ = known_properties(
        file, topic_end + 2, position + size
    )
    key_at = at + topic_size
    if unique_key < unique_key_end and _same(file, unique_key, unique_key_end, texts, key_at, key_size):
        return True
    while keys < keys_end and not unique_only:
        key_end = keys
        while key_end < keys_end and byte_at(file, key_end) != _BLANK:
            key_end += 1
        if keys < key_end and _same(file, keys, key_end, texts, key_at, key_size):
            return True
        keys = key_end + 1
    return False
