"""The checksums of a record, and which of them a reader compares."""

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
    """BODYCRC; that of an empty body is not looked at, as RocketMQ does."""
    RECORD = 2
    """The property CRC, over all that is before it; a record without it counts as damaged."""


def body_crc(body: Buffer) -> int:
    """Give the CRC-32 of ``body`` without its highest bit, as records hold it; 0 of an empty body."""
    return crc32(body) & property_crc.MASK


def verify(buffer: Buffer, head: "RecordHead", crc: Crc) -> None:
    """Compare a checksum of the record whose head has been read from ``buffer``.

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
