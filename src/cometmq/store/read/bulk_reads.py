"""Reads of queues, many at a time: asked as rows, and answered by the leaf operations on pulls.

``get`` defines what a read gives. Here are those that nearly all are: their entries are at hand, their
records lie sound in one file of the log, and in memory. The others are left to it.
"""

from array import array
from typing import Final, NamedTuple

import numpy as np

from cometmq import kernels
from cometmq.format.queue_entry import SIZE
from cometmq.io.files import FileMap
from cometmq.kernels.ops import Bytes, Longs
from cometmq.kernels.pulls.rows import (
    ANSWERS_SIZE_MAX,
    ASK_SIZE,
    ENTRIES_END,
    FILE_BEGIN,
    FILE_END,
    MISSING_AT,
    MISSING_SIZE,
    NEAR_OFFSET,
    NO_CODES,
    NO_LIMIT,
    NO_NUMBER,
    NO_TAGS,
    OUTCOME,
    PULLS_MAX,
    AnswerRoom,
    AnswerStop,
    Asks,
    Constants,
    KnownEntries,
    LogBytes,
    PullOps,
    PullState,
    ReadOutcome,
)
from cometmq.message import Buffer
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.queue.queues import Queues
from cometmq.store.read.get import entries_at_hand
from cometmq.store.read.limits import GetLimits
from cometmq.store.read.log_bytes import NOWHERE, bytes_at
from cometmq.store.read.residency import are_ready

BYTES_MIN: Final = 100
"""A read asks for so many bytes at least."""
FILTERS_MAX: Final = 10_000
"""Of so many filters the hashes of tags are kept together."""

_WORD: Final = np.dtype(">i4")
_WORDS: Final = SIZE // _WORD.itemsize
_ASKS_ROOM: Final = 2 * PULLS_MAX
_ENTRIES_ROOM: Final = 1 << 17
_SIZE_WORD: Final = 2
"""An entry's words: its record's offset in two, the record's size, and the tag's hash in two."""
_ANY: Final = 0, NO_CODES


class Answered(NamedTuple):
    """What came of a read: the last numbers of what was asked, see ``kernels.pulls.rows``.

    Attributes:
        outcome: a ``ReadOutcome``; of one that is LEFT the other numbers say nothing, but for ``end``.
        record_count: how many records it gives.
        next_offset: queue offset to read from next.
        end: where its answer ends among all; it begins where that of the read before ends.
    """

    outcome: int
    record_count: int
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

    def __init__(
        self, commit_log: CommitLog, queues: Queues, limits: GetLimits, *, reads_later: bool
    ) -> None:
        self._log = commit_log
        self._queues = queues
        self._limits = limits
        self._reads_later = reads_later
        self._numbers = limits.numbers(NOWHERE, 0, NO_LIMIT, NO_LIMIT)
        most_size = max(limits.memory_size, limits.disk_size)
        bytes_max = NO_LIMIT if most_size <= ANSWERS_SIZE_MAX else ANSWERS_SIZE_MAX
        self._ask_limits = np.array((limits.most_count, BYTES_MIN, bytes_max), np.int64)
        self._chosen = limits.room()
        self._answers: Bytes = np.empty(0, np.uint8)
        self._numbers_asked = array("q")
        self._asks = Asks(np.empty((0, ASK_SIZE), np.int64), np.empty(_ENTRIES_ROOM, np.uint8))
        self._make_room(_ASKS_ROOM)
        self._code_places: dict[frozenset[int], tuple[int, int]] = {}
        self.begin()

    def number_of(self, topic: str, queue_id: int) -> int:
        """Return the number of a queue, NO_NUMBER if it never had a message."""
        queue = self._queues.find(topic, queue_id)
        return NO_NUMBER if queue is None else queue.number

    def begin(self) -> PullOps:
        """Begin with no reads; returns the leaf operations that serve until this is called again."""
        self._asks.asked = self._asks.entries_end = 0
        self._first = 0  # the first read that has no answer yet
        if len(self._code_places) >= FILTERS_MAX:
            self._asks.codes, self._code_places = NO_TAGS, {}
        self._ops = kernels.pulls_for(self._log.crc)
        return self._ops

    def add_known(self, pulls: Longs, begin: int, targets: Longs) -> int:
        """Add the reads of pulls from row ``begin`` on, up to the first whose queue's entries are not known.

        Returns which one that is, how many there are if none: see ``PullOps.ask_known``.
        """
        if self._reads_later:
            return begin
        ahead = self._queues.ahead
        known = KnownEntries(self._queues.next_offsets.longs, ahead.windows, ahead.entries)
        return self._ops.ask_known(pulls, begin, targets, known, self._asks, self._ask_limits)

    def add(
        self,
        queue_key: tuple[str, int],
        queue_offset: int,
        max_count: int,
        max_bytes: int,
        tags_codes: frozenset[int] | None,
        number: int,
        is_binary: int,
    ) -> PullState:
        """Add a read, if anything is where it begins; returns whether it is ASKED, AT_END or OUTSIDE.

        Args:
            queue_key: topic and id of the queue.
            max_count: at least 1; as for ``get``, like those before and behind it.
            tags_codes: hashes of the wanted tags; None for any.
            number: the opaque one, by which the answer finds its request.
            is_binary: whether the answer has a ROCKETMQ header.
        """
        queue = self._queues.find(*queue_key)
        if queue is None or not queue.min_offset <= queue_offset < queue.max_offset:
            is_at_end = queue is not None and 0 < queue_offset == queue.max_offset
            return PullState.AT_END if is_at_end else PullState.OUTSIDE
        is_filtered = tags_codes is not None
        try:
            entries = entries_at_hand(queue, queue_offset, self._limits, max_count, is_filtered=is_filtered)
        except OSError:
            entries = None  # the reading will say so
        if entries is not None and (max_bytes <= ANSWERS_SIZE_MAX or self._has_room(entries, max_bytes)):
            self._put_entries(entries)
        asks = self._asks
        if asks.asked == len(asks.rows):
            self._make_room(2 * asks.asked)
        at = asks.asked * ASK_SIZE
        codes = _ANY if tags_codes is None else self._place_of(tags_codes)
        self._numbers_asked[at : at + ASK_SIZE] = array(
            "q",
            (
                *(number, is_binary, queue_offset, max_count, max_bytes, *codes, asks.entries_end),
                *(ReadOutcome.LEFT, 0, 0, queue.min_offset, queue.max_offset, 0),
            ),
        )
        asks.asked += 1
        return PullState.ASKED

    def answer(self, constants: Constants) -> list[Answered]:
        """Answer the reads that were added; if there is no room for all only the first, one at least.

        The others are answered when this is called again, which leaves no answer as it was.
        """
        asks, first = self._asks, self._first
        if not asks.asked:
            return []
        if not len(self._answers):
            self._answers = np.empty(ANSWERS_SIZE_MAX, np.uint8)
        if asks.entries_end:
            self._first = self._answer_rows(AnswerRoom(self._answers, constants, self._chosen))
        else:
            self._first = asks.asked  # all stay LEFT
        return list(map(Answered._make, asks.rows[first : self._first, OUTCOME:].tolist()))

    @property
    def are_all_answered(self) -> bool:
        """Whether no read that was added lacks an answer."""
        return self._first == self._asks.asked

    def answers(self, begin: int, end: int) -> bytes:
        """Return a part of the answers."""
        return bytes(self._answers.data[begin:end])

    def _place_of(self, tags_codes: frozenset[int]) -> tuple[int, int]:
        """Return where hashes of tags stand; they are put there if need be."""
        place = self._code_places.get(tags_codes)
        if place is None:
            asks = self._asks
            begin = len(asks.codes)
            asks.codes = np.append(asks.codes, np.array(sorted(tags_codes), np.int64))
            place = self._code_places[tags_codes] = begin, len(asks.codes)
        return place

    def _put_entries(self, entries: Buffer) -> None:
        asks = self._asks
        begin, asks.entries_end = asks.entries_end, asks.entries_end + len(entries)
        if asks.entries_end > len(asks.entries):
            longer = np.empty(2 * asks.entries_end, np.uint8)
            longer[:begin] = asks.entries[:begin]
            asks.entries = longer
        asks.entries.data[begin : asks.entries_end] = entries

    def _make_room(self, count: int) -> None:
        """Have room to add so many reads."""
        more = count * ASK_SIZE - len(self._numbers_asked)
        self._numbers_asked = self._numbers_asked + array("q", bytes(8 * more))
        self._asks.rows = np.frombuffer(self._numbers_asked, np.int64).reshape(-1, ASK_SIZE)

    def _answer_rows(self, room: AnswerRoom) -> int:
        """Answer the rows from the first without an answer on, file by file; returns up to where."""
        first, at, looked = self._first, 0, -1
        mapped, file = self._file_of(first) or (None, NOWHERE)
        self._bound_by(file)
        while True:
            first, at, stop, missing_count = self._ops.answer(
                self._asks, room, file, self._numbers, first, at
            )
            if stop is AnswerStop.DONE or (stop is AnswerStop.FULL and at):
                return first
            if stop is AnswerStop.ELSEWHERE:
                if (opened := self._file_of(first)) is not None:
                    mapped, file = opened
                    self._bound_by(file)
                    continue
            elif stop is AnswerStop.MISSING and looked != first:
                looked = first
                places, sizes = self._chosen[MISSING_AT : MISSING_SIZE + 1, :missing_count]
                if mapped is not None and are_ready(mapped, places, sizes):
                    continue
            first += 1  # it stays LEFT

    def _file_of(self, row: int) -> tuple[FileMap, LogBytes] | None:
        """Return the file of the log that the first record of a row, or of one behind it, lies in."""
        begin = int(self._asks.rows[row - 1, ENTRIES_END]) if row else 0
        return bytes_at(self._log, int.from_bytes(self._asks.entries[begin : begin + 8].tobytes(), "big"))

    def _bound_by(self, file: LogBytes) -> None:
        """Let the next records be of one file."""
        numbers = self._numbers
        numbers[FILE_BEGIN], numbers[FILE_END] = file.begin, file.end
        numbers[NEAR_OFFSET] = self._log.written_offset - self._limits.memory_bytes

    def _has_room(self, entries: Buffer, max_bytes: int) -> bool:
        """Check that there is room for what entries stand for: else it would be worked through in vain."""
        if min(max_bytes, max(self._limits.memory_size, self._limits.disk_size)) <= ANSWERS_SIZE_MAX:
            return True
        return int(np.frombuffer(entries, _WORD)[_SIZE_WORD::_WORDS].sum()) <= ANSWERS_SIZE_MAX
