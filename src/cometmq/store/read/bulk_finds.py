"""Queries by id and by key, many at a time: looked up and answered by the leaf operations on queries.

``query`` defines what a query finds. Here are those that nearly all are: what is read for them is in memory,
and their records are sound and in one file of the log. The others are LEFT to it.
"""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from cometmq import kernels
from cometmq.io.files import FileMap
from cometmq.kernels.arrays import Bytes
from cometmq.kernels.pulls.rows import AnswerStop, LogBytes
from cometmq.kernels.queries.rows import (
    ANSWERS_SIZE_MAX,
    FOUND_MAX,
    QueryConstants,
    QueryRows,
    QueryState,
)
from cometmq.store.files.residency import settle
from cometmq.store.index.index import Index
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.read.log_bytes import NOWHERE, bytes_at

LOOKS_MAX: Final = 2 * FOUND_MAX
"""How often the system is asked for one query's records: for the beginning of each, and for all of it."""

_LOOKING: Final = int(QueryState.LOOKING)
_LEFT: Final = int(QueryState.LEFT)


class BulkFinds:
    """Finds records of one log by id and by key. For one thread.

    Between ``begin`` and ``answer`` queries are added to ``queries``; answers stay until the next are made.

    Args:
        max_count: the most records of any query.
        catch_up: brings the index up to what is dispatched.
        confirm_offset: returns the CommitLog offset before which a record must be to be found by id.

    Attributes:
        queries: the queries.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        index: Index | None,
        max_count: int,
        catch_up: Callable[[], None],
        confirm_offset: Callable[[], int],
    ) -> None:
        self._log = commit_log
        self._index = index
        self._max_count = max_count
        self._catch_up = catch_up
        self._confirm_offset = confirm_offset
        self._answers: Bytes = np.empty(ANSWERS_SIZE_MAX, np.uint8)
        self.queries = QueryRows()
        self.begin()

    def begin(self) -> QueryRows:
        """Begin with no queries; return where they are added."""
        self.queries.count = 0
        self._ops = kernels.queries_for(self._log.crc)
        return self.queries

    def look_up(self) -> tuple[int, int] | None:
        """Find where the records of the queries by key are; return ``Index.last_update`` as of then.

        None is returned if no query is by key.
        """
        states = self.queries.states[: self.queries.count]
        if _LOOKING not in states.tolist():
            return None
        if self._index is None:
            return 0, 0
        self._catch_up()
        for number, file in enumerate(self._index.newest_first):
            if _LOOKING not in states.tolist():
                break
            try:
                are_looked_up = file.find_ready(self._ops, self.queries, number, self._max_count)
            except OSError:
                are_looked_up = False  # the reading will say so
            if not are_looked_up:
                states[states == _LOOKING] = _LEFT
        return self._index.last_update

    def answer(self, constants: QueryConstants) -> Iterator[tuple[int, int]]:
        """Respond to the queries; iterate over from which row to before which they are done with.

        A query is ANSWERED then, has found NOTHING, or is LEFT. The responses of these rows stay until the
        next are made.
        """
        queries, confirm_offset = self.queries, self._confirm_offset()
        begin = first = at = 0
        mapped, file = (self._file_of(0) if queries.rows[0].count else None) or (None, NOWHERE)
        looks = 0
        while first < queries.count:
            before = first
            first, at, stop = self._ops.answer(
                queries, constants, self._answers, file, confirm_offset, first, at
            )
            looks = looks + 1 if first == before and stop is AnswerStop.MISSING else 0
            if stop is AnswerStop.FULL and at:
                yield begin, first
                begin, at = first, 0
            elif stop is AnswerStop.MISSING and mapped is not None and looks <= LOOKS_MAX:
                settle(mapped, queries.rows[first], QueryState.FOUND)
            elif stop is AnswerStop.ELSEWHERE and (opened := self._file_of(first)) is not None:
                mapped, file = opened
            elif stop is not AnswerStop.DONE:
                queries.rows[first].state = _LEFT
        yield begin, first

    def _file_of(self, row: int) -> tuple[FileMap, LogBytes] | None:
        """Return the file of the log that the newest record of a query is in."""
        return bytes_at(self._log, int(self.queries.offsets[row, 0]))

    def answers(self, begin: int, end: int) -> bytes:
        """Return a part of the responses."""
        return bytes(self._answers.data[begin:end])
