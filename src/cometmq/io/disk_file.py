"""A file on a real disk, mapped windows for writing to it, and its map for reading.

The map has a record of the pages known to be in memory. Asking the system (``mincore``) costs as much as a
small read, and the first touch of a page as much again. So chunks that are read repeatedly stay mapped, and
the system's answers are kept until the next *round*; the owner begins one each second, and sooner when the
log grows fast. Then the answers are forgotten, and chunks not looked at in a whole round are unmapped.
The first looks at a chunk ask about a few pages each, the ``LOOKS``-th look in a round about all of it.

Why an answer can be kept for a second: the system evicts mapped pages that have just been used last of all,
and of the others first those that were written or read longest ago. If it evicts one in that second
all the same, its reader waits for the disk once. That is a sign of scarce memory: for some rounds a look then
asks only about the pages around those that are read.
"""

import ctypes
import errno
import mmap
import os
import resource
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from cometmq.io import memory, syncing
from cometmq.io.descriptors import SPARES
from cometmq.io.memory import PAGE_SIZE
from cometmq.io.sparse_view import SparseView, holes_take_space
from cometmq.message import Buffer

_CANNOT_TELL: Final = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
"""Errors of a file system, or of Linux before 4.14, that cannot read only cached bytes (RWF_NOWAIT)."""

LOOK_PAGES: Final = 16
"""Pages asked about together: a page fault maps about as many."""
CHUNK_PAGES: Final = 512
LOOKS: Final = 4
"""The number of the look in a round that asks about all of a chunk, which costs as much as a dozen others."""
CAREFUL_ROUNDS: Final = 10
"""Number of rounds after a wait for the disk in which memory counts as scarce."""
MAPPED_CHUNKS_MAX: Final = max(os.sysconf("SC_PHYS_PAGES") // CHUNK_PAGES // 8, 1)
"""Most chunks mapped of all files together: an eighth of the memory, since they count as the process's."""


def disk_waits() -> int:
    """Return how often this thread has had to wait for a page from the disk."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_majflt


class MappedPages:
    """The number of mapped chunks of some files, which share a limit.

    Args:
        most: limit of mapped chunks; each file may have one in any case.
        waits: counts how often the reading thread had to wait for a page.

    Attributes:
        count: chunks that are mapped now.
    """

    def __init__(self, most: int = MAPPED_CHUNKS_MAX, waits: Callable[[], int] = disk_waits) -> None:
        self.most = most
        self.waits = waits
        self.count = 0


class MappedFile:
    """A whole file, mapped for reading; it must not be empty. For one thread, except where a method says any.

    Attributes:
        view: the whole file; shows later writes too.
        resident: one byte per page: 1 if the page is known to be in memory.
    """

    def __init__(self, fd: int, size: int, pages: MappedPages) -> None:
        self._map = memory.map_nothing(size)  # mmap.mmap of a file would hold a descriptor of its own
        memory.map_file(self._map, fd, 0, size)
        self._size = size
        self._address = memory.address_of(self._map)
        self.resident = bytearray(-(-size // PAGE_SIZE))
        self.view = memoryview(self._map)
        self._pages = pages
        self._looks: OrderedDict[int, int] = OrderedDict()  # number of looks by chunk, the latest look last
        self._asked: set[int] = set()  # chunks looked at in this round
        self._is_any_known = False  # whether ``resident`` has a 1
        self._waits = pages.waits()
        self._careful_rounds = 0

    def ready(self, begin: int, end: int) -> memoryview | None:
        """Return a stretch of the view if its pages are in memory, else None."""
        if end > self._size:
            return None
        first, last = begin // PAGE_SIZE, -(-end // PAGE_SIZE)
        if self.resident.find(0, first, last) >= 0:
            self._look(first, last)
            if self.resident.find(0, first, last) >= 0:
                return None
        return self.view[begin:end]

    def mark_written(self, begin: int, end: int) -> None:
        """Mark the pages of a stretch that has just been written as in memory. For any thread."""
        first, last = begin // PAGE_SIZE, min(-(-end // PAGE_SIZE), len(self.resident))
        self.resident[first:last] = b"\1" * (last - first)
        self._is_any_known = True

    def next_round(self) -> Callable[[], None]:
        """Begin a round; return a function that unmaps the chunks not looked at in the last round.

        The function is for any thread, and may be called a little later.
        """
        looks = self._looks
        while looks and (oldest := next(iter(looks))) not in self._asked:
            self._forget(oldest)
        for chunk, count in looks.items():
            looks[chunk] = LOOKS - 1 if count >= LOOKS else 0
        if self._is_any_known:
            self._forget_all()
        self._asked.clear()
        self._careful_rounds = max(self._careful_rounds - 1, 0)
        return partial(self._unmap_all_but, sorted(looks))

    def release(self) -> None:
        """Forget all answers and unmap the whole file."""
        while self._looks:
            self._forget(next(iter(self._looks)))
        self._forget_all()
        self._unmap_all_but([])

    def _look(self, first: int, last: int) -> None:
        """Ask about the pages ``first`` to before ``last``, and those around them."""
        first -= first % LOOK_PAGES
        last = min(last + -last % LOOK_PAGES, len(self.resident))
        for chunk in range(first // CHUNK_PAGES, -(-last // CHUNK_PAGES)):
            if self._count_look(chunk) == LOOKS and not self._is_careful():
                first = min(first, chunk * CHUNK_PAGES)
                last = max(last, min((chunk + 1) * CHUNK_PAGES, len(self.resident)))
        noted = (ctypes.c_ubyte * (last - first)).from_buffer(self.resident, first)
        memory.read_residency(self._address + first * PAGE_SIZE, noted)
        self._is_any_known = True

    def _count_look(self, chunk: int) -> int:
        """Count a look at a chunk; return its number in this round."""
        looks, pages = self._looks, self._pages
        if chunk not in looks:
            pages.count += 1
            if pages.count > pages.most and looks:
                oldest = next(iter(looks))
                self._forget(oldest)
                self._unmap(oldest, oldest + 1)
        number = looks[chunk] = looks.get(chunk, 0) + 1
        looks.move_to_end(chunk)
        self._asked.add(chunk)
        return number

    def _is_careful(self) -> bool:
        """Return whether memory counts as scarce."""
        waits = self._pages.waits()
        if waits != self._waits:
            self._waits, self._careful_rounds = waits, CAREFUL_ROUNDS
        return self._careful_rounds > 0

    def _forget(self, chunk: int) -> None:
        """Forget the answers about a chunk that is about to be unmapped."""
        del self._looks[chunk]
        self._pages.count -= 1
        begin = chunk * CHUNK_PAGES
        known = memoryview(self.resident)[begin : begin + CHUNK_PAGES]
        known[:] = bytes(len(known))

    def _forget_all(self) -> None:
        """Forget all answers; marks that other threads' writes set meanwhile may stay until the next time."""
        self._is_any_known = False
        self.resident[:] = bytes(len(self.resident))

    def _unmap_all_but(self, kept: list[int]) -> None:
        """Unmap all chunks except ``kept``, which is sorted."""
        begin = 0
        for chunk in [*kept, -(-len(self.resident) // CHUNK_PAGES)]:
            if begin < chunk:
                self._unmap(begin, chunk)
            begin = chunk + 1

    def _unmap(self, first: int, last: int) -> None:
        """Unmap the chunks ``first`` to before ``last``; they stay in the page cache."""
        begin = first * CHUNK_PAGES * PAGE_SIZE
        memory.unmap(self._address + begin, min(last * CHUNK_PAGES * PAGE_SIZE, self._size) - begin)


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
