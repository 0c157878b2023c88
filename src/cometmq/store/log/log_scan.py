"""Scan the CommitLog in chunks, from an offset to its end, across files and past damage.

Recovery, rebuild, index and ``verify`` all use it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cometmq import kernels
from cometmq.format.checksum import Crc
from cometmq.format.record import BODY_AT, START_SIZE, RecordHead
from cometmq.format.scan import StopReason, check, find_next_record
from cometmq.io.files import File
from cometmq.kernels.arrays import Bytes
from cometmq.kernels.ops import Scan
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.log.seek import record_store_time
from cometmq.store.log.torn import cut_torn

CHUNK_BYTES = 32 * 1024 * 1024
"""Size of a chunk; larger than the largest record."""
NO_RECORD = "zeros where a record should be"


class Chunk(NamedTuple):
    """Adjacent records of one file.

    Attributes:
        buffer: uint8[n], bytes of the file that hold them.
        base_offset: CommitLog offset of the buffer's first byte.
        scan: the records' fields; positions are in ``buffer``.
    """

    buffer: Bytes
    base_offset: int
    scan: Scan

    @property
    def end_offset(self) -> int:
        """CommitLog offset behind the last record."""
        return self.base_offset + self.scan.stop_position


class LogDamage(NamedTuple):
    """A stretch of the log that holds no records.

    Attributes:
        position: of the first damaged byte in it.
        size: bytes up to the next valid record or the end.
        reason: the check that the first record failed.
    """

    path: Path
    position: int
    size: int
    reason: str


class LogScan:
    """Scans the log from ``begin``; iterate over it to get the chunks.

    A damaged stretch is skipped if valid records follow that were stored no earlier than the one before it
    (records of the file's previous use are older) and no later than ``vouched_time``. Otherwise the log ends
    there: its tail is torn.

    Args:
        begin: CommitLog offset of a record.
        end: CommitLog offset to stop at; None for the end of the files.
        vouched_time: store time, ms, up to which the log is known to have been on the disk.
        verify_crc: whether to compare checksums.

    Attributes:
        end_offset: CommitLog offset behind the last valid record so far.
        last_time: store time of that record, ms.
        damages: the stretches skipped so far.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        begin: int,
        end: int | None = None,
        *,
        vouched_time: int = 2**63 - 1,
        verify_crc: bool = True,
    ) -> None:
        self.end_offset = begin
        self.last_time = 0
        self.damages: list[LogDamage] = []
        self._chain = commit_log.chain
        self._end = commit_log.chain.end_offset if end is None else end
        self._vouched_time = vouched_time
        self._crc = commit_log.crc
        self._verify_crc = verify_crc

    def __iter__(self) -> Iterator[Chunk]:
        """Iterate over the chunks."""
        offset, crc = self.end_offset, self._crc if self._verify_crc else Crc.NONE
        while offset < self._end and (start := self._chain.start_of(offset)) is not None:
            with self._chain.held(start) as file:  # this may run in a thread
                buffer = np.frombuffer(file.view(), np.uint8)
            limit = min(start + self._chain.file_size, self._end) - start
            chunk = slice(offset - start, min(offset - start + CHUNK_BYTES, limit))
            scan = kernels.loading.ops.scan(
                buffer, base_offset=start, start=chunk.start, end=chunk.stop, crc=crc
            )
            scan = cut_torn(buffer, scan, self._vouched_time)
            if scan.count:
                self.end_offset = start + scan.stop_position
                self.last_time = int(scan.store_time[-1])
                yield Chunk(buffer, start, scan)
            following = self._next_offset(start, scan, chunk)
            if following is None:
                return
            offset = following

    def _next_offset(self, start: int, scan: Scan, chunk: slice) -> int | None:
        """Return the offset at which the scan continues; None at the end of the log."""
        at = scan.stop_position
        if scan.stop_reason is StopReason.BLANK:
            self.end_offset = start + self._chain.file_size
            return self.end_offset
        cut = scan.stop_reason is StopReason.LIMIT or chunk.stop - at < START_SIZE
        whole = start + chunk.stop >= min(start + self._chain.file_size, self._end)
        if at == chunk.stop or (cut and not whole and at > chunk.start):
            return start + at  # only the chunk ended
        return self._skip_damage(self._chain.file(start), start, at)

    def _skip_damage(self, file: File, start: int, position: int) -> int | None:
        """Find the next valid record behind ``position``, in this file or at the beginning of the next."""
        data_end = file.data_end(position)
        view = file.view()
        found = find_next_record(view, position + 1, base_offset=start, end=data_end, crc=self._crc)
        if found is not None and self._is_current(view, found):
            self._report(file, start, position, found)
            return start + found
        following = self._chain.start_of(start + self._chain.file_size)
        if following is None or following >= self._end:
            return None
        view = self._chain.file(following).view()
        whole = isinstance(check(view, 0, len(view), base_offset=following, crc=self._crc), RecordHead)
        if whole and self._is_current(view, 0):
            self._report(file, start, position, self._chain.file_size)
            return following
        return None

    def _is_current(self, view: memoryview, position: int) -> bool:
        time = record_store_time(bytes(view[position : position + BODY_AT]))
        return self.last_time <= time <= self._vouched_time

    def _report(self, file: File, start: int, position: int, end: int) -> None:
        stop = check(file.view(), position, self._chain.file_size, base_offset=start, crc=self._crc)
        reason = getattr(stop, "detail", "") or NO_RECORD
        self.damages.append(LogDamage(file.path, position, end - position, reason))
