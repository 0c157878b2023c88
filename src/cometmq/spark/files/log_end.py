"""How far records can go in a CommitLog file, found by the task that reads there.

Behind the last record of a file there is a hole that was never written, or a BLANK, which closes a full
file. What follows a BLANK may be the remains of records that a recovery gave up, and nothing but the BLANK
before it tells so. It lies within the last 8 MiB: who reads before these needs to know nothing of it.
"""

import re
from typing import Final

from cometmq.format.record import MAGIC_AT, MAGIC_BLANK, START_SIZE
from cometmq.message import Buffer
from cometmq.spark.files.remote import RemoteBytes
from cometmq.spark.files.splits import LogFile

BLANK_SIZE_MAX: Final = 8 * 1024 * 1024
"""So far from a file's end its BLANK is looked for: twice what the default limit on a body asks for."""

_BLANK: Final = re.compile(re.escape(MAGIC_BLANK.to_bytes(4, "big")), re.DOTALL)


class LogEnd:
    """Where the records of one file end, looked up as soon as bytes near the file's end are needed."""

    def __init__(self, found: RemoteBytes, file: LogFile) -> None:
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
        """Return ``end``, or where records end if that is before."""
        return min(end, self._written if end <= self._tail else self.position)

    def need(self, begin: int, end: int) -> int:
        """Fetch a stretch as ``RemoteBytes.need`` does, as far as records go; return how far."""
        limit = self._end
        if limit is None:
            limit = end if end <= self._tail else self._look_up(min(begin, self._tail))
        end = min(end, limit)
        if begin < end:
            self._found.need(begin, end)
        return end

    def _look_up(self, begin: int) -> int:
        """Look for the BLANK; what was needed from ``begin`` on can still be looked at."""
        self._found.need(begin, self._written)
        tail = self._found.data[self._tail : self._written]
        blank = _blank_position(tail, self._tail, self._size)
        self._end = self._written if blank is None else blank
        return self._end


def _blank_position(tail: Buffer, first: int, size: int) -> int | None:
    """Return where the BLANK that fills a file begins, if it is in ``tail``, its bytes from ``first`` on."""
    for match in _BLANK.finditer(tail, START_SIZE - MAGIC_AT):
        position = match.start() - MAGIC_AT
        filled = int.from_bytes(tail[position : position + MAGIC_AT], "big")
        if first + position + filled == size:
            return first + position
    return None
