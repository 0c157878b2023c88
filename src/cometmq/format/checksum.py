"""The checksums of a record: see ``record.verify``, which compares them."""

from enum import IntEnum
from zlib import crc32

from cometmq.format.property_crc import MASK
from cometmq.message import Buffer


class Crc(IntEnum):
    """Which of a record's checksums a reader compares."""

    NONE = 0
    BODY = 1
    """BODYCRC; that of an empty body is not compared, as in RocketMQ."""
    RECORD = 2
    """The property CRC over all bytes before it; a record without one counts as damaged."""


def body_crc(body: Buffer) -> int:
    """Return the CRC-32 of ``body`` without its highest bit, as records and registrations hold it."""
    return crc32(body) & MASK
