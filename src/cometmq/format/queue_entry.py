"""One entry of a ConsumeQueue file: where the queue's next message lies in the CommitLog.

====== ==== ================ ==========================================================
Offset Size Field            What it is for
====== ==== ================ ==========================================================
0      8    physical offset  first byte of the record in the CommitLog
8      4    size             length of the record in bytes, so that it can be read with one call
12     8    tags code        Java hash of the tags, to skip messages without reading them;
                             in a delay queue the time of delivery, ms since the epoch
====== ==== ================ ==========================================================

Big-endian, signed, 20 bytes. A file is an array of entries, so queue offset = byte offset / 20.
A size of 0 ends the data: the rest of the file was never written.

Source: RocketMQ ``store/ConsumeQueue.java``.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from cometmq.errors import FormatError
from cometmq.message import Buffer

SIZE: Final = 20

_ENTRY: Final = struct.Struct(">qiq")
assert _ENTRY.size == SIZE


class QueueEntry(NamedTuple):
    """The fields of a ConsumeQueue entry."""

    physical_offset: int
    size: int
    tags_code: int

    @property
    def is_end(self) -> bool:
        """Whether the data ends before this entry."""
        return self.physical_offset < 0 or self.size <= 0

    @property
    def is_filler(self) -> bool:
        """Whether the entry fills the place of a message that was lost together with its file."""
        return self == FILLER


FILLER: Final = QueueEntry(0, 0x7FFF_FFFF, 0)
"""Fills a queue's first file up to its first entry if earlier files were lost."""


def pack(physical_offset: int, size: int, tags_code: int) -> bytes:
    """Encode the 20 bytes of an entry."""
    return _ENTRY.pack(physical_offset, size, tags_code)


def unpack(buffer: Buffer, position: int = 0) -> QueueEntry:
    """Decode the entry at ``position``. Raises FormatError if there are fewer than 20 bytes."""
    try:
        return QueueEntry._make(_ENTRY.unpack_from(buffer, position))
    except struct.error:
        raise FormatError(
            f"ConsumeQueue entry at {position}: needs {SIZE} bytes of the {len(buffer)} there"
        ) from None


def unpack_many(buffer: Buffer) -> Iterator[QueueEntry]:
    """Iterate over all entries of ``buffer``, also those after the end of the data.

    Raises FormatError if its length is not a multiple of 20.
    """
    return map(QueueEntry._make, unpack_tuples(buffer))


def unpack_tuples(buffer: Buffer) -> Iterator[tuple[int, int, int]]:
    """Iterate over entries as plain tuples, in half the time. Raises FormatError like ``unpack_many``."""
    if len(buffer) % SIZE:
        raise FormatError(f"ConsumeQueue data of {len(buffer)} bytes: must be a multiple of {SIZE}")
    return _ENTRY.iter_unpack(buffer)
