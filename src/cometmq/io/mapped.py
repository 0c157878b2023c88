"""A file mapped for reading, and which of its pages are known to be in memory.

To ask the system costs as much as to read a little, and the first touch of a page as much again. So what is
read again and again stays mapped, and the system's answers hold until the next *round*; the owner begins one
each second, and sooner where the log grows fast. Then they are asked for anew, and what nobody asked for in a
whole round is let go. At first few pages are asked about at once; of a chunk about which the questions go on,
all, with one question.

Why an answer may hold for a second: the system takes pages that are mapped and have just been used after all
others, and of the others those first that were written or read longest ago. If it takes one in that second
all the same, its reader waits for the disk once. That is a sign that memory is short: then no more pages are
asked about than those around what is read, for some rounds.
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
"""So many pages are asked about together: a page fault maps about as many."""
CHUNK_PAGES: Final = 512
LOOKS: Final = 4
"""This question of a round about a chunk is about all of it: it costs as much as a dozen others."""
CAREFUL_ROUNDS: Final = 10
"""For so many rounds after a wait for the disk memory counts as short."""
MAPPED_CHUNKS_MAX: Final = max(os.sysconf("SC_PHYS_PAGES") // CHUNK_PAGES // 8, 1)
"""So many chunks may be mapped of all files together, an eighth of the memory: all count as the process's."""


def disk_waits() -> int:
    """Count how often this thread has had to wait for a page."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_majflt


class MappedPages:
    """How much of some files is mapped.

    Args:
        most: so many chunks may be, but one of each file in any case.
        waits: counts how often the thread that reads had to wait for a page.

    Attributes:
        count: so many chunks are.
    """

    def __init__(self, most: int = MAPPED_CHUNKS_MAX, waits: Callable[[], int] = disk_waits) -> None:
        self.most = most
        self.waits = waits
        self.count = 0


class MappedFile:
    """A whole file, which must not be empty. For one thread, but for what says that it is for any.

    Attributes:
        view: shows later writes too.
        resident: 1 for each page that is known to be in memory.
    """

    def __init__(self, fd: int, size: int, pages: MappedPages) -> None:
        self._map = memory.map_nothing(size)  # Python's own map of a file keeps a descriptor of its own
        memory.map_file(self._map, fd, 0, size)
        self._size = size
        self._address = memory.address_of(self._map)
        self.resident = bytearray(-(-size // PAGE_SIZE))
        self.view = memoryview(self._map)
        self._pages = pages
        self._looks: OrderedDict[int, int] = OrderedDict()  # by chunk, the one asked about last at the end
        self._asked: set[int] = set()  # chunks, in this round
        self._is_any_known = False  # to be in memory
        self._waits = pages.waits()
        self._careful_rounds = 0

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

    def note_written(self, begin: int, end: int) -> None:
        """Note that a stretch has just been written, so that its pages are in memory. For any thread."""
        first, last = begin // PAGE_SIZE, min(-(-end // PAGE_SIZE), len(self.resident))
        self.resident[first:last] = b"\1" * (last - first)
        self._is_any_known = True

    def next_round(self) -> Callable[[], None]:
        """Forget the answers; give what lets go of all that nobody has asked about since the last call.

        What it gives is for any thread, and may be called a little later.
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
        return partial(self._let_go_between, sorted(looks))

    def let_go(self) -> None:
        """Forget the answers, and let go of all."""
        while self._looks:
            self._forget(next(iter(self._looks)))
        self._forget_all()
        self._let_go_between([])

    def _look(self, first: int, last: int) -> None:
        """Ask about the pages from ``first`` to before ``last``, and those around."""
        first -= first % LOOK_PAGES
        last = min(last + -last % LOOK_PAGES, len(self.resident))
        for chunk in range(first // CHUNK_PAGES, -(-last // CHUNK_PAGES)):
            if self._note(chunk) == LOOKS and not self._is_careful():
                first = min(first, chunk * CHUNK_PAGES)
                last = max(last, min((chunk + 1) * CHUNK_PAGES, len(self.resident)))
        noted = (ctypes.c_ubyte * (last - first)).from_buffer(self.resident, first)
        memory.note_resident(self._address + first * PAGE_SIZE, noted)
        self._is_any_known = True

    def _note(self, chunk: int) -> int:
        """Note that a chunk is asked about; give the number of the question in this round."""
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
        """Tell whether memory counts as short."""
        waits = self._pages.waits()
        if waits != self._waits:
            self._waits, self._careful_rounds = waits, CAREFUL_ROUNDS
        return self._careful_rounds > 0

    def _forget(self, chunk: int) -> None:
        """Forget a chunk, which is about to be let go."""
        del self._looks[chunk]
        self._pages.count -= 1
        begin = chunk * CHUNK_PAGES
        known = memoryview(self.resident)[begin : begin + CHUNK_PAGES]
        known[:] = bytes(len(known))

    def _forget_all(self) -> None:
        """Forget the answers; others may write meanwhile, and what they note may stay until the next time."""
        self._is_any_known = False
        self.resident[:] = bytes(len(self.resident))

    def _let_go_between(self, kept: list[int]) -> None:
        """Let go of all but some chunks, which are sorted."""
        begin = 0
        for chunk in [*kept, -(-len(self.resident) // CHUNK_PAGES)]:
            if begin < chunk:
                self._unmap(begin, chunk)
            begin = chunk + 1

    def _unmap(self, first: int, last: int) -> None:
        """Let go of the chunks from ``first`` to before ``last``: the page cache still has them."""
        begin = first * CHUNK_PAGES * PAGE_SIZE
        memory.unmap(self._address + begin, min(last * CHUNK_PAGES * PAGE_SIZE, self._size) - begin)
