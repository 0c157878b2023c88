"""A file on a real disk, and mapped windows for writing to it."""

import errno
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cometmq.io import memory, syncing
from cometmq.io.descriptors import SPARES
from cometmq.io.mapped import MappedFile, MappedPages
from cometmq.io.sparse_view import SparseView, holes_take_space
from cometmq.message import Buffer

_CANNOT_TELL: Final = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
"""Errors of a file system, or of Linux before 4.14, that cannot read only cached bytes (RWF_NOWAIT)."""


class DiskWindow:
    """A mapped window of a real file, whose space must be reserved. Raises OSError if mapping fails."""

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
        """Write ``data`` at ``position`` of the file."""
        at = position - self._begin
        self._map[at : at + len(data)] = data

    def lock(self) -> bool:
        """Keep the window's pages in memory; unmapping unlocks them."""
        return memory.lock(self._map, 0, len(self._map))

    def close(self) -> None:
        """Unmap the window."""
        self._map.close()


class DiskFile:
    """An open file on a real disk.

    Args:
        pages: counts the mapped pages of this file and others, which share a limit.
    """

    def __init__(self, path: Path, fd: int, pages: MappedPages) -> None:
        self.path = path
        self.size = os.fstat(fd).st_size
        self._fd = fd
        self._pages = pages
        self._mapped: MappedFile | None = None
        self._sparse: SparseView | None = None
        self._holes_take_space: bool | None = None  # None: not known yet
        self._tells = True  # whether the file system can read only cached bytes; tmpfs cannot

    def write(self, position: int, data: Buffer) -> None:
        """Write all of ``data`` at ``position``."""
        try:
            write_all(self._fd, position, data)
        except OSError as error:
            error.filename = str(self.path)
            raise
        if self._mapped is not None:
            self._mapped.mark_written(position, position + len(data))

    def reserve(self, position: int, size: int) -> None:
        """Reserve disk space for a stretch of the file."""
        try:
            os.posix_fallocate(self._fd, position, size)
        except OSError as error:
            error.filename = str(self.path)
            raise

    def window(self, position: int, size: int) -> DiskWindow:
        """Map a stretch of the file for writing."""
        self.reserve(position, size)
        return DiskWindow(self.path, self._fd, position, size)

    def read(self, position: int, size: int) -> bytes:
        """Read up to ``size`` bytes at ``position``."""
        return os.pread(self._fd, size, position)

    def read_ready(self, position: int, size: int) -> Buffer | None:
        """Return ``size`` bytes at ``position`` if they are cached, else None; from the map if there is one.

        No file is mapped for this. There are many queues, each read a little: a map would take another
        descriptor, and cost as much as a hundred reads.
        """
        if self._mapped is None and self._tells:
            return self._read_cached(position, size)
        mapped = self.mapped()
        return None if mapped is None else mapped.ready(position, position + size)

    def mapped(self) -> MappedFile | None:
        """Return the file's map; None for an empty file."""
        return self._mapped or self._map()

    def view(self) -> memoryview:
        """Return the whole file as a read-only view."""
        if self._holes_take_space is None:
            self._holes_take_space = holes_take_space(self._fd)
        if self._holes_take_space and self.size:
            return self._sparse_view()
        mapped = self._mapped or self._map()
        return memoryview(b"" if mapped is None else mapped.view)

    def drop_pages(self) -> None:
        """Unmap the pages that were read through views; they stay in the page cache."""
        if self._mapped is not None:
            self._mapped.release()
        if self._sparse is not None:
            self._sparse.release()

    def unused_pages(self) -> Callable[[], None] | None:
        """Return a function that unmaps the pages unused since the last call; None if none are mapped."""
        actions = [] if self._mapped is None else [self._mapped.next_round()]
        if self._sparse is not None:
            actions.append(self._sparse.release)

        def unmap() -> None:
            for action in actions:
                action()

        return unmap if actions else None

    def data_end(self, position: int) -> int:
        """Return the end of the last data at or after ``position``, in bytes, without reading holes."""
        end = position
        try:
            while end < self.size:
                end = os.lseek(self._fd, os.lseek(self._fd, end, os.SEEK_DATA), os.SEEK_HOLE)
        except OSError as error:
            if error.errno != errno.ENXIO:  # ENXIO: no data after ``end``
                raise
        return end

    def sync(self) -> None:
        """Wait until all written bytes are on the disk."""
        syncing.sync_data(self._fd, self.path)

    def close(self) -> None:
        """Close the file."""
        SPARES.close(self._fd)
        self._fd = -1  # so that a late use fails instead of reaching another file with the same number
        if self._mapped is not None:
            self._mapped.release()
        self._mapped = self._sparse = None  # unmapped when the last view is gone

    def _sparse_view(self) -> memoryview:
        sparse = self._sparse = self._sparse or SparseView(self._fd, self.size)
        try:
            sparse.refresh()
        except OSError as error:
            error.filename = str(self.path)
            raise
        return sparse.view

    def _read_cached(self, position: int, size: int) -> Buffer | None:
        data = bytearray(size)
        try:
            return data if os.preadv(self._fd, (data,), position, os.RWF_NOWAIT) == size else None
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _CANNOT_TELL:
                raise
        self._tells = False
        return self.read_ready(position, size)

    def _map(self) -> MappedFile | None:
        if self.size:
            self._mapped = MappedFile(self._fd, self.size, self._pages)
        return self._mapped


def write_all(fd: int, position: int, data: Buffer) -> None:
    """Write all of ``data``, also if a signal or a nearly full disk cuts a write short. Raises OSError."""
    written = os.pwrite(fd, data, position)
    if written == len(data):
        return
    rest = memoryview(data)[written:]
    position += written
    while rest:
        written = os.pwrite(fd, rest, position)
        if written == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        position, rest = position + written, rest[written:]
