"""A file mapped for reading, and which of its pages are known to be in memory.

To ask the system costs as much as to read a little. So one question is asked for the pages around, and its
answer holds until the pages are let go, which the owner has done each second. The system takes pages that are
mapped and have just been used after all others; what it takes within that second costs one wait for the disk.
"""

import ctypes
import mmap
from typing import Final

from cometmq.io import memory
from cometmq.io.memory import PAGE_SIZE

LOOK_PAGES: Final = 16
"""So many pages are asked about together: a page fault maps about as many."""
MAPPED_MAX_PAGES: Final = 32 * 1024 * 1024 // PAGE_SIZE
"""When more have been asked about all are let go, for mapped pages count as the process's memory."""


class MappedFile:
    """A whole file, which must not be empty.

    Attributes:
        view: shows later writes too.
        resident: 1 for each page that is known to be in memory.
    """

    def __init__(self, fd: int, size: int) -> None:
        self._map = mmap.mmap(fd, size, access=mmap.ACCESS_READ)
        self._size = size
        self._address = memory.address_of(self._map)
        self.resident = bytearray(-(-size // PAGE_SIZE))
        self._asked = 0
        self.view = memoryview(self._map)

    def ready(self, begin: int, end: int) -> memoryview | None:
        """Give a stretch of the view if its pages are in memory, or None."""
        if end > self._size:
            return None
        first, last = begin // PAGE_SIZE, -(-end // PAGE_SIZE)
        if self.resident.find(0, first, last) >= 0:
            self._look(first, last)
            if self.resident.find(0, first, last) >= 0:
                return None
        return self.view[begin:end]

    def let_go(self) -> None:
        """Let go of the memory; what is read again is asked about again."""
        self._map.madvise(mmap.MADV_DONTNEED)
        self.resident[:] = bytes(len(self.resident))
        self._asked = 0

    def _look(self, first: int, last: int) -> None:
        """Ask about the pages from ``first`` to before ``last``, and those around."""
        first -= first % LOOK_PAGES
        last = min(last + -last % LOOK_PAGES, len(self.resident))
        self._asked += last - first
        if self._asked > MAPPED_MAX_PAGES:
            self.let_go()
        noted = (ctypes.c_ubyte * (last - first)).from_buffer(self.resident, first)
        memory.note_resident(self._address + first * PAGE_SIZE, noted)
