"""A real file, and windows into it."""

import errno
import mmap
import os
from pathlib import Path

from cometmq.io import memory
from cometmq.message import Buffer


class DiskWindow:
    """A window into a real file, whose space must be reserved. Raises OSError if pages cannot be had."""

    def __init__(self, path: Path, fd: int, position: int, size: int) -> None:
        self._begin = position - position % mmap.ALLOCATIONGRANULARITY
        self._map = mmap.mmap(fd, position + size - self._begin, offset=self._begin)
        try:
            memory.populate(self._map, 0, len(self._map))
        except OSError as error:
            self._map.close()
            error.filename = str(path)
            raise

    def store(self, position: int, data: Buffer) -> None:
        """Store ``data`` at ``position``."""
        at = position - self._begin
        self._map[at : at + len(data)] = data

    def lock(self) -> bool:
        """Keep the window's pages in memory; unmapping unlocks them."""
        return memory.lock(self._map, 0, len(self._map))

    def close(self) -> None:
        """Let it go."""
        self._map.close()


class DiskFile:
    """A real file."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self.size = os.fstat(fd).st_size
        self._fd = fd
        self._map: mmap.mmap | None = None
        self._tells_ready = hasattr(os, "RWF_NOWAIT")  # not every file system does

    def write(self, position: int, data: Buffer) -> None:
        """Write all of ``data`` at ``position``."""
        written = os.pwrite(self._fd, data, position)
        if written == len(data):
            return
        rest = memoryview(data)[written:]
        while rest:  # a signal or a nearly full disk can cut a write short
            written = os.pwrite(self._fd, rest, position := position + written)
            if written == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            rest = rest[written:]

    def reserve(self, position: int, size: int) -> None:
        """Have the disk's space for a stretch."""
        try:
            os.posix_fallocate(self._fd, position, size)
        except OSError as error:
            error.filename = str(self.path)
            raise

    def window(self, position: int, size: int) -> DiskWindow:
        """Open a stretch for stores."""
        self.reserve(position, size)
        return DiskWindow(self.path, self._fd, position, size)

    def read(self, position: int, size: int) -> bytes:
        """Read up to ``size`` bytes at ``position``."""
        return os.pread(self._fd, size, position)

    def read_ready(self, position: int, size: int) -> Buffer | None:
        """Read all of ``size`` bytes at ``position`` if they are in the page cache."""
        if not self._tells_ready:
            return None
        data = bytearray(size)
        try:
            count = os.preadv(self._fd, (data,), position, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            self._tells_ready = False
            return None
        return data if count == size else None

    def view(self) -> memoryview:
        """Give the whole file as a read-only view."""
        if self.size == 0:
            return memoryview(b"")
        if self._map is None:
            self._map = mmap.mmap(self._fd, self.size, access=mmap.ACCESS_READ)
        return memoryview(self._map)

    def drop_pages(self) -> None:
        """Let go of the memory that reading through views took: the page cache still has it."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)

    def data_end(self, position: int) -> int:
        """Give where the last data at or behind ``position`` ends, without reading holes."""
        end = position
        try:
            while end < self.size:
                end = os.lseek(self._fd, os.lseek(self._fd, end, os.SEEK_DATA), os.SEEK_HOLE)
        except OSError as error:
            if error.errno != errno.ENXIO:  # ENXIO: no data behind ``end``
                raise
        return end

    def close(self) -> None:
        """Let the file go."""
        os.close(self._fd)
        self._fd = -1  # so that a late use fails, and gets at no other file that has this number by then
        self._map = None  # unmapped when the last view is gone
