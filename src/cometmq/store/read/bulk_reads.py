"""Bulk reads of queues: requests as rows, answered by the leaf operations on pulls.

``get`` defines the result of a read. This is the fast path, for reads whose entries are in memory and whose
records are sound, in memory and in one file of the log; other reads stay LEFT, for ``get``.
"""

from array import array
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from cometmq import kernels
from cometmq.format.checksum import Crc
from cometmq.format.queue_entry import SIZE
from cometmq.io.files import FileMap
from cometmq.kernels.arrays import Longs
from cometmq.kernels.pulls import rows as r
from cometmq.kernels.pulls.rows import (
    ANSWERS_SIZE_MAX,
    ASK_SIZE,
    AnswerRoom,
    AnswerStop,
    Asks,
    Constants,
    KnownEntries,
    LogBytes,
    PullRows,
    PullState,
    ReadOutcome,
)
from cometmq.kernels.text.key_table import KeyTable
from cometmq.message import Buffer
from cometmq.store.files.residency import are_ready
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.queue.queues import Queues
from cometmq.store.read.limits import GetLimits
from cometmq.store.read.log_bytes import NOWHERE, bytes_at
from cometmq.store.read.resident_reads import resident_entries

BYTES_MIN: Final = 100
"""Lower bound of the bytes that a read asks for."""
FILTERS_MAX: Final = 10_000
"""Most filters whose tag hashes are cached."""

_WORD: Final = np.dtype(">i4")
_WORDS: Final = SIZE // _WORD.itemsize
_ASKS_ROOM: Final = 2 * r.PULLS_MAX
_ENTRIES_ROOM: Final = 1 << 17
_SIZE_WORD: Final = 2
"""Place of the record's size among an entry's words: offset (two), size, tags code (two)."""
_ANY: Final = 0, r.NO_CODES


class Answered(NamedTuple):
    """The result of a read: the last columns of its row in ``Asks``, see ``kernels.pulls.rows``.

    Attributes:
        outcome: a ``ReadOutcome``; if it is LEFT, only ``end`` is valid.
        record_count: number of records in the answer.
        next_offset: queue offset to read from next.
        end: position behind its answer in the buffer; it begins at the ``end`` of the read before.
    """

    outcome: int
    record_count: int
    next_offset: int
    min_offset: int
    max_offset: int
    end: int


_answered: Final[Callable[[list[int]], Answered]] = partial(tuple.__new__, Answered)
"""What ``Answered._make`` does, in two thirds of the time."""


class BulkReads:
    """Answers reads of one log, within the same limits, a batch at a time. For one thread.

    Reads are added between ``begin`` and ``answer``; answers stay until the next ``answer``.

    Args:
        reads_later: whether messages become readable only some time after their append.
    """

    def __init__(
        self, commit_log: CommitLog, queues: Queues, limits: GetLimits, *, reads_later: bool
    ) -> None:
        self._log = commit_log
        self._plain = None if commit_log.crc is Crc.BODY else kernels.pulls_for(commit_log.crc)
        self._queues = queues
        self._reads_later = reads_later
        self._numbers_asked = array("q")
        rows, entries = np.empty((0, ASK_SIZE), np.int64), np.empty(_ENTRIES_ROOM, np.uint8)
        self._asks = Asks(rows, entries, np.zeros(r.ASK_LIMITS_SIZE, np.int64))
        self._reserve_rows(_ASKS_ROOM)
        self._known = KnownEntries(queues.next_offsets.longs, queues.ahead.windows, queues.ahead.entries)
        self.set_limits(limits)
        self._code_places: dict[frozenset[int], tuple[int, int]] = {}
        self.begin()

    def set_limits(self, limits: GetLimits) -> None:
        """Answer the reads of later batches within these limits; call it between two batches."""
        self._limits = limits
        most_size = max(limits.memory_size, limits.disk_size)
        bytes_max = r.NO_LIMIT if most_size <= ANSWERS_SIZE_MAX else ANSWERS_SIZE_MAX
        self._asks.limits[:] = limits.most_count, BYTES_MIN, bytes_max
        self._room: AnswerRoom | None = None

    def number_of(self, topic: str, queue_id: int) -> int:
        """Return a queue's number; NO_NUMBER if it never had a message."""
        queue = self._queues.find(topic, queue_id)
        return r.NO_NUMBER if queue is None else queue.number

    def begin(self) -> None:
        """Start a new batch."""
        self._asks.asked = self._asks.entries_end = 0
        self._first = 0  # the first read without an answer
        if len(self._code_places) >= FILTERS_MAX:
            self._asks.set_codes(r.NO_TAGS)
            self._code_places = {}
        self._ops = self._plain or kernels.loading.ops.pulls

    def add_known(self, pulls: PullRows, begin: int, end: int, table: KeyTable) -> int:
        """Add the reads of pulls by what is cached: see ``PullOps.ask_known``, also for what is returned."""
        if self._reads_later:
            return begin
        queues, ahead, known = self._queues, self._queues.ahead, self._known
        if not (
            known.ends is queues.next_offsets.longs
            and known.windows is ahead.windows
            and known.entries is ahead.entries
        ):  # they have grown
            known = self._known = KnownEntries(queues.next_offsets.longs, ahead.windows, ahead.entries)
        return self._ops.ask_known(pulls, begin, end, table, known, self._asks)

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
        """Add a read and return ASKED, or return AT_END or OUTSIDE if its queue has no message there.

        Args:
            queue_key: topic and queue id.
            max_count: at least 1; for this, ``queue_offset`` and ``max_bytes`` see ``get.get_messages``.
            tags_codes: hashes of the wanted tags; None for any.
            number: the request's opaque number, which the answer repeats.
            is_binary: whether the answer's header is in ROCKETMQ form, not JSON.
        """
        queue = self._queues.find(*queue_key)
        if queue is None or not queue.min_offset <= queue_offset < queue.max_offset:
            is_at_end = queue is not None and 0 < queue_offset == queue.max_offset
            return PullState.AT_END if is_at_end else PullState.OUTSIDE
        is_filtered = tags_codes is not None
        try:
            entries = resident_entries(queue, queue_offset, self._limits, max_count, is_filtered=is_filtered)
        except OSError:
            entries = None  # ``get`` will raise it
        if entries is not None and (max_bytes <= ANSWERS_SIZE_MAX or self._has_room(entries, max_bytes)):
            self._append_entries(entries)
        asks = self._asks
        if asks.asked == len(asks.rows):
            self._reserve_rows(2 * asks.asked)
        at = asks.asked * ASK_SIZE
        codes = _ANY if tags_codes is None else self._codes_range(tags_codes)
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
        """Answer the added reads, or the first of them (at least one) if the buffer is too small for all.

        Call again for the others; that overwrites the answers of this call.
        """
        asks, first = self._asks, self._first
        if not asks.asked:
            return []
        if asks.entries_end:
            if self._room is None or self._room.constants is not constants:
                self._room = self._room_for(constants)
            self._first = self._answer_rows(self._room)
        else:
            self._first = asks.asked  # all stay LEFT
        return list(map(_answered, asks.rows[first : self._first, r.OUTCOME :].tolist()))

    @property
    def are_all_answered(self) -> bool:
        """Whether every added read has an answer."""
        return self._first == self._asks.asked

    def answers(self, begin: int, end: int) -> bytes:
        """Return the bytes of the answer buffer from ``begin`` to ``end``."""
        return b"" if self._room is None else bytes(self._room.data.data[begin:end])

    def _room_for(self, constants: Constants) -> AnswerRoom:
        limits = self._limits
        bounds = limits.bounds(NOWHERE, 0, r.NO_LIMIT, r.NO_LIMIT)
        return AnswerRoom(np.empty(ANSWERS_SIZE_MAX, np.uint8), limits.room(), bounds, constants)

    def _codes_range(self, tags_codes: frozenset[int]) -> tuple[int, int]:
        """Return begin and end of tag hashes in ``Asks.codes``, after adding them if they are missing."""
        place = self._code_places.get(tags_codes)
        if place is None:
            asks = self._asks
            begin = len(asks.codes)
            asks.set_codes(np.append(asks.codes, np.array(sorted(tags_codes), np.int64)))
            place = self._code_places[tags_codes] = begin, len(asks.codes)
        return place

    def _append_entries(self, entries: Buffer) -> None:
        asks = self._asks
        begin, asks.entries_end = asks.entries_end, asks.entries_end + len(entries)
        if asks.entries_end > len(asks.entries):
            longer = np.empty(2 * asks.entries_end, np.uint8)
            longer[:begin] = asks.entries[:begin]
            asks.set_entries(longer)
        asks.entries.data[begin : asks.entries_end] = entries

    def _reserve_rows(self, count: int) -> None:
        """Grow the rows to ``count``."""
        more = count * ASK_SIZE - len(self._numbers_asked)
        self._numbers_asked = self._numbers_asked + array("q", bytes(8 * more))
        self._asks.set_rows(np.frombuffer(self._numbers_asked, np.int64).reshape(-1, ASK_SIZE))

    def _answer_rows(self, room: AnswerRoom) -> int:
        """Answer rows from the first without an answer on, file by file; return the row behind the last."""
        first, at, looked = self._first, 0, -1
        mapped, file = self._file_of(first) or (None, NOWHERE)
        self._set_file(room.limits, file)
        while True:
            first, at, stop, missing_count = self._ops.answer(self._asks, room, file, first, at)
            if stop is AnswerStop.DONE or (stop is AnswerStop.FULL and at):
                return first
            if stop is AnswerStop.ELSEWHERE:
                if (opened := self._file_of(first)) is not None:
                    mapped, file = opened
                    self._set_file(room.limits, file)
                    continue
            elif stop is AnswerStop.MISSING and looked != first:
                looked = first
                missing = room.chosen[:missing_count, r.MISSING_AT : r.MISSING_SIZE + 1]
                if mapped is not None and are_ready(mapped, *missing.T):
                    continue
            first += 1  # it stays LEFT

    def _file_of(self, row: int) -> tuple[FileMap, LogBytes] | None:
        """Return the file of the log that holds the first record of ``row``, or of a row behind it."""
        begin = int(self._asks.rows[row - 1, r.ENTRIES_END]) if row else 0
        return bytes_at(self._log, int.from_bytes(self._asks.entries[begin : begin + 8].tobytes(), "big"))

    def _set_file(self, bounds: Longs, file: LogBytes) -> None:
        """Set the bounds of the next records to those of one file."""
        bounds[r.FILE_BEGIN], bounds[r.FILE_END] = file.begin, file.end
        bounds[r.NEAR_OFFSET] = self._log.written_offset - self._limits.memory_bytes

    def _has_room(self, entries: Buffer, max_bytes: int) -> bool:
        """Check that the records of these entries fit into the buffer: otherwise choosing them is wasted."""
        if min(max_bytes, max(self._limits.memory_size, self._limits.disk_size)) <= ANSWERS_SIZE_MAX:
            return True
        return int(np.frombuffer(entries, _WORD)[_SIZE_WORD::_WORDS].sum()) <= ANSWERS_SIZE_MAX
