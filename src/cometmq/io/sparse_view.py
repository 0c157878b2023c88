"""Views of files on file systems where reading a hole allocates space.

On tmpfs, which containers and CI use for stores, a page of a hole that is read through a map is allocated:
files grow by being read, and on a full file system the process is killed by SIGBUS. So only data is
mapped there; the holes between are zeros of anonymous memory. Reads by position allocate nothing.
"""

import ctypes
import errno
import mmap
import os
from collections.abc import Iterator
from typing import Final

from cometmq.io import memory
from cometmq.io.memory import PAGE_SIZE

_TMPFS: Final = 0x0102_1994
_RAMFS: Final = 0x8584_58F6
_OVERLAY: Final = 0x794C_7630
_HOLES_TAKE_SPACE: Final = (_TMPFS, _RAMFS, _OVERLAY)
"""An overlay, as a container has, is included because the file system below it is not known."""

_libc: Final = ctypes.CDLL(None, use_errno=True)


def holes_take_space(fd: int) -> bool:
    """Check whether a hole may take space when it is read through a map of the file."""
    found = (ctypes.c_ulong * 32)()  # struct statfs, which begins with the type
    if _libc.fstatfs(fd, found):
        return False
    return found[0] & 0xFFFF_FFFF in _HOLES_TAKE_SPACE


def map_as_it_is(fd: int, size: int) -> mmap.mmap:
    """Map a file, which must not be empty, for reading its present content. Raises OSError."""
    if not holes_take_space(fd):
        return mmap.mmap(fd, size, access=mmap.ACCESS_READ)
    sparse = SparseView(fd, size)
    sparse.refresh()
    return sparse.map


class SparseView:
    """A whole file, which must not be empty, of which only the data is mapped. For one thread.

    Attributes:
        map: shows later writes to pages that had data; other pages after ``refresh``.
        view: the same as a memoryview.
    """

    def __init__(self, fd: int, size: int) -> None:
        self.map = memory.map_nothing(size)
        self._fd = fd
        self._size = size
        self._is_mapped = bytearray(-(-size // PAGE_SIZE))
        self._blocks = -1
        self.view = memoryview(self.map)

    def refresh(self) -> None:
        """Map the data that has been written since the last call. Raises OSError."""
        blocks = os.fstat(self._fd).st_blocks
        if blocks == self._blocks:
            return
        for begin, end in self._data():
            self._map_pages(begin // PAGE_SIZE, -(-end // PAGE_SIZE))
        self._blocks = blocks

    def release(self) -> None:
        """Unmap the pages that were read."""
        memory.unmap(memory.address_of(self.map), self._size)

    def _data(self) -> Iterator[tuple[int, int]]:
        """Iterate over the stretches of data, as begin and end in bytes."""
        end = 0
        try:
            while end < self._size:
                begin = os.lseek(self._fd, end, os.SEEK_DATA)
                end = os.lseek(self._fd, begin, os.SEEK_HOLE)
                yield begin, end
        except OSError as error:
            if error.errno != errno.ENXIO:  # ENXIO: no data after ``end``
                raise

    def _map_pages(self, first: int, last: int) -> None:
        """Map the pages ``first`` to before ``last`` that are not mapped yet."""
        while (first := self._is_mapped.find(0, first, last)) >= 0:
            end = self._is_mapped.find(1, first, last)
            end = last if end < 0 else end
            memory.map_file(self.map, self._fd, first * PAGE_SIZE, min(end * PAGE_SIZE, self._size))
            self._is_mapped[first:end] = b"\1" * (end - first)
            first = end
