"""The reads that nearly all are, in one go: of records that lie sound in one file of the log, and in memory.

``get`` defines what a read gives, and does all others. A consumer that has caught up asks for one message and
then for the next; one that is behind asks for as many as it may have, scattered over the log or side by side.
"""

from collections.abc import Container
from functools import lru_cache
from typing import Final

import numpy as np

from cometmq import kernels
from cometmq.format.checksum import Crc
from cometmq.format.consume_queue_ext import ADDRESS_MAX
from cometmq.format.queue_entry import SIZE, unpack_tuples
from cometmq.format.record import QUEUE_OFFSET_AT
from cometmq.io.files import FileMap
from cometmq.kernels.ops import Longs
from cometmq.kernels.pulls import OUTCOME_SIZE, UNUSUAL, PullOps
from cometmq.message import Buffer
from cometmq.store.commit_log import RECORD_START_SIZE, CommitLog, size_of_record
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.get_result import GetResult, GetStatus
from cometmq.store.limits import Limits
from cometmq.store.read_check import is_message
from cometmq.store.reading import Bytes
from cometmq.store.residency import are_ready

_ANY: Final = np.empty(0, np.int64)


class UsualReads:
    """Reads of one log, within the same limits. For one thread.

    Attributes:
        missing: set by a read that would be usual if this were in memory.
    """

    def __init__(self, commit_log: CommitLog, limits: Limits) -> None:
        self.missing: Bytes | None = None
        self._log = commit_log
        self._limits = limits
        room = max(limits.memory_count, limits.disk_count, OUTCOME_SIZE)
        self._places, self._sizes, self._run_sizes, self._told = np.empty((4, room), np.int64)

    def read(
        self,
        queue: ConsumeQueue,
        queue_offset: int,
        entries: Buffer,
        max_count: int,
        max_bytes: int,
        tags_codes: Container[int] | None,
    ) -> GetResult | None:
        """Read messages by their entries: see ``get.get_messages``. None if anything is unusual."""
        offset = int.from_bytes(entries[:8], "big")
        stretch = self._log.stretch(offset)
        if stretch is None:
            return None
        begin, end = stretch
        mapped = self._log.chain.file(begin).mapped()
        if mapped is None:
            return None
        if len(entries) > SIZE:
            ops = kernels.current().pulls
            if ops is None or self._log.crc is not Crc.BODY:
                return None
            return self._read_many(
                ops, mapped, stretch, queue, queue_offset, entries, max_count, max_bytes, tags_codes
            )
        ((_, size, code),) = unpack_tuples(entries)
        if code <= ADDRESS_MAX or not (tags_codes is None or code in tags_codes) or offset + size > end:
            return None
        data = mapped.ready(offset - begin, offset - begin + size)
        if data is None or not is_message(record := bytes(data), offset, queue_offset, self._log.crc):
            return None
        return GetResult(
            GetStatus.FOUND,
            queue_offset + 1,
            queue.min_offset,
            queue.max_offset,
            [record],
            (size,),
            offset < self._log.written_offset - self._limits.memory_bytes,
        )

    def record(self, physical_offset: int) -> bytes | None:
        """Read the record that begins at a CommitLog offset; None if anything is unusual."""
        stretch = self._log.stretch(physical_offset)
        if stretch is None:
            return None
        begin, end = stretch
        mapped, at = self._log.chain.file(begin).mapped(), physical_offset - begin
        if mapped is None or (head := mapped.ready(at, at + RECORD_START_SIZE)) is None:
            return None
        size = size_of_record(head, physical_offset)
        if size is None or physical_offset + size > end or (data := mapped.ready(at, at + size)) is None:
            return None
        record = bytes(data)
        queue_offset = int.from_bytes(record[QUEUE_OFFSET_AT : QUEUE_OFFSET_AT + 8], "big")
        return record if is_message(record, physical_offset, queue_offset, self._log.crc) else None

    def _read_many(
        self,
        ops: PullOps,
        mapped: FileMap,
        stretch: tuple[int, int],
        queue: ConsumeQueue,
        queue_offset: int,
        entries: Buffer,
        max_count: int,
        max_bytes: int,
        tags_codes: Container[int] | None,
    ) -> GetResult | None:
        if tags_codes is not None and (not isinstance(tags_codes, frozenset) or not tags_codes):
            return None
        limits, begin = self._limits, stretch[0]
        near_offset = self._log.written_offset - limits.memory_bytes
        given = (
            np.frombuffer(bytearray(entries), np.uint8),
            _ANY if tags_codes is None else _array_of(tags_codes),
            tags_codes is not None,
            np.frombuffer(mapped.view, np.uint8),
            np.frombuffer(mapped.resident, np.uint8),
            *stretch,
            queue_offset,
            near_offset,
            min(max_count, limits.memory_count),
            min(max_bytes, limits.memory_size),
            min(max_count, limits.disk_count),
            min(max_bytes, limits.disk_size),
            self._places,
            self._sizes,
            self._run_sizes,
            self._told,
        )
        count = ops.choose(*given)
        if count < UNUSUAL:
            missing = UNUSUAL - count
            places, sizes = self._places[:missing], self._sizes[:missing]
            if are_ready(mapped, places, sizes):
                count = ops.choose(*given)
            else:
                self.missing = self._bytes(begin, places, sizes)
        if count < 0:
            return None
        looked_at, last, run_count = self._told[:OUTCOME_SIZE].tolist()
        places, sizes = self._places[:run_count].tolist(), self._run_sizes[:run_count].tolist()
        view = mapped.view
        runs: list[Buffer] = [view[place : place + size] for place, size in zip(places, sizes, strict=True)]
        return GetResult(
            GetStatus.FOUND if count else GetStatus.NO_MATCHED_MESSAGE,
            queue_offset + looked_at,
            queue.min_offset,
            queue.max_offset,
            runs,
            self._sizes[:count].tolist(),
            last < near_offset,
        )

    def _bytes(self, start: int, places: Longs, sizes: Longs) -> Bytes:
        """Give the step that brings records into memory, of the file of the log that begins at ``start``."""
        chain = self._log.chain
        return Bytes(chain.files, chain.path(start), list(zip(places.tolist(), sizes.tolist(), strict=True)))


@lru_cache(1024)
def _array_of(tags_codes: frozenset[int]) -> Longs:
    return np.array(list(tags_codes), np.int64)
