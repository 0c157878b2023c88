"""Reads of queues in bulk: what a store and the kernels pass each other."""

import mmap
from typing import Final, Protocol

from cometmq.kernels.ops import Bytes, Longs

UNUSUAL: Final = -1
"""What a choice gives where it is to be made the plain way."""
LOOKED_AT, LAST, RUNS = range(3)
"""What a choice tells: how many entries are done with; where the last one's record lies in the CommitLog; and
how many runs the records are: those that lie side by side are one."""
TOLD: Final = 3
PAGE_SIZE: Final = mmap.PAGESIZE


class PullOps(Protocol):
    """The operation on reads; the store's plain way defines what they do."""

    def choose(
        self,
        entries: Bytes,
        codes: Longs,
        is_filtered: bool,
        file: Bytes,
        resident: Bytes,
        begin: int,
        end: int,
        queue_offset: int,
        near_offset: int,
        memory_count: int,
        memory_size: int,
        disk_count: int,
        disk_size: int,
        places: Longs,
        sizes: Longs,
        run_sizes: Longs,
        told: Longs,
        /,
    ) -> int:
        """Choose records by their queue entries until a limit is reached, and check each.

        Args:
            entries: those from ``queue_offset`` on.
            codes: the hashes of the wanted tags, if ``is_filtered``.
            file: a file of the log, mapped; ``begin`` is its offset, and what it has is readable to ``end``.
            resident: a byte for each page of it: whether it is known to be in memory. No other is touched.
            near_offset: CommitLog offset before which the limits for the disk hold, then those for memory.
            places: gets the position of each run in the file, …
            run_sizes: … and its size.
            sizes: gets the size of each record.
            told: gets what ``LOOKED_AT``, … name; as long as these three, and at least ``TOLD``.

        Returns:
            How many records; UNUSUAL; or UNUSUAL - n if n are not known to be in memory: those at ``places``,
            of ``sizes``.
        """
        ...
