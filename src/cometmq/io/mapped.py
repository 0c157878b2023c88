"""A file mapped for reading, with a record of the pages known to be in memory.

Asking the system (``mincore``) costs as much as a small read, and the first touch of a page as much again. So
chunks that are read repeatedly stay mapped, and the system's answers are kept until the next *round*; the
owner begins one each second, and sooner when the log grows fast. Then the answers are forgotten, and chunks
that were not looked at in a whole round are unmapped. The first looks at a chunk ask about a few pages each,
the ``LOOKS``-th look in a round about all of the chunk.

Why an answer can be kept for a second: the system evicts mapped pages that have just been used last of all,
and of the others first those that were written or read longest ago. If it evicts one in that second
all the same, its reader waits for the disk once. That is a sign of scarce memory: for some rounds a look then
asks only about the pages around those that are read.
"""

import ctypes
import os
import resource
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Final

from cometmq.io import memory
from cometmq.io.memory import PAGE_SIZE

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
