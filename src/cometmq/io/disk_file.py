"""A real file, and windows into it."""

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
"""Errors of a file system, or of a Linux before 4.14, that cannot read only what is cached."""


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
    """A real file.

    Args:
        pages: how much is mapped of this file and others.
    """

    def __init__(self, path: Path, fd: int, pages: MappedPages) -> None:
        self.path = path
        self.size = os.fstat(fd).st_size
        self._fd = fd
        self._pages = pages
        self._mapped: MappedFile | None = None
        self._sparse: SparseView | None = None
        self._holes_take_space: bool | None = None  # None: not known yet
        self._tells = True  # whether the file system reads what is cached and nothing else; tmpfs does not

    def write(self, position: int, data: Buffer) -> None:
        """Write all of ``data`` at ``position``."""
        try:
            write_all(self._fd, position, data)
        except OSError as error:
            error.filename = str(self.path)
            raise
        if self._mapped is not None:
            self._mapped.note_written(position, position + len(data))

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
        """Give ``size`` bytes at ``position``, a part of the view if there is one, if they are cached.

        No file is mapped for this. Queues are many and read a little each: a map would take another
        descriptor, and cost as much as a hundred reads.
        """
        if self._mapped is None and self._tells:
            return self._read_cached(position, size)
        mapped = self.mapped()
        return None if mapped is None else mapped.ready(position, position + size)

    def mapped(self) -> MappedFile | None:
        """Give the file's map, None of an empty one."""
        return self._mapped or self._map()

    def view(self) -> memoryview:
        """Give the whole file as a read-only view."""
        if self._holes_take_space is None:
            self._holes_take_space = holes_take_space(self._fd)
        if self._holes_take_space and self.size:
            return self._sparse_view()
        mapped = self._mapped or self._map()
        return memoryview(b"" if mapped is None else mapped.view)

    def drop_pages(self) -> None:
        """Let go of the memory that reading through views took: the page cache still has it."""
        if self._mapped is not None:
            self._mapped.let_go()
        if self._sparse is not None:
            self._sparse.let_go()

    def unused_pages(self) -> Callable[[], None] | None:
        """Give what lets go of the pages that were not read since the last call, if any may be mapped."""
        actions = [] if self._mapped is None else [self._mapped.next_round()]
        if self._sparse is not None:
            actions.append(self._sparse.let_go)

        def let_go() -> None:
            for action in actions:
                action()

        return let_go if actions else None

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

    def sync(self) -> None:
        """Wait until what was written to it is on the disk."""
        syncing.sync_data(self._fd, self.path)

    def close(self) -> None:
        """Let the file go."""
        SPARES.close(self._fd)
        self._fd = -1  # so that a late use fails, and gets at no other file that has this number by then
        if self._mapped is not None:
            self._mapped.let_go()
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
    """Write all of ``data``, also where a signal or a nearly full disk cuts a write off. Raises OSError."""
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
