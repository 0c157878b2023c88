"""How a reader advances through a CommitLog file: record by record, until something stops it.

At each position the first rule that holds decides. *Left* is how many bytes the reader has from
the position on; a file is read whole or in pieces, so a record may be cut by the end of a piece.

====  ==========================================================================  ============
rule  what is there                                                               result
====  ==========================================================================  ============
1     fewer than 4 bytes left                                                     END
2     TOTALSIZE 0 with fewer than 8 bytes left, or with MAGIC 0                   END
3     fewer than 8 bytes left                                                     LIMIT
4     MAGIC is BLANK                                                              BLANK
5     MAGIC is neither V1 nor V2                                                  DAMAGED
6     TOTALSIZE below 91                                                          DAMAGED
7     TOTALSIZE above what is left, and fewer than 112 bytes left                 LIMIT
8     TOTALSIZE below the least for its MAGIC and host bits                       DAMAGED
9     BODYLEN negative, or it leaves TOTALSIZE too few or too many bytes for      DAMAGED
      topic and properties (V1: 3–32,897; V2: 4–65,538, with their lengths)
10    PHYSICALOFFSET is not ``base_offset`` + position, if there is one           DAMAGED
11    TOTALSIZE above what is left                                                LIMIT
12    TOPICLEN or PROPLEN negative, or the parts do not make TOTALSIZE            DAMAGED
13    the checksum that is asked for differs: see ``checksum.Crc``                  DAMAGED
14    otherwise                                                                   a good record
====  ==========================================================================  ============

So LIMIT says that nothing seen is wrong and more bytes would tell, and a size that cannot be is
DAMAGED as soon as its head (at most 112 bytes) can be seen. Which bytes were there decides what LIMIT
means: the end of a piece calls for the next piece, from the stop's position on (as does END with
fewer than 4 bytes left); the end of the file or of what was written means a torn record, of which
nothing can be used. Bytes that follow END in a file were never written, or belong to records that a
recovery has given up.

RocketMQ's own reader does not compare PHYSICALOFFSET (rule 10) and so cannot be dropped at any byte.
Source: RocketMQ: CommitLog.java (checkMessageAndReturnSize).
"""

import re
from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from cometmq.errors import CutRecord, DamagedRecord
from cometmq.format.checksum import Crc, verify
from cometmq.format.record import (
    HEAD_MAX_SIZE,
    MAGIC_AT,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    START_SIZE,
    RecordHead,
    read_head,
)
from cometmq.message import Buffer

_SIZE_WIDTH: Final = 4
_START: Final = Struct(">iI")
_MAGIC: Final = re.compile(
    b"|".join(re.escape(magic.to_bytes(4, "big")) for magic in (MAGIC_V1, MAGIC_V2)), re.DOTALL
)


class StopReason(IntEnum):
    """Why a scan went no further."""

    END = 0
    BLANK = 1
    DAMAGED = 2
    LIMIT = 3


class Stop(NamedTuple):
    """Where a scan stopped: ``detail`` says for DAMAGED and LIMIT which check failed, with the numbers."""

    position: int
    reason: StopReason
    detail: str = ""


class Scan:
    """The good records of a buffer, in order, to be gone through once.

    Attributes:
        stop: where and why it ended; there once the iteration has ended by itself.
    """

    stop: Stop

    def __init__(self, buffer: Buffer, *, base_offset: int, position: int, end: int, crc: Crc) -> None:
        self._buffer = buffer
        self._base_offset = base_offset
        self._position = position
        self._end = end
        self._crc = crc

    def __iter__(self) -> Iterator[RecordHead]:
        """Give record after record, until a rule stops it."""
        while isinstance(found := self._check(), RecordHead):
            self._position += found.size
            yield found
        self.stop = found

    def _check(self) -> RecordHead | Stop:
        return check(
            self._buffer,
            self._position,
            self._end,
            base_offset=self._base_offset,
            crc=self._crc,
        )


def scan(
    buffer: Buffer, *, base_offset: int, start: int = 0, end: int | None = None, crc: Crc = Crc.BODY
) -> Scan:
    """Go through the records from ``start`` on, as if the buffer ended at ``end``.

    ``base_offset`` is the CommitLog offset of the buffer's byte 0.
    """
    end = len(buffer) if end is None else min(end, len(buffer))
    return Scan(buffer, base_offset=base_offset, position=start, end=end, crc=crc)


def check(
    buffer: Buffer, position: int, end: int, *, base_offset: int | None, crc: Crc = Crc.BODY
) -> RecordHead | Stop:
    """Apply the rules above at ``position``, as if the buffer ended at ``end``.

    A buffer without a ``base_offset`` has records from anywhere in the log: those of a pull's answer.
    """
    left = end - position
    if left < _SIZE_WIDTH:
        return Stop(position, StopReason.END)
    if left < START_SIZE:
        zeros = not any(buffer[position : position + _SIZE_WIDTH])
        return Stop(position, StopReason.END if zeros else StopReason.LIMIT, f"{left} bytes are left")
    size, magic = _START.unpack_from(buffer, position)
    if size == 0 and magic == 0:
        return Stop(position, StopReason.END)
    if magic == MAGIC_BLANK:
        return Stop(position, StopReason.BLANK)
    try:
        lies_at = None if base_offset is None else base_offset + position
        head = read_head(buffer, position, end, physical_offset=lies_at)
        verify(buffer, head, crc)
    except CutRecord as cut:
        return Stop(position, StopReason.LIMIT, cut.reason)
    except DamagedRecord as damage:
        return Stop(position, StopReason.DAMAGED, damage.reason)
    return head


def find_next_record(
    buffer: Buffer, start: int, *, base_offset: int, end: int | None = None, crc: Crc = Crc.BODY
) -> int | None:
    """Give the position of the first true record that begins at ``start`` or later; None when there is none.

    It is where MAGIC and PHYSICALOFFSET are right and the rules above find a good record, or one
    that the end cuts after its head (HEAD_MAX_SIZE bytes). So a reader can take up after damage, and a
    part of a file can be read without what lies before it: a record belongs to the part in which it
    begins. A reader of pieces that gets None looks again from HEAD_MAX_SIZE − 1 bytes before the end.
    """
    end = len(buffer) if end is None else min(end, len(buffer))
    for match in _MAGIC.finditer(buffer, start + MAGIC_AT, end):
        position = match.start() - MAGIC_AT
        found = check(buffer, position, end, base_offset=base_offset, crc=crc)
        if isinstance(found, RecordHead):
            return position
        if found.reason is StopReason.LIMIT and end - position >= HEAD_MAX_SIZE:
            return position
    return None
