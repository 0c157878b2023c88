"""The scan kernel: from a buffer of CommitLog records to one array per field.

The rules and their order are those of ``format.scan``, whose numbers the comments give.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from cometmq.format import property_crc, record
from cometmq.format.checksum import Crc
from cometmq.format.host import IPV4_SIZE
from cometmq.format.properties import MAX_LENGTH as PROPERTIES_MAX_LENGTH
from cometmq.format.properties import VALUE_END
from cometmq.format.scan import StopReason
from cometmq.format.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from cometmq.kernels.compiling.jit import (
    Bytes,
    byte_at,
    bytes_in,
    inlined,
    int8,
    int64,
    int_at,
    kernel,
    long,
    long_at,
    short_at,
    types,
    uint32,
)
from cometmq.kernels.ops import Scan
from cometmq.kernels.records.crc import crc32_of
from cometmq.message import Buffer

LONG_COLUMNS: Final = 11
INT_COLUMNS: Final = 11
assert LONG_COLUMNS + INT_COLUMNS + len(("stop_position", "stop_reason")) == len(Scan._fields)

_ANYWHERE: Final = -(2**63)
"""Stands for a missing base offset."""
_FULL: Final = -1
"""The kernel's reason to stop when the arrays are full."""
_USUAL_SIZE: Final = 256
"""The assumed size of a record in bytes for the first arrays; their number is known only at the end."""
_ROOM_MIN: Final = 64

# Numba accepts integers as constants, but not members of an IntEnum.
_END: Final = int(StopReason.END)
_BLANK: Final = int(StopReason.BLANK)
_DAMAGED: Final = int(StopReason.DAMAGED)
_LIMIT: Final = int(StopReason.LIMIT)
_MAGIC_V1: Final = record.MAGIC_V1
_MAGIC_V2: Final = record.MAGIC_V2
_MAGIC_BLANK: Final = record.MAGIC_BLANK
_NONE: Final = int(Crc.NONE)
_BODY: Final = int(Crc.BODY)
_RECORD: Final = int(Crc.RECORD)
_CRC_MASK: Final = property_crc.MASK
_PROPERTY_CRC_SIZE: Final = property_crc.SIZE
_PROPERTY_NAME: Final = np.frombuffer(property_crc.NAME, np.uint8)
_DIGITS_AT: Final = len(property_crc.NAME)
_ZERO: Final = ord("0")
_VALUE_END: Final = ord(VALUE_END)


def scan(
    buffer: Buffer | Bytes,
    *,
    base_offset: int | None,
    start: int = 0,
    end: int | None = None,
    crc: Crc = Crc.BODY,
    max_records: int | None = None,
) -> Scan:
    """Scan the records of a buffer: see ``ops.Ops.scan``."""
    data = np.frombuffer(buffer, np.uint8)
    end = len(data) if end is None else min(end, len(data))
    base = _ANYWHERE if base_offset is None else base_offset
    most = max(end - start, 0) // record.MIN_SIZE if max_records is None else max_records
    longs, ints = _tables(min(most, max(end - start, 0) // _USUAL_SIZE + _ROOM_MIN))
    count, position, reason = _scan(data, start, end, base, int(crc), longs, ints, 0)
    while reason == _FULL and count < most:
        usual_size = (position - start) // count
        more_longs, more_ints = _tables(min(most, count + count // 4 + (end - position) // usual_size))
        more_longs[:, :count], more_ints[:, :count] = longs[:, :count], ints[:, :count]
        longs, ints = more_longs, more_ints
        count, position, reason = _scan(data, position, end, base, int(crc), longs, ints, count)
    stop = StopReason.LIMIT if reason == _FULL else StopReason(reason)
    return Scan._make((*longs[:, :count], *ints[:, :count], position, stop))


def _tables(room: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    return np.empty((LONG_COLUMNS, room), np.int64), np.empty((INT_COLUMNS, room), np.int32)


@inlined
def _is_property_crc(buffer: Bytes, position: int, crc: int) -> bool:
    """Return whether the property at ``position`` is the CRC property with this value."""
    for k in range(_DIGITS_AT):
        if byte_at(buffer, position + k) != _PROPERTY_NAME[k]:
            return False
    for k in range(property_crc.DIGITS):
        if byte_at(buffer, position + _DIGITS_AT + k) != _ZERO + crc % 10:
            return False
        crc //= 10
    return bool(byte_at(buffer, position + _PROPERTY_CRC_SIZE - 1) == _VALUE_END)


@kernel(
    types.UniTuple(long, 3)(
        bytes_in,
        long,
        long,
        long,
        long,
        types.Array(types.int64, 2, "C"),
        types.Array(types.int32, 2, "C"),
        long,
    )
)
def _scan(
    buffer: Bytes,
    position: int,
    end: int,
    base_offset: int,
    crc: int,
    longs: NDArray[np.int64],
    ints: NDArray[np.int32],
    count: int,
) -> tuple[int, int, int]:
    while True:
        left = end - position
        if left < 4:
            return count, position, _END  # 1
        size = int_at(buffer, position)
        if left < record.START_SIZE:
            return count, position, _END if size == 0 else _LIMIT  # 2, 3
        magic = uint32(int_at(buffer, position + record.MAGIC_AT))
        if size == 0 and magic == 0:
            return count, position, _END  # 2
        if magic == _MAGIC_BLANK:
            return count, position, _BLANK  # 4
        if magic == _MAGIC_V1:
            topic_width, topic_max = 1, record.TOPIC_MAX_LENGTH_V1
        elif magic == _MAGIC_V2:
            topic_width, topic_max = 2, record.TOPIC_MAX_LENGTH_V2
        else:
            return count, position, _DAMAGED  # 5
        if size < record.MIN_SIZE:
            return count, position, _DAMAGED  # 6
        if left < record.HEAD_MAX_SIZE and size > left:
            return count, position, _LIMIT  # 7

        sys_flag = int_at(buffer, position + record.SYS_FLAG_AT)
        born_growth = record.HOST_GROWTH if sys_flag & BORN_HOST_V6 else 0
        store_growth = record.HOST_GROWTH if sys_flag & STORE_HOST_V6 else 0
        store_time_position = position + record.STORE_TIME_AT + born_growth
        body_position = position + record.BODY_AT + born_growth + store_growth
        rest = size - (body_position - position) - topic_width - 2
        if rest < 0:
            return count, position, _DAMAGED  # 8
        body_length = int_at(buffer, body_position - 4)
        rest -= body_length  # bytes of topic and properties
        if body_length < 0 or rest < 0 or rest > topic_max + PROPERTIES_MAX_LENGTH:
            return count, position, _DAMAGED  # 9
        physical_offset = long_at(buffer, position + record.PHYSICAL_OFFSET_AT)
        if physical_offset != base_offset + position and base_offset != _ANYWHERE:
            return count, position, _DAMAGED  # 10
        if size > left:
            return count, position, _LIMIT  # 11
        topic_position = body_position + body_length + topic_width
        if topic_width == 1:
            topic_length = int64(int8(byte_at(buffer, topic_position - 1)))
        else:
            topic_length = int64(short_at(buffer, topic_position - 2))
        properties_position = topic_position + topic_length + 2
        if topic_length < 0 or properties_position > position + size:
            return count, position, _DAMAGED  # 12
        properties_length = int64(short_at(buffer, properties_position - 2))
        if properties_length < 0 or properties_position + properties_length != position + size:
            return count, position, _DAMAGED  # 12
        body_crc = int_at(buffer, position + record.BODY_CRC_AT)
        if crc == _RECORD:
            covered_from, covered = position, size - _PROPERTY_CRC_SIZE
        else:
            covered_from, covered = body_position, body_length
        if crc != _NONE and covered > 0:
            found = int64(crc32_of(buffer, covered_from, covered) & _CRC_MASK)
            if crc == _BODY and found != body_crc:
                return count, position, _DAMAGED  # 13
            if crc == _RECORD and (
                properties_length < _PROPERTY_CRC_SIZE
                or not _is_property_crc(buffer, covered_from + covered, found)
            ):
                return count, position, _DAMAGED  # 13
        if count == longs.shape[1]:
            return count, position, _FULL

        longs[0, count] = position
        longs[1, count] = long_at(buffer, position + record.QUEUE_OFFSET_AT)
        longs[2, count] = physical_offset
        longs[3, count] = long_at(buffer, position + record.BORN_TIME_AT)
        longs[4, count] = long_at(buffer, store_time_position)
        longs[5, count] = long_at(buffer, body_position - 12)
        longs[6, count] = topic_position
        longs[7, count] = body_position
        longs[8, count] = properties_position
        longs[9, count] = position + record.BORN_HOST_AT
        longs[10, count] = store_time_position + 8
        ints[0, count] = size
        ints[1, count] = int_at(buffer, position + record.QUEUE_ID_AT)
        ints[2, count] = int_at(buffer, position + record.FLAG_AT)
        ints[3, count] = sys_flag
        ints[4, count] = int_at(buffer, body_position - 16)
        ints[5, count] = body_crc
        ints[6, count] = topic_length
        ints[7, count] = body_length
        ints[8, count] = properties_length
        ints[9, count] = IPV4_SIZE + born_growth
        ints[10, count] = IPV4_SIZE + store_growth
        count += 1
        position += size
