"""Reads whose records are sound, in memory, and in one file of the log: nearly all reads.

One call of a leaf operation chooses the records, checks and copies them. What it leaves is read by ``get``,
which has the table of results.
"""

from collections.abc import Container
from functools import lru_cache

import numpy as np

from cometmq import kernels
from cometmq.format.consume_queue_ext import ADDRESS_MAX
from cometmq.format.queue_entry import SIZE, unpack_tuples
from cometmq.format.scan import is_message
from cometmq.kernels.arrays import Longs
from cometmq.kernels.pulls import rows as r
from cometmq.kernels.pulls.rows import AnswerRoom, Choice, LogBytes, ReadOutcome
from cometmq.message import Buffer
from cometmq.store.files.residency import are_ready
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.read.get_result import GetResult, GetStatus
from cometmq.store.read.limits import GetLimits
from cometmq.store.read.log_bytes import NOWHERE, bytes_at, file_at
from cometmq.store.reading import ReadStep


class ResidentReads:
    """Reads of one log, within the same limits. For one thread.

    Args:
        copied_max: most bytes of records that are copied; more are given as views of the log's file.

    Attributes:
        log: the log.
        limits: most records and bytes of a read.
    """

    def __init__(
        self, commit_log: CommitLog, limits: GetLimits, copied_max: int = r.ANSWERS_SIZE_MAX
    ) -> None:
        self.log = commit_log
        self.limits = limits
        self._wanted = 0, 0  # most records and most bytes for which the bounds are
        bounds = limits.bounds(NOWHERE, 0, *self._wanted)
        self._room = AnswerRoom(np.empty(copied_max, np.uint8), limits.room(), bounds)
        self._record_bytes = self._room.data.data
        self._bounds = bounds.data  # numbers are written to a memoryview twice as fast as to an array

    def read(
        self,
        queue: ConsumeQueue,
        queue_offset: int,
        max_count: int,
        max_bytes: int,
        tags_codes: Container[int] | None,
    ) -> GetResult | ReadStep | None:
        """Read messages of one queue, which has one at ``queue_offset``: for all see ``get.get_messages``.

        Returns a step that loads the records if some are not in memory; None if another way of reading must
        be used.
        """
        log, limits, room, codes = self.log, self.limits, self._room, None
        chosen = room.chosen
        if tags_codes is not None:
            if not isinstance(tags_codes, frozenset) or not tags_codes:
                return None
            codes = _array_of(tags_codes)
        data = resident_entries(queue, queue_offset, limits, max_count, is_filtered=codes is not None)
        if not data:
            return None
        if len(data) == SIZE and (one := self._read_one(queue, queue_offset, data, tags_codes)) is not None:
            return one
        if (found := bytes_at(log, int.from_bytes(data[:8], "big"))) is None:
            return None
        mapped, file = found
        near_offset = log.written_offset - limits.memory_bytes
        self._set_bounds(file, near_offset, max_count, max_bytes)
        ops, entries = kernels.pulls_for(log.crc), np.frombuffer(bytes(data), np.uint8)
        choice = ops.choose(entries, codes, file, queue_offset, room)
        if choice.outcome is ReadOutcome.MISSING:
            missing = chosen[: choice.missing_count, r.MISSING_AT : r.MISSING_SIZE + 1]
            if not are_ready(mapped, *missing.T):
                stretches = list(map(tuple, missing.tolist()))
                return ReadStep(log.chain.files, log.chain.path(file.begin), stretches)
            choice = ops.choose(entries, codes, file, queue_offset, room)
        if choice.outcome is ReadOutcome.FOUND:
            status, runs = GetStatus.FOUND, self._runs(mapped.view, choice)
        elif choice.outcome is ReadOutcome.NONE_WANTED:
            status, runs = GetStatus.NO_MATCHED_MESSAGE, []
        else:
            return None
        sizes = chosen[: choice.record_count, r.RECORD_SIZE].tolist()
        where = queue_offset + choice.looked_at, queue.min_offset, queue.max_offset
        result = status, *where, runs, sizes, choice.last < near_offset, None
        return tuple.__new__(GetResult, result)  # in half the time of GetResult(…)

    def _runs(self, file: memoryview, choice: Choice) -> list[Buffer]:
        """Return the records of a choice: as one piece, unless there was no room to copy them."""
        if choice.size <= len(self._record_bytes):
            return [bytes(self._record_bytes[: choice.size])]
        runs = self._room.chosen[: choice.run_count, r.RUN_AT : r.RUN_SIZE + 1].tolist()
        return [file[place : place + size] for place, size in runs]

    def _read_one(
        self, queue: ConsumeQueue, queue_offset: int, entry: Buffer, tags_codes: Container[int] | None
    ) -> GetResult | None:
        """Read the record of one entry, in less time than a leaf operation's arguments take to make."""
        ((offset, size, code),) = unpack_tuples(entry)
        if code <= ADDRESS_MAX or not (tags_codes is None or code in tags_codes):
            return None
        log = self.log
        if (found := file_at(log, offset)) is None:
            return None
        mapped, begin, end = found
        at = offset - begin
        if offset + size > end or (record := mapped.ready(at, at + size)) is None:
            return None
        if not is_message(record, 0, size, offset, queue_offset, log.crc):
            return None
        is_far_behind = offset < log.written_offset - self.limits.memory_bytes
        return GetResult(
            GetStatus.FOUND,
            queue_offset + 1,
            queue.min_offset,
            queue.max_offset,
            [record],
            (size,),
            is_far_behind,
        )

    def _set_bounds(self, file: LogBytes, near_offset: int, max_count: int, max_bytes: int) -> None:
        """Set the bounds of a read of one file: see ``GetLimits.bounds``."""
        bounds = self._bounds
        if (max_count, max_bytes) != self._wanted:
            self._wanted = max_count, max_bytes
            bounds[:] = self.limits.bounds(file, 0, max_count, max_bytes).data
        bounds[r.FILE_BEGIN], bounds[r.FILE_END], bounds[r.NEAR_OFFSET] = file.begin, file.end, near_offset


@lru_cache(1024)
def _array_of(tags_codes: frozenset[int]) -> Longs:
    return np.array(list(tags_codes), np.int64)


def resident_entries(
    queue: ConsumeQueue, queue_offset: int, limits: GetLimits, max_count: int, *, is_filtered: bool
) -> Buffer | None:
    """Return the entries that a read has to examine; None if they are not in memory, or not in one file."""
    if not 0 < max_count <= limits.memory_count:
        max_count = min(max(max_count, 1), limits.most_count)
    wanted = max(limits.scan_count, max_count) if is_filtered else max_count
    next_file = next_queue_file(queue, queue_offset)
    if queue_offset + wanted > next_file:
        wanted = next_file - queue_offset
    return queue.resident_entries(queue_offset, wanted)


def next_queue_file(queue: ConsumeQueue, queue_offset: int) -> int:
    """Return the queue offset at which the queue's next file begins or its messages end."""
    per_file = queue.chain.file_size // SIZE
    return min(queue_offset - queue_offset % per_file + per_file, queue.max_offset)
