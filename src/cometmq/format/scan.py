"""How a reader advances through a CommitLog file: record by record, until a rule stops it.

At each position the first rule that matches decides. *Left* is the number of bytes that the reader has from
the position on; a file is read whole or in pieces, so a record may be cut by the end of a piece.

====  ==========================================================================  ============
rule  condition                                                                   result
====  ==========================================================================  ============
1     fewer than 4 bytes left                                                     END
2     TOTALSIZE 0 with fewer than 8 bytes left, or with MAGIC 0                   END
3     fewer than 8 bytes left                                                     LIMIT
4     MAGIC is BLANK                                                              BLANK
5     MAGIC is neither V1 nor V2                                                  DAMAGED
6     TOTALSIZE below 91                                                          DAMAGED
7     TOTALSIZE above what is left, and fewer than 112 bytes left                 LIMIT
8     TOTALSIZE below the minimum for its MAGIC and host bits                     DAMAGED
9     BODYLEN negative, or it leaves TOTALSIZE too few or too many bytes for      DAMAGED
      topic and properties (V1: 3–32,897; V2: 4–65,538, with their lengths)
10    PHYSICALOFFSET is not ``base_offset`` + position, if there is one           DAMAGED
11    TOTALSIZE above what is left                                                LIMIT
12    TOPICLEN or PROPLEN negative, or the parts do not make TOTALSIZE            DAMAGED
13    the selected checksum differs: see ``checksum.Crc``                         DAMAGED
14    otherwise                                                                   a good record
====  ==========================================================================  ============

So LIMIT means that nothing seen so far is wrong and that more bytes are needed, and an impossible size is
DAMAGED as soon as the head (at most 112 bytes) can be read. What LIMIT means depends on where the bytes end:
at the end of a piece the reader continues with the next piece from the stop's position on (also after END
with fewer than 4 bytes left); at the end of the file or of the written bytes the record is torn and nothing
of it can be used. Bytes after END in a file were never written, or belong to records that a recovery has
abandoned.

All readers of records go by these rules: in Python by ``check``, in kernels by ``kernels.records.walk``.
RocketMQ's own reader does not compare PHYSICALOFFSET (rule 10) and so cannot start at an arbitrary byte.
Source: RocketMQ: CommitLog.java (checkMessageAndReturnSize).
"""

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from cometmq.errors import CutRecord, DamagedRecord
from cometmq.format import record
from cometmq.format.checksum import Crc
from cometmq.message import Buffer

_MAGIC: Final = re.compile(b"|".join(map(re.escape, record.MAGICS)), re.DOTALL)


class StopReason(IntEnum):
    """Why a scan stopped."""

    END = 0
    BLANK = 1
    DAMAGED = 2
    LIMIT = 3


class Stop(NamedTuple):
    """Where a scan stopped; for DAMAGED and LIMIT, ``detail`` names the failed check with its numbers."""

    position: int
    reason: StopReason
    detail: str = ""


class RecordScan:
    """The good records of a buffer, in order. It can be iterated once.

    Attributes:
        stop: where and why the scan stopped; set when the iteration has ended by itself.
    """

    stop: Stop

    def __init__(self, buffer: Buffer, *, base_offset: int, position: int, end: int, crc: Crc) -> None:
        self._buffer = buffer
        self._base_offset = base_offset
        self._position = position
        self._end = end
        self._crc = crc

    def __iter__(self) -> Iterator[record.RecordHead]:
        """Yield record after record until a rule stops the scan."""
        while isinstance(found := self._check(), record.RecordHead):
            self._position += found.size
            yield found
        self.stop = found

    def _check(self) -> record.RecordHead | Stop:
        return check(
            self._buffer,
            self._position,
            self._end,
            base_offset=self._base_offset,
            crc=self._crc,
        )


def scan(
    buffer: Buffer, *, base_offset: int, start: int = 0, end: int | None = None, crc: Crc = Crc.BODY
) -> RecordScan:
    """Scan the records from ``start`` on, as if the buffer ended at ``end``.

    ``base_offset`` is the CommitLog offset of byte 0 of the buffer.
    """
    end = len(buffer) if end is None else min(end, len(buffer))
    return RecordScan(buffer, base_offset=base_offset, position=start, end=end, crc=crc)


def check(
    buffer: Buffer, position: int, end: int, *, base_offset: int | None, crc: Crc = Crc.BODY
) -> record.RecordHead | Stop:
    """Apply the rules above at ``position``, as if the buffer ended at ``end``.

    ``base_offset`` is None if the records come from anywhere in the log, as in a pull's answer.
    """
    left = end - position
    if left < record.MAGIC_AT:
        return Stop(position, StopReason.END)
    if left < record.START_SIZE:
        zeros = not any(buffer[position : position + record.MAGIC_AT])
        return Stop(position, StopReason.END if zeros else StopReason.LIMIT, f"{left} bytes are left")
    size, magic = record.START.unpack_from(buffer, position)
    if size == 0 and magic == 0:
        return Stop(position, StopReason.END)
    if magic == record.MAGIC_BLANK:
        return Stop(position, StopReason.BLANK)
    try:
        lies_at = None if base_offset is None else base_offset + position
        head = record.read_head(buffer, position, end, physical_offset=lies_at)
        record.verify(buffer, head, crc)
    except CutRecord as cut:
        return Stop(position, StopReason.LIMIT, cut.reason)
    except DamagedRecord as damage:
        return Stop(position, StopReason.DAMAGED, damage.reason)
    return head


def whole_record(
    buffer: Buffer, position: int, size: int, physical_offset: int, crc: Crc
) -> record.RecordHead | None:
    """Return the head of the record that ``size`` bytes at ``position`` are as a whole, None if they are not.

    The rules above are applied to each record that is read: a bit can flip in a log of years after any start
    has looked at it, and no consumer shall get it as if it were the message.
    """
    try:
        head = record.read_head(buffer, position, position + size, physical_offset=physical_offset)
        record.verify(buffer, head, crc)
    except DamagedRecord:
        return None
    return head if head.size == size else None


def is_message(
    buffer: Buffer, position: int, size: int, physical_offset: int, queue_offset: int, crc: Crc
) -> bool:
    """Check that ``size`` bytes at ``position`` are, as a whole, the record that a queue entry stands for."""
    head = whole_record(buffer, position, size, physical_offset, crc)
    return head is not None and head.queue_offset == queue_offset


def find_next_record(
    buffer: Buffer, start: int, *, base_offset: int, end: int | None = None, crc: Crc = Crc.BODY
) -> int | None:
    """Find the position of the first good record that begins at ``start`` or later; None if there is none.

    It is a position where MAGIC and PHYSICALOFFSET are right and the rules above find a good record, or one
    that ``end`` cuts after its head (HEAD_MAX_SIZE bytes). So a reader can resume after damage, and a part
    of a file can be read without the bytes before it: a record belongs to the part in which it begins. A
    reader of pieces that gets None searches again from HEAD_MAX_SIZE − 1 bytes before the end.
    """
    end = len(buffer) if end is None else min(end, len(buffer))
    for match in _MAGIC.finditer(buffer, start + record.MAGIC_AT, end):
        position = match.start() - record.MAGIC_AT
        found = check(buffer, position, end, base_offset=base_offset, crc=crc)
        if isinstance(found, record.RecordHead):
            return position
        if found.reason is StopReason.LIMIT and end - position >= record.HEAD_MAX_SIZE:
            return position
    return None
