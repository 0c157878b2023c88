"""Find where the records of a CommitLog file end, in the task that reads there.

Behind the last record of a file there is a hole that was never written, or a BLANK, which closes a full
file. What follows a BLANK may be the remains of records that a recovery gave up; only the BLANK shows that.
It lies within the last 8 MiB: a task that reads before these does not look for it.
"""

import re
from typing import Final

from cometmq.format.record import MAGIC_AT, MAGIC_BLANK, START_SIZE
from cometmq.message import Buffer
from cometmq.spark.files.remote import FileBytes
from cometmq.spark.files.splits import LogFile

BLANK_SIZE_MAX: Final = 8 * 1024 * 1024
"""How far from a file's end a BLANK can begin: twice what the default limit of a body needs."""

_BLANK: Final = re.compile(re.escape(MAGIC_BLANK.to_bytes(4, "big")), re.DOTALL)


class LogEnd:
    """The end of one file's records, found once bytes near the file's end are needed."""

    def __init__(self, found: FileBytes, file: LogFile) -> None:
        self._found = found
        self._size = file.size
        self._written = min(file.written, found.written)
        self._tail = max(file.size - BLANK_SIZE_MAX, 0)
        self._end = self._written if self._written <= self._tail else None

    @property
    def position(self) -> int:
        """Position behind the last byte that can belong to a record."""
        return self._look_up(self._tail) if self._end is None else self._end

    def bound(self, end: int) -> int:
        """Return ``end``, or the end of the records if that is before it."""
        return min(end, self._written if end <= self._tail else self.position)

    def read(self, begin: int, end: int) -> memoryview:
        """Read a range as ``FileBytes.read`` does, but no further than the records."""
        limit = self._end
        if limit is None:
            limit = end if end <= self._tail else self._look_up(min(begin, self._tail))
        end = min(end, limit)
        return self._found.read(begin, end) if begin < end else memoryview(b"")

    def _look_up(self, begin: int) -> int:
        """Find the BLANK, and keep the bytes from ``begin`` on."""
        tail = self._found.read(begin, self._written)[self._tail - begin :]
        blank = _blank_position(tail, self._tail, self._size)
        self._end = self._written if blank is None else blank
        return self._end


def _blank_position(tail: Buffer, first: int, size: int) -> int | None:
    """Return the position of the BLANK that fills a file; None if its bytes from ``first`` on have none."""
    for match in _BLANK.finditer(tail, START_SIZE - MAGIC_AT):
        position = match.start() - MAGIC_AT
        filled = int.from_bytes(tail[position : position + MAGIC_AT], "big")
        if first + position + filled == size:
            return first + position
    return None
