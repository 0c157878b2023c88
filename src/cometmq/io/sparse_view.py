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


def map_as_it_is(fd: int, begin: int, end: int) -> mmap.mmap:
    """Map a part of a file, from the beginning of a page, for reading its present content. Raises OSError."""
    if not holes_take_space(fd):
        return mmap.mmap(fd, end - begin, access=mmap.ACCESS_READ, offset=begin)
    sparse = SparseView(fd, end - begin, begin)
    sparse.refresh()
    return sparse.map


class SparseView:
    """A file, which must not be empty, or a part of it, of which only the data is mapped. For one thread.

    Args:
        begin: position of the part in the file, the beginning of a page.

    Attributes:
        map: shows later writes to pages that had data; other pages after ``refresh``.
        view: the same as a memoryview.
    """

    def __init__(self, fd: int, size: int, begin: int = 0) -> None:
        self.map = memory.map_nothing(size)
        self._fd = fd
        self._begin = begin
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
        """Iterate over the stretches of data, as begin and end in bytes from the part's beginning."""
        end = self._begin
        behind = end + self._size
        try:
            while end < behind and (begin := os.lseek(self._fd, end, os.SEEK_DATA)) < behind:
                end = min(os.lseek(self._fd, begin, os.SEEK_HOLE), behind)
                yield begin - self._begin, end - self._begin
        except OSError as error:
            if error.errno != errno.ENXIO:  # ENXIO: no data after ``end``
                raise

    def _map_pages(self, first: int, last: int) -> None:
        """Map the pages ``first`` to before ``last`` that are not mapped yet."""
        while (first := self._is_mapped.find(0, first, last)) >= 0:
            end = self._is_mapped.find(1, first, last)
            end = last if end < 0 else end
            at, upto = first * PAGE_SIZE, min(end * PAGE_SIZE, self._size)
            memory.map_file(self.map, self._fd, at, upto, self._begin + at)
            self._is_mapped[first:end] = b"\1" * (end - first)
            first = end
