"""Check the CommitLog: each record's head, lengths, CRC and place, and the blank at each file's end.

The torn tail of a killed broker is no damage: a closed store has none; otherwise the checkpoint has the store
time up to which the log was on the disk.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import numpy as np

from cometmq.format import layout, record
from cometmq.format.scan import Stop, check
from cometmq.store.directory import REBUILD, StoreDirectory
from cometmq.store.files.finding import Finding, Severity
from cometmq.store.log.log_scan import Chunk, LogDamage, LogScan
from cometmq.store.log.seek import record_store_time
from cometmq.store.verify.findings import Findings

LOST = f"these bytes are lost, the rest can be read; {REBUILD} if a queue or the index is damaged too"
TO_MISSING_FILE = "no record begins here, nor behind it up to the missing file"
BLOCK_BYTES = 4 * 1024 * 1024


class LogExtent(Protocol):
    """The extent of a log, as far as it was scanned."""

    @property
    def begin_offset(self) -> int:
        """CommitLog offset of the first file's first byte."""
        ...

    @property
    def end_offset(self) -> int:
        """CommitLog offset behind the last record."""
        ...

    @property
    def damaged(self) -> list[tuple[int, int]]:
        """Stretches that hold no records, as CommitLog offsets (begin, end)."""
        ...


class LogWalk:
    """Scans all records of a store, file by file, past damage and missing files.

    Attributes:
        messages: records so far.
        begin_offset: CommitLog offset of the first file's first byte.
        end_offset: CommitLog offset behind the last record so far.
        last_time: store time of that record, ms.
        damaged: stretches that hold no records, as CommitLog offsets (begin, end).
    """

    def __init__(self, store: StoreDirectory, findings: Findings) -> None:
        self.messages = 0
        self.begin_offset = self.end_offset = store.log.min_offset
        self.last_time = 0
        self.damaged: list[tuple[int, int]] = []
        self._store = store
        self._chain = store.log.chain
        self._findings = findings
        self._ends: dict[int, int] = {}  # by file: position behind its last record

    def __iter__(self) -> Iterator[Chunk]:
        """Iterate over the chunks of records."""
        stretches = self._stretches()
        for begin, end in stretches:
            scan = LogScan(self._store.log, begin, end, vouched_time=self._store.vouched_time)
            for chunk in scan:
                self._report(scan.damages)
                self.messages += chunk.scan.count
                self._ends[chunk.base_offset] = chunk.scan.stop_position
                self.end_offset = chunk.end_offset
                yield chunk
            self._report(scan.damages)
            self.end_offset = scan.end_offset
            self.last_time = max(self.last_time, scan.last_time)
            if (begin, end) != stretches[-1] and scan.end_offset < end:
                start = self._chain.start_of(scan.end_offset)
                assert start is not None
                position = scan.end_offset - start
                path = self._chain.path(start)
                self._report([LogDamage(path, position, end - scan.end_offset, TO_MISSING_FILE)])
        self._check_blanks()

    def check_end(self, claimed_end: int) -> None:
        """Report what is wrong behind the last record, after the walk.

        Args:
            claimed_end: CommitLog offset behind the last record that the ConsumeQueues have entries of.
        """
        chain, end = self._chain, self.end_offset
        behind = sum(self._data_behind(start) for start in chain.starts if start + chain.file_size > end)
        found = check_end(self._store, end, claimed_end, behind, self._why_not)
        if found is not None:
            self._findings.add(found)

    def _stretches(self) -> list[tuple[int, int]]:
        """Return the parts of the log without missing files, as CommitLog offsets (begin, end)."""
        starts, size = self._chain.starts, self._chain.file_size
        breaks = [number for number, (a, b) in enumerate(pairwise(starts), 1) if b != a + size]
        return [
            (starts[first], starts[last - 1] + size)
            for first, last in pairwise([0, *breaks, len(starts)])
            if first < last
        ]

    def _report(self, damages: list[LogDamage]) -> None:
        """Report damages, and clear the list."""
        for damage in damages:
            begin = layout.parse_offset_name(damage.path.name) + damage.position
            self.damaged.append((begin, begin + damage.size))
            self._findings.damage(damage.path, damage.position, damage.size, damage.reason, LOST)
        damages.clear()

    def _check_blanks(self) -> None:
        """Report blanks that do not reach to the ends of their files."""
        for start, position in self._ends.items():
            head = self._chain.file(start).read(position, record.START_SIZE)
            size, magic = (
                int.from_bytes(head[: record.MAGIC_AT], "big"),
                int.from_bytes(head[record.MAGIC_AT :], "big"),
            )
            left = self._chain.file_size - position
            if magic == record.MAGIC_BLANK and size != left:
                self._findings.add(wrong_blank(self._chain.path(start), position, size, left))

    def _data_behind(self, start: int) -> int:
        """Return the size of the data in a file behind the end of the log, in bytes."""
        file, position = self._chain.file(start), max(self.end_offset - start, 0)
        return _data_size(file.view(), position, file.data_end(position))

    def _why_not(self, start: int, position: int) -> str:
        """Return why no record can be read at a position of a file; empty if one can."""
        view, crc = self._chain.file(start).view(), self._store.log.crc
        found = check(view, position, self._chain.file_size, base_offset=start, crc=crc)
        return found.detail if isinstance(found, Stop) else ""


def check_end(
    store: StoreDirectory, end: int, claimed_end: int, behind: int, why_not: Callable[[int, int], str]
) -> Finding | None:
    """Check the bytes behind the last record: damage, a torn tail, or remains of an earlier recovery.

    Args:
        end: CommitLog offset behind the last readable record.
        claimed_end: CommitLog offset behind the last record that the ConsumeQueues have entries of.
        behind: bytes of data behind ``end``.
        why_not: returns why no record can be read at a position of the file that begins at an offset.
    """
    if not behind and claimed_end <= end:
        return None
    chain = store.log.chain
    start = chain.start_of(end)
    position = 0 if start is None else end - start
    path = chain.path(start if start is not None else end)
    claim = f", but the ConsumeQueues know records up to {claimed_end}" if claimed_end > end else ""
    what = f"the log can be read up to offset {end}{claim}"
    if (claim and store.was_closed) or _is_vouched(store, start, position):
        reason = "" if start is None else why_not(start, position)
        what += f" ({reason})" if reason else ""
        return Finding(Severity.DAMAGE, path, position, behind or None, what, LOST)
    if store.was_closed:
        return Finding(Severity.NOTE, path, position, behind, "bytes that an earlier recovery left behind")
    remedy = "the next start sets it aside and goes on from there"
    return Finding(Severity.RECOVERY, path, position, behind or None, what + ": a torn tail", remedy)


def wrong_blank(path: Path, position: int, size: int, left: int) -> Finding:
    """Return the finding of a blank of ``size`` bytes where the file has ``left`` bytes left."""
    what = f"the blank says {size} bytes, but {left} are left in the file"
    return Finding(Severity.DAMAGE, path, position, record.START_SIZE, what, "no message is lost")


def _is_vouched(store: StoreDirectory, start: int | None, position: int) -> bool:
    """Check whether a record at a position, damaged or not, was on the disk by the checkpoint."""
    if start is None or store.checkpoint is None:
        return False
    head = store.log.chain.file(start).read(position, record.BODY_AT)
    magic = int.from_bytes(head[record.MAGIC_AT : record.START_SIZE], "big")
    own_offset = int.from_bytes(head[record.PHYSICAL_OFFSET_AT : record.SYS_FLAG_AT], "big")
    if magic not in (record.MAGIC_V1, record.MAGIC_V2) or own_offset != start + position:
        return False
    return 0 < record_store_time(head) <= store.checkpoint.physic_msg_timestamp


def _data_size(view: memoryview, begin: int, end: int) -> int:
    """Return the number of bytes from ``begin`` to the last non-zero byte before ``end``."""
    for first in range(begin, end, BLOCK_BYTES)[::-1]:
        used = np.flatnonzero(np.frombuffer(view[first : min(first + BLOCK_BYTES, end)], np.uint8))
        if len(used):
            return first + int(used[-1]) + 1 - begin
    return 0
