"""The checksums of a record, and their comparison by a reader."""

from enum import IntEnum
from typing import TYPE_CHECKING
from zlib import crc32

from cometmq.errors import DamagedRecord
from cometmq.format import property_crc
from cometmq.message import Buffer

if TYPE_CHECKING:
    from cometmq.format.record import RecordHead


class Crc(IntEnum):
    """Which of a record's checksums a reader compares."""

    NONE = 0
    BODY = 1
    """BODYCRC; that of an empty body is not compared, as in RocketMQ."""
    RECORD = 2
    """The property CRC over all bytes before it; a record without one counts as damaged."""


def body_crc(body: Buffer) -> int:
    """Return the CRC-32 of ``body`` without its highest bit, as records hold it; 0 for an empty body."""
    return crc32(body) & property_crc.MASK


def verify(buffer: Buffer, head: "RecordHead", crc: Crc) -> None:
    """Compare a checksum of a record in ``buffer`` whose head has been read.

    Raises:
        DamagedRecord: it differs.
    """
    if crc is Crc.BODY and head.body_length:
        found = body_crc(buffer[head.body_position : head.body_position + head.body_length])
        if found != head.body_crc:
            what = f"BODYCRC {head.body_crc:#010x}, but the body has {found:#010x}"
            raise DamagedRecord(head.position, what)
    elif crc is Crc.RECORD and not (
        head.properties_length >= property_crc.SIZE
        and property_crc.is_sealed(buffer[head.position : head.position + head.size])
    ):
        raise DamagedRecord(head.position, "the record does not end in the property CRC of its other bytes")
