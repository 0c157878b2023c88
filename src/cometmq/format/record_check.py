"""Checking that bytes are, as a whole, the record that a queue entry stands for.

A bit can flip in a log of years after any start has looked at it, and no consumer shall get it as if it were
the message: so size, place, queue offset, lengths and the record's checksum are compared, in about a
microsecond. ``kernels.records.record_check`` is the same for compiled operations.
"""

from struct import Struct
from typing import Final
from zlib import crc32

from cometmq.format.checksum import Crc
from cometmq.format.property_crc import is_sealed
from cometmq.format.record import BODY_AT, BODY_LENGTH_AT, HOST_GROWTH, MAGIC_V1, MAGIC_V2, MIN_SIZE
from cometmq.format.sys_flag import BORN_HOST_V6, STORE_HOST_V6

_HEAD: Final = Struct(">iIIiiqqi")
_LENGTH: Final = Struct(">i")
_MAGICS: Final = (MAGIC_V1, MAGIC_V2)


def is_message(data: bytes, physical_offset: int, queue_offset: int, checksum: Crc) -> bool:
    """Check that ``data`` is, as a whole, the record at a CommitLog offset that has this queue offset."""
    if len(data) < MIN_SIZE:
        return False
    size, magic, crc, _, _, own_queue_offset, own_offset, sys_flag = _HEAD.unpack_from(data)
    if size != len(data) or own_offset != physical_offset or own_queue_offset != queue_offset:
        return False
    growth = HOST_GROWTH * (bool(sys_flag & BORN_HOST_V6) + bool(sys_flag & STORE_HOST_V6))
    (length,) = _LENGTH.unpack_from(data, min(BODY_LENGTH_AT + growth, size - 4))
    begin = BODY_AT + growth
    if magic not in _MAGICS or length < 0 or begin + length > size:
        return False
    width = 1 if magic == MAGIC_V1 else 2
    topic = begin + length + width
    properties = topic + int.from_bytes(data[topic - width : topic], "big") + 2
    if properties + int.from_bytes(data[properties - 2 : properties], "big") != size:
        return False
    if checksum is Crc.RECORD:
        return is_sealed(data)
    return length == 0 or bool(crc32(data[begin : begin + length]) & 0x7FFFFFFF == crc)
