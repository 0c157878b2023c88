"""Answering pulls that find records, many with one call of a kernel.

``get`` defines what a read gives. Here are those that nearly all are, as for ``UsualReads``: their entries
are at hand, their records lie sound in one file of the log, and in memory. Of the others nothing is said.
"""

from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from cometmq import kernels
from cometmq.format.checksum import Crc
from cometmq.format.queue_entry import SIZE
from cometmq.io.files import Mapped
from cometmq.kernels.ops import Bytes, Longs
from cometmq.kernels.pulls import (
    ANSWER_END,
    ANSWERS_SIZE_MAX,
    ASK_SIZE,
    COUNT,
    DONE,
    ELSEWHERE,
    ENTRIES_END,
    FULL,
    MAX_OFFSET,
    MIN_OFFSET,
    NEXT_OFFSET,
    NO_CODES,
    TOLD,
    UNUSUAL,
    Constants,
    PullOps,
)
from cometmq.message import Buffer
from cometmq.store.commit_log import CommitLog
from cometmq.store.get import entries_at_hand
from cometmq.store.limits import Limits
from cometmq.store.log_bytes import NOWHERE, LogBytes, bytes_at
from cometmq.store.queues import Queues
from cometmq.store.residency import are_ready

ADDED, AT_END, OUTSIDE = range(3)
"""What becomes of a read: it will be answered; it begins where its queue's messages end; or elsewhere, where
nothing is."""
NO_NUMBER: Final = 2**31
"""In place of a queue's number: no queue has it."""

_NOTHING: Final = np.empty(0, np.uint8)
_WORD: Final = np.dtype(">i4")
_WORDS: Final = SIZE // _WORD.itemsize
_SIZE_WORD: Final = 2
"""An entry's words: its record's offset in two, the record's size, and the tag's hash in two."""


class Answered(NamedTuple):
    """What came of a read.

    Attributes:
        found: how many records it gives; 0 if none is wanted; UNUSUAL if it is to be done the plain way.
        next_offset: queue offset to read from next; nothing of an unusual one.
        end: where its answer ends among all; it begins where that of the read before ends.
    """

    found: int
    next_offset: int
    min_offset: int
    max_offset: int
    end: int


class BulkReads:
    """Reads of one log, within the same limits. For one thread.

    Between ``begin`` and ``answer`` reads are added; answers stay until the next are made.

    Args:
        reads_later: whether what is appended can be read only some time later.
    """

    def __init__(self, commit_log: CommitLog, queues: Queues, limits: Limits, *, reads_later: bool) -> None:
        self._log = commit_log
        self._queues = queues
        self._limits = limits
        self._reads_later = reads_later
        room = max(limits.memory_count, limits.disk_count, TOLD)
        self._places, self._sizes, self._run_sizes, self._told = np.empty((4, room), np.int64)
        self._answers = _NOTHING
        self.begin()

    def ops(self) -> PullOps | None:
        """Give the kernels, None if they are not loaded or check less than this log asks for."""
        return kernels.current().pulls if self._log.crc is Crc.BODY else None

    def ends(self) -> Sequence[int]:
        """Give where the messages of queues end, by the queues' numbers; nothing where that is not sure."""
        return () if self._reads_later else self._queues.next_offsets.values

    def number_of(self, topic: str, queue_id: int) -> int:
        """Give the number of a queue, NO_NUMBER if it never had a message."""
        queue = self._queues.find(topic, queue_id)
        return NO_NUMBER if queue is None else queue.number

    def begin(self) -> None:
        """Begin with no reads."""
        self._asks = array("q")  # a row after the other
        self._entries: list[Buffer] = []
        self._entries_end = 0
        self._asked: tuple[Longs, Bytes] | None = None  # as rows, and all entries, once answers are made
        self._first = 0  # the first of them that has no answer yet

    def add(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int,
        max_bytes: int,
        codes_at: int,
        codes_end: int,
        number: int,
        is_binary: int,
    ) -> int:
        """Add a read, if anything is where it begins; tell so: see ``ADDED``.

        Args:
            max_count: at least 1; as for ``get``, like those before and behind it.
            codes_at: where the hashes of the wanted tags stand among all codes.
            codes_end: where they end; NO_CODES if any tag is wanted.
            number: by which the answer finds its request.
            is_binary: whether the answer has a ROCKETMQ header.
        """
        queue = self._queues.find(topic, queue_id)
        if queue is None or not queue.min_offset <= queue_offset < queue.max_offset:
            return AT_END if queue is not None and 0 < queue_offset == queue.max_offset else OUTSIDE
        is_filtered = codes_end != NO_CODES
        try:
            entries = entries_at_hand(queue, queue_offset, self._limits, max_count, is_filtered=is_filtered)
        except OSError:
            entries = None  # the plain way will say so
        if entries is not None and (max_bytes <= ANSWERS_SIZE_MAX or self._has_room(entries, max_bytes)):
            self._entries.append(entries)
            self._entries_end += len(entries)
        self._asks.extend(
            (
                *(number, is_binary, queue_offset, max_count, max_bytes, codes_at, codes_end),
                *(queue.min_offset, queue.max_offset, self._entries_end, 0, 0, 0),
            )
        )
        return ADDED

    def answer(self, ops: PullOps, constants: Constants, codes: Longs) -> list[Answered]:
        """Answer the reads that were added; if there is no room for all only the first, one at least.

        The others are answered when this is called again, which leaves no answer as it was.

        Args:
            codes: hashes of tags, those of each read side by side.
        """
        if not self._asks:
            return []
        if not len(self._answers):
            self._answers = np.empty(ANSWERS_SIZE_MAX, np.uint8)
        if self._asked is None:
            rows = np.frombuffer(self._asks, np.int64).reshape(-1, ASK_SIZE)
            self._asked = rows, np.frombuffer(b"".join(self._entries), np.uint8)
        (rows, entries), first = self._asked, self._first
        if len(entries):
            self._first = self._answer_rows(ops, constants, codes, rows, entries)
        else:
            rows[:, COUNT] = UNUSUAL
            self._first = len(rows)
        wanted = rows[first : self._first, (COUNT, NEXT_OFFSET, MIN_OFFSET, MAX_OFFSET, ANSWER_END)]
        return list(map(Answered._make, wanted.tolist()))

    def answers(self, begin: int, end: int) -> bytes:
        """Give a part of the answers."""
        return bytes(self._answers.data[begin:end])

    def _answer_rows(
        self, ops: PullOps, constants: Constants, codes: Longs, rows: Longs, entries: Bytes
    ) -> int:
        """Answer the rows from the first without an answer on, file by file; give up to where."""
        limits, log = self._limits, self._log
        given = (
            *constants,
            codes,
            self._places,
            self._sizes,
            self._run_sizes,
            self._told,
            self._answers,
            rows,
            entries,
            limits.memory_count,
            limits.memory_size,
            limits.disk_count,
            limits.disk_size,
            log.written_offset - limits.memory_bytes,
        )
        first, at, looked = self._first, 0, -1
        mapped, file = self._file_of(rows, entries, first) or (None, NOWHERE)
        while True:
            first, at, why = ops.answer(*given, *file, first, len(rows), at)
            if why == DONE or (why == FULL and at):
                return first
            if why == ELSEWHERE:
                if (opened := self._file_of(rows, entries, first)) is not None:
                    mapped, file = opened
                    continue
            elif why > FULL and looked != first:
                looked = first
                noted = why - FULL
                if mapped is not None and are_ready(mapped, self._places[:noted], self._sizes[:noted]):
                    continue
            first += 1  # it stays unusual

    def _file_of(self, rows: Longs, entries: Bytes, row: int) -> tuple[Mapped, LogBytes] | None:
        """Give the file of the log that the first record of a row, or of one behind it, lies in."""
        begin = int(rows[row - 1, ENTRIES_END]) if row else 0
        return bytes_at(self._log, int.from_bytes(entries[begin : begin + 8].tobytes(), "big"))

    def _has_room(self, entries: Buffer, max_bytes: int) -> bool:
        """Tell whether there is room for what entries stand for: else it would be worked through in vain."""
        if min(max_bytes, max(self._limits.memory_size, self._limits.disk_size)) <= ANSWERS_SIZE_MAX:
            return True
        return int(np.frombuffer(entries, _WORD)[_SIZE_WORD::_WORDS].sum()) <= ANSWERS_SIZE_MAX
