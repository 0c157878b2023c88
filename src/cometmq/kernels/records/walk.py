"""Walking and checking a record inside kernels: the compiled body of ``format.scan``'s rules.

The order of the checks is that of ``format.scan``, whose numbers the comments give; a scan, the reading of
index keys, and the checks of pulls and queries all use ``walk``.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from cometmq.format import property_crc, record
from cometmq.format.checksum import Crc
from cometmq.format.index import TAGS_KEY_PREFIX
from cometmq.format.properties import KEY_SEPARATOR, VALUE_END
from cometmq.format.properties import MAX_LENGTH as PROPERTIES_MAX_LENGTH
from cometmq.format.record import PROPERTIES_LENGTH_SIZE, TOPIC_LENGTH_SIZE_V1, TOPIC_LENGTH_SIZE_V2
from cometmq.format.scan import StopReason
from cometmq.format.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from cometmq.kernels.arrays import Bytes
from cometmq.kernels.compiling.buffers import byte_at, int_at, long_at, short_at, word_at
from cometmq.kernels.compiling.jit import inlined, int8, int64, uint32
from cometmq.kernels.records.crc import crc32_of
from cometmq.kernels.text.properties import known_properties

GOOD: Final = -1
"""Stands for a good record, where others have a ``StopReason``."""
ANYWHERE: Final = -(2**63)
"""Stands for the CommitLog offset of a record that may be anywhere."""
# Numba accepts integers as constants, but not members of an IntEnum.
NO_CRC: Final = int(Crc.NONE)
BODY_CRC: Final = int(Crc.BODY)
_RECORD_CRC: Final = int(Crc.RECORD)
_END: Final = int(StopReason.END)
_BLANK: Final = int(StopReason.BLANK)
_DAMAGED: Final = int(StopReason.DAMAGED)
_LIMIT: Final = int(StopReason.LIMIT)

_CRC_MASK: Final = property_crc.MASK
_SEAL_SIZE: Final = property_crc.SIZE
_SEAL_NAME: Final = np.frombuffer(property_crc.NAME, np.uint8)
_DIGITS_AT: Final = len(property_crc.NAME)
_ZERO: Final = ord("0")
_VALUE_END: Final = ord(VALUE_END)
_KEY_SEPARATOR: Final = ord(KEY_SEPARATOR)
_TAGS_KEY: Final = tuple(TAGS_KEY_PREFIX.encode())
_TAGS_KEY_SIZE: Final = len(_TAGS_KEY)


class RecordParts(NamedTuple):
    """Sizes and positions of a record's parts in the buffer, int64, bytes: as ``RecordHead`` has them.

    Attributes:
        stop: GOOD, or the ``StopReason`` for which there is no good record; all else is 0 then.
        behind_born_host: the record's position, grown by an IPv6 BORNHOST: fields after it lie at their
            ``*_AT`` from here.
        behind_hosts: the same for the fields after STOREHOST.
    """

    stop: Any
    size: Any
    behind_born_host: Any
    behind_hosts: Any
    body_position: Any
    body_length: Any
    topic_position: Any
    topic_length: Any
    properties_position: Any
    properties_length: Any


@inlined
def _stopped(stop: int) -> RecordParts:
    zero = int64(0)
    return RecordParts(int64(stop), zero, zero, zero, zero, zero, zero, zero, zero, zero)


@inlined
def walk(buffer: Bytes, position: int, end: int, physical_offset: int, crc: int) -> RecordParts:
    """Apply the rules of ``format.scan`` at ``position``, as if the buffer ended at ``end``.

    Args:
        physical_offset: what PHYSICALOFFSET must be, or ANYWHERE.
        crc: which checksum is compared: a number of ``Crc``.
    """
    left = end - position
    if left < record.MAGIC_AT:
        return _stopped(_END)  # 1
    size = int64(int_at(buffer, position))
    if left < record.START_SIZE:
        return _stopped(_END) if size == 0 else _stopped(_LIMIT)  # 2, 3
    magic = uint32(int_at(buffer, position + record.MAGIC_AT))
    if size == 0 and magic == 0:
        return _stopped(_END)  # 2
    if magic == record.MAGIC_BLANK:
        return _stopped(_BLANK)  # 4
    if magic == record.MAGIC_V1:
        topic_width, topic_max = TOPIC_LENGTH_SIZE_V1, record.TOPIC_MAX_LENGTH_V1
    elif magic == record.MAGIC_V2:
        topic_width, topic_max = TOPIC_LENGTH_SIZE_V2, record.TOPIC_MAX_LENGTH_V2
    else:
        return _stopped(_DAMAGED)  # 5
    if size < record.MIN_SIZE:
        return _stopped(_DAMAGED)  # 6
    if left < record.HEAD_MAX_SIZE and size > left:
        return _stopped(_LIMIT)  # 7

    sys_flag = int_at(buffer, position + record.SYS_FLAG_AT)
    behind_born_host = position + (record.HOST_GROWTH if sys_flag & BORN_HOST_V6 else 0)
    behind_hosts = behind_born_host + (record.HOST_GROWTH if sys_flag & STORE_HOST_V6 else 0)
    body_position = behind_hosts + record.BODY_AT
    rest = size - (body_position - position) - topic_width - PROPERTIES_LENGTH_SIZE
    if rest < 0:
        return _stopped(_DAMAGED)  # 8
    body_length = int64(int_at(buffer, behind_hosts + record.BODY_LENGTH_AT))
    rest -= body_length  # bytes of topic and properties
    if body_length < 0 or rest < 0 or rest > topic_max + PROPERTIES_MAX_LENGTH:
        return _stopped(_DAMAGED)  # 9
    own_offset = long_at(buffer, position + record.PHYSICAL_OFFSET_AT)
    if own_offset != physical_offset and physical_offset != ANYWHERE:
        return _stopped(_DAMAGED)  # 10
    if size > left:
        return _stopped(_LIMIT)  # 11

    topic_position = body_position + body_length + topic_width
    if topic_width == TOPIC_LENGTH_SIZE_V1:
        topic_length = int64(int8(byte_at(buffer, topic_position - topic_width)))
    else:
        topic_length = int64(short_at(buffer, topic_position - topic_width))
    properties_position = topic_position + topic_length + PROPERTIES_LENGTH_SIZE
    if topic_length < 0 or properties_position > position + size:
        return _stopped(_DAMAGED)  # 12
    properties_length = int64(short_at(buffer, properties_position - PROPERTIES_LENGTH_SIZE))
    if properties_length < 0 or properties_position + properties_length != position + size:
        return _stopped(_DAMAGED)  # 12
    parts = RecordParts(
        int64(GOOD),
        size,
        int64(behind_born_host),
        int64(behind_hosts),
        int64(body_position),
        body_length,
        int64(topic_position),
        topic_length,
        int64(properties_position),
        properties_length,
    )
    return parts if _has_checksum(buffer, position, parts, crc) else _stopped(_DAMAGED)  # 13, 14


@inlined
def _has_checksum(buffer: Bytes, position: int, parts: RecordParts, crc: int) -> bool:
    """Compare a checksum of a record as ``format.record.verify`` does; return whether it is right."""
    begin, length = parts.body_position, parts.body_length
    if crc == _RECORD_CRC:
        begin, length = position, parts.size - _SEAL_SIZE
    if crc == NO_CRC or length == 0:
        return True
    found = int64(crc32_of(buffer, begin, length) & _CRC_MASK)
    if crc == _RECORD_CRC:
        return parts.properties_length >= _SEAL_SIZE and _is_seal(buffer, begin + length, found)
    return bool(found == int_at(buffer, position + record.BODY_CRC_AT))


@inlined
def _is_seal(buffer: Bytes, position: int, crc: int) -> bool:
    """Return whether the property at ``position`` is the CRC property with this value."""
    for k in range(_DIGITS_AT):
        if byte_at(buffer, position + k) != _SEAL_NAME[k]:
            return False
    for k in range(property_crc.DIGITS):
        if byte_at(buffer, position + _DIGITS_AT + k) != _ZERO + crc % 10:
            return False
        crc //= 10
    return bool(byte_at(buffer, position + _SEAL_SIZE - 1) == _VALUE_END)


@inlined
def is_message(file: Bytes, position: int, size: int, physical_offset: int, queue_offset: int) -> Any:
    """Check what ``format.scan.is_message`` checks; all of the ``size`` bytes are in the file."""
    parts = walk(file, position, position + size, physical_offset, BODY_CRC)
    return (
        parts.stop == GOOD
        and parts.size == size
        and long_at(file, position + record.QUEUE_OFFSET_AT) == queue_offset
    )


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
def _is_tags_key(texts: Bytes, at: int) -> bool:
    """Return whether the key at a position begins as those that the index makes of tags."""
    for i in range(_TAGS_KEY_SIZE):
        if byte_at(texts, at + i) != _TAGS_KEY[i]:
            return False
    return True


@inlined
def has_key(
    file: Bytes, parts: RecordParts, texts: Bytes, at: int, topic_size: int, key_size: int, unique_only: int
) -> bool:
    """Check what ``format.dispatch.has_key`` checks of a good record.

    Args:
        parts: of the record.
        texts: uint8[], with the topic at position ``at``, and the key after it.
        unique_only: whether only the record's unique key counts.
    """
    topic_end = parts.topic_position + parts.topic_length
    if not _same(file, parts.topic_position, topic_end, texts, at, topic_size):
        return False
    properties_end = parts.properties_position + parts.properties_length
    unique_key, unique_key_end, tags, tags_end, keys, keys_end, _, _, _ = known_properties(
        file, parts.properties_position, properties_end
    )
    key_at = at + topic_size
    if unique_key < unique_key_end and _same(file, unique_key, unique_key_end, texts, key_at, key_size):
        return True
    if unique_only:
        return False
    if key_size > _TAGS_KEY_SIZE and _is_tags_key(texts, key_at) and tags < tags_end:
        tag_at, tag_size = key_at + _TAGS_KEY_SIZE, key_size - _TAGS_KEY_SIZE
        if _same(file, tags, tags_end, texts, tag_at, tag_size):
            return True
    while keys < keys_end:
        key_end = keys
        while key_end < keys_end and byte_at(file, key_end) != _KEY_SEPARATOR:
            key_end += 1
        if keys < key_end and _same(file, keys, key_end, texts, key_at, key_size):
            return True
        keys = key_end + 1
    return False
