"""Checking the CommitLog: each record's head, lengths and CRC, its place, the blank at each file's end.

Where damage ends and the torn tail of a killed broker begins: a store that was closed has no torn tail;
otherwise the checkpoint says up to which store time the log was on the disk.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from cometmq.format import layout
from cometmq.format.record import (
    BODY_AT,
    MAGIC_AT,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    PHYSICAL_OFFSET_AT,
    START_SIZE,
)
from cometmq.format.scan import Stop, check
from cometmq.store.directory import REBUILD, StoreDirectory
from cometmq.store.finding import Finding, Severity
from cometmq.store.log_scan import Chunk, Damage, LogScan
from cometmq.store.seek import record_store_time
from cometmq.store.verify.findings import Findings

LOST = f"what is there is lost, the rest can be read; {REBUILD} if a queue or the index is damaged too"
BLOCK_BYTES = 4 * 1024 * 1024


class LogWalk:
    """Goes through all records of a store, file by file, over damage and over missing files.

    Attributes:
        messages: records so far.
        begin_offset: CommitLog offset of the first byte there is.
        end_offset: CommitLog offset behind the last record so far.
        last_time: its store time, ms.
        damaged: stretches of the log that are no records: CommitLog offsets of begin and end.
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
        """Give the records by chunks."""
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
                what = "no record begins here, nor behind it up to the missing file"
                self._report([Damage(self._chain.path(start), position, end - scan.end_offset, what)])
        self._check_blanks()

    def judge_end(self, claimed_end: int) -> None:
        """Tell what lies behind the last record.

        Args:
            claimed_end: behind the last record that the ConsumeQueues know.
        """
        end, chain = self.end_offset, self._chain
        behind = sum(self._data_behind(start) for start in chain.starts if start + chain.file_size > end)
        if not behind and claimed_end <= end:
            return
        start = chain.start_of(end)
        position = 0 if start is None else end - start
        path = chain.path(start if start is not None else end)
        claim = f", but the ConsumeQueues know records up to {claimed_end}" if claimed_end > end else ""
        what = f"the log can be read up to offset {end}{claim}"
        if (claim and self._store.was_closed) or self._is_vouched(start, position):
            reason = f" ({stop.detail})" if (stop := self._stop(start, position)) and stop.detail else ""
            self._findings.damage(path, position, behind or None, what + reason, LOST)
        elif self._store.was_closed:
            self._findings.add(
                Finding(Severity.NOTE, path, position, behind, "bytes that an earlier recovery left behind")
            )
        else:
            remedy = "the next start sets it aside and goes on from there"
            self._findings.add(
                Finding(Severity.RECOVERY, path, position, behind or None, what + ": a torn tail", remedy)
            )

    def _stretches(self) -> list[tuple[int, int]]:
        """Give the parts of the log without a file missing, as (begin, end)."""
        starts, size = self._chain.starts, self._chain.file_size
        breaks = [number for number, (a, b) in enumerate(pairwise(starts), 1) if b != a + size]
        return [
            (starts[first], starts[last - 1] + size)
            for first, last in pairwise([0, *breaks, len(starts)])
            if first < last
        ]

    def _report(self, damages: list[Damage]) -> None:
        """Report damages, and take them off the list."""
        for damage in damages:
            begin = layout.parse_offset_name(damage.path.name) + damage.position
            self.damaged.append((begin, begin + damage.size))
            self._findings.damage(damage.path, damage.position, damage.size, damage.reason, LOST)
        damages.clear()

    def _check_blanks(self) -> None:
        for start, position in self._ends.items():
            head = self._chain.file(start).read(position, START_SIZE)
            size, magic = int.from_bytes(head[:MAGIC_AT], "big"), int.from_bytes(head[MAGIC_AT:], "big")
            left = self._chain.file_size - position
            if magic == MAGIC_BLANK and size != left:
                what = f"the blank says {size} bytes, but {left} are left in the file"
                self._findings.damage(
                    self._chain.path(start), position, START_SIZE, what, "no message is lost"
                )

    def _data_behind(self, start: int) -> int:
        """Give how far data goes in a file behind the end of the log."""
        file, position = self._chain.file(start), max(self.end_offset - start, 0)
        return _data_size(file.view(), position, file.data_end(position))

    def _stop(self, start: int | None, position: int) -> Stop | None:
        """Say why no record can be read at a position."""
        if start is None:
            return None
        view, crc = self._chain.file(start).view(), self._store.log.crc
        found = check(view, position, self._chain.file_size, base_offset=start, crc=crc)
        return found if isinstance(found, Stop) else None

    def _is_vouched(self, start: int | None, position: int) -> bool:
        """Tell whether a record lies there that the checkpoint says was on the disk."""
        if start is None or self._store.checkpoint is None:
            return False
        head = self._chain.file(start).read(position, BODY_AT)
        magic = int.from_bytes(head[MAGIC_AT : MAGIC_AT + 4], "big")
        own_offset = int.from_bytes(head[PHYSICAL_OFFSET_AT : PHYSICAL_OFFSET_AT + 8], "big")
        if magic not in (MAGIC_V1, MAGIC_V2) or own_offset != start + position:
            return False
        return 0 < record_store_time(head) <= self._store.checkpoint.physic_msg_timestamp


def _data_size(view: memoryview, begin: int, end: int) -> int:
    """Give how far from ``begin`` the last byte other than 0 lies before ``end``."""
    for first in range(begin, end, BLOCK_BYTES)[::-1]:
        used = np.flatnonzero(np.frombuffer(view[first : min(first + BLOCK_BYTES, end)], np.uint8))
        if len(used):
            return first + int(used[-1]) + 1 - begin
    return 0
