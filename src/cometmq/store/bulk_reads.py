"""Answering pulls that find records, many with one call of a kernel.

``get`` defines what a read gives. Here are those that nearly all are, as for ``UsualReads``: their entries
are at hand, their records lie sound in one file of the log, and in memory. Of the others nothing is said.
"""

from array import array
from typing import Final, NamedTuple

import numpy as np

from cometmq import kernels
from cometmq.format.checksum import Crc
from cometmq.format.queue_entry import SIZE
from cometmq.io.files import FileMap
from cometmq.kernels.ops import Bytes, Longs
from cometmq.kernels.pulls import (
    ADDED,
    ANSWERS_SIZE_MAX,
    ASK_SIZE,
    AT_END,
    COUNT,
    DONE,
    ELSEWHERE,
    ENTRIES_END,
    FULL,
    NO_CODES,
    NO_LIMIT,
    NO_NUMBER,
    OUTCOME_SIZE,
    OUTSIDE,
    PULLS_MAX,
    UNUSUAL,
    PullConstants,
    PullOps,
)
from cometmq.message import Buffer
from cometmq.store.commit_log import CommitLog
from cometmq.store.get import entries_at_hand
from cometmq.store.limits import Limits
from cometmq.store.log_bytes import NOWHERE, LogBytes, bytes_at
from cometmq.store.queues import Queues
from cometmq.store.residency import are_ready

_NOTHING: Final = np.empty(0, np.uint8)
_WORD: Final = np.dtype(">i4")
_WORDS: Final = SIZE // _WORD.itemsize
_ASKS_ROOM: Final = 2 * PULLS_MAX
_ENTRIES_ROOM: Final = 1 << 17
_SIZE_WORD: Final = 2
"""An entry's words: its record's offset in two, the record's size, and the tag's hash in two."""


class Answered(NamedTuple):
    """What came of a read.

    These are the last numbers of what was asked: see ``kernels.pulls``.

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
        room = max(limits.memory_count, limits.disk_count, OUTCOME_SIZE)
        self._places, self._sizes, self._run_sizes, self._told = np.empty((4, room), np.int64)
        self._answers = _NOTHING
        most_size = max(limits.memory_size, limits.disk_size)
        self._usual_bytes_max = NO_LIMIT if most_size <= ANSWERS_SIZE_MAX else ANSWERS_SIZE_MAX
        self._asks = array("q")
        self._make_room(_ASKS_ROOM)
        self._entries: Bytes = np.empty(_ENTRIES_ROOM, np.uint8)
        self.begin()

    def ops(self) -> PullOps | None:
        """Give the kernels, None if they are not loaded or check less than this log asks for."""
        return kernels.current().pulls if self._log.crc is Crc.BODY else None

    def number_of(self, topic: str, queue_id: int) -> int:
        """Give the number of a queue, NO_NUMBER if it never had a message."""
        queue = self._queues.find(topic, queue_id)
        return NO_NUMBER if queue is None else queue.number

    def begin(self) -> None:
        """Begin with no reads."""
        self._asked = 0  # so many reads were added
        self._entries_end = 0
        self._first = 0  # the first of them that has no answer yet

    def add_known(
        self, ops: PullOps, pulls: Longs, begin: int, count: int, targets: Longs, bytes_min: int
    ) -> int:
        """Add the reads of pulls from row ``begin`` on, up to the first whose queue's entries are not known.

        Gives which one that is, ``count`` if none. See ``PullOps.ask_known``.
        """
        if self._reads_later:
            return begin
        ahead = self._queues.ahead
        done, self._asked, self._entries_end = ops.ask_known(
            *(pulls, begin, count, targets, self._queues.next_offsets.longs, ahead.windows, ahead.entries),
            *(self._ask_rows, self._asked, self._entries, self._entries_end),
            *(self._limits.most_count, bytes_min, self._usual_bytes_max),
        )
        return done

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
            self._put_entries(entries)
        if self._asked == len(self._ask_rows):
            self._make_room(2 * self._asked)
        at = self._asked * ASK_SIZE
        self._asks[at : at + ASK_SIZE] = array(
            "q",
            (
                *(number, is_binary, queue_offset, max_count, max_bytes, codes_at, codes_end),
                *(self._entries_end, 0, 0, queue.min_offset, queue.max_offset, 0),
            ),
        )
        self._asked += 1
        return ADDED

    def answer(self, ops: PullOps, constants: PullConstants, codes: Longs) -> list[Answered]:
        """Answer the reads that were added; if there is no room for all only the first, one at least.

        The others are answered when this is called again, which leaves no answer as it was.

        Args:
            codes: hashes of tags, those of each read side by side.
        """
        if not self._asked:
            return []
        if not len(self._answers):
            self._answers = np.empty(ANSWERS_SIZE_MAX, np.uint8)
        rows, first = self._ask_rows[: self._asked], self._first
        if self._entries_end:
            self._first = self._answer_rows(ops, constants, codes, rows, self._entries)
        else:
            rows[:, COUNT] = UNUSUAL
            self._first = len(rows)
        return list(map(Answered._make, rows[first : self._first, COUNT:].tolist()))

    def answers(self, begin: int, end: int) -> bytes:
        """Give a part of the answers."""
        return bytes(self._answers.data[begin:end])

    def _put_entries(self, entries: Buffer) -> None:
        begin, self._entries_end = self._entries_end, self._entries_end + len(entries)
        if self._entries_end > len(self._entries):
            longer = np.empty(2 * self._entries_end, np.uint8)
            longer[:begin] = self._entries[:begin]
            self._entries = longer
        self._entries.data[begin : self._entries_end] = entries

    def _make_room(self, count: int) -> None:
        """Have room to add so many reads."""
        self._asks = self._asks + array("q", bytes(8 * (count * ASK_SIZE - len(self._asks))))
        self._ask_rows: Longs = np.frombuffer(self._asks, np.int64).reshape(-1, ASK_SIZE)

    def _answer_rows(
        self, ops: PullOps, constants: PullConstants, codes: Longs, rows: Longs, entries: Bytes
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

    def _file_of(self, rows: Longs, entries: Bytes, row: int) -> tuple[FileMap, LogBytes] | None:
        """Give the file of the log that the first record of a row, or of one behind it, lies in."""
        begin = int(rows[row - 1, ENTRIES_END]) if row else 0
        return bytes_at(self._log, int.from_bytes(entries[begin : begin + 8].tobytes(), "big"))

    def _has_room(self, entries: Buffer, max_bytes: int) -> bool:
        """Tell whether there is room for what entries stand for: else it would be worked through in vain."""
        if min(max_bytes, max(self._limits.memory_size, self._limits.disk_size)) <= ANSWERS_SIZE_MAX:
            return True
        return int(np.frombuffer(entries, _WORD)[_SIZE_WORD::_WORDS].sum()) <= ANSWERS_SIZE_MAX
