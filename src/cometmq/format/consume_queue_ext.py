"""One unit of a ConsumeQueueExt file: details of a message that its 20-byte queue entry has no room for.

====== ==== ============ ==================================================================
Offset Size Field        What it is for
====== ==== ============ ==================================================================
0      2    size         length of the unit, this field included
2      8    tags code    the entry's tags code: in the entry, the unit's address replaces it
10     8    store time   when the message was stored, ms: filters registered later are not in the bitmap
18     2    bitmap size  0 if no group filtered the topic
20     n    bitmap       by a Bloom filter, the groups whose filters the message passed
====== ==== ============ ==================================================================

Big-endian, signed. A unit does not cross the end of a file: where the next one does not fit before the last
4 bytes, a size of -1 sends the reader to the next file. A size of 0 ends the data.

An entry points to its unit by an *address* in its tags code: the unit's offset in the files, minus 2**63. No
hash is so small.

Source: RocketMQ ``store/ConsumeQueueExt.java``.
"""

import struct
from typing import Final, NamedTuple

from cometmq.errors import FormatError
from cometmq.message import Buffer

HEAD_SIZE: Final = 20
UNIT_SIZE_MAX: Final = 0x7FFF
BITMAP_SIZE_MAX: Final = UNIT_SIZE_MAX - HEAD_SIZE

BLANK: Final = b"\xff\xff"
"""The size that sends a reader to the next file."""
BLANK_SIZE: Final = 4
"""Bytes that stay free for ``BLANK`` at the end of a file."""

ADDRESS_MAX: Final = -(2**31) - 1
"""Highest address; tags codes above it are hashes or times."""
OFFSET_MAX: Final = ADDRESS_MAX + 2**63
"""Highest offset, in bytes, that an address can hold."""

_HEAD: Final = struct.Struct(">hqqh")
assert _HEAD.size == HEAD_SIZE


class ExtUnit(NamedTuple):
    """The fields of a unit."""

    tags_code: int
    store_time: int
    bitmap: bytes

    @property
    def size(self) -> int:
        """Length of the unit in the file, in bytes."""
        return HEAD_SIZE + len(self.bitmap)


def pack(tags_code: int, store_time: int, bitmap: bytes = b"") -> bytes:
    """Encode a unit. Raises FormatError for a bitmap of more than 32,747 bytes."""
    if len(bitmap) > BITMAP_SIZE_MAX:
        raise FormatError(f"bitmap of {len(bitmap)} bytes: a unit has room for {BITMAP_SIZE_MAX}")
    return _HEAD.pack(HEAD_SIZE + len(bitmap), tags_code, store_time, len(bitmap)) + bitmap


def unpack(buffer: Buffer, position: int = 0) -> ExtUnit | None:
    """Decode the unit at ``position``; None if there is no complete unit."""
    if position + HEAD_SIZE > len(buffer):
        return None
    size, tags_code, store_time, bitmap_size = _HEAD.unpack_from(buffer, position)
    end = position + size
    if bitmap_size < 0 or size != HEAD_SIZE + bitmap_size or end > len(buffer):
        return None
    return ExtUnit(tags_code, store_time, bytes(buffer[position + HEAD_SIZE : end]))


def address_of(offset: int) -> int:
    """Return the address of the unit at ``offset``, in bytes, of the files."""
    return offset - 2**63


def offset_of(address: int) -> int:
    """Return the offset in the files, in bytes, of the unit with an address."""
    return address + 2**63
