"""Answering queries by id and by key, many with one call of a kernel.

``index`` and ``query`` define what a query gives. Here are those that nearly all are: what is looked at is in
memory, and their records lie sound in one file of the log. Of the others nothing is said.
"""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from cometmq import kernels
from cometmq.format.checksum import Crc
from cometmq.io.files import FileMap
from cometmq.kernels.ops import Bytes, Longs
from cometmq.kernels.queries.rows import (
    ANSWERS_SIZE_MAX,
    DONE,
    ELSEWHERE,
    FOUND,
    FOUND_MAX,
    FULL,
    HOPS_MAX,
    LOOKING,
    MISSING,
    PLACE,
    PLACE_END,
    STATE,
    STUCK,
    UNUSUAL,
    QueryConstants,
    QueryOps,
)
from cometmq.store.index.index import Index
from cometmq.store.index.index_file import IndexFile
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.read.log_bytes import NOWHERE, bytes_at

LOOKS_MAX: Final = 2 * FOUND_MAX
"""So often the system is asked for one query's records: for the beginning of each, and for all of it."""

_NOTHING: Final = np.empty(0, np.uint8)


class BulkFinds:
    """Finds records of one log by id and by key. For one thread.

    Args:
        max_count: how many records any query is given at most.
        catch_up: brings the index up to what is dispatched.
        confirm_offset: gives the CommitLog offset before which records are given by id.
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
        self._answers = _NOTHING

    def ops(self) -> QueryOps | None:
        """Give the kernels, None if they are not loaded or check less than this log asks for."""
        return kernels.current().queries if self._log.crc is Crc.BODY else None

    def look_up(self, ops: QueryOps, queries: Longs, offsets: Longs) -> tuple[int, int]:
        """Find where the records lie that queries are for; give ``Index.last_update`` as of then.

        Args:
            queries: rows as ``ops.read`` makes them; of some the state is UNUSUAL after this.
            offsets: gets the CommitLog offsets.
        """
        states = queries[:, STATE]
        if self._index is None:
            states[states == LOOKING] = UNUSUAL
            return 0, 0
        self._catch_up()
        for number, file in enumerate(self._index.newest_first):
            if not (states == LOOKING).any():
                break
            if not self._look_up_in(file, number, ops, queries, offsets):
                states[states == LOOKING] = UNUSUAL
        states[states == LOOKING] = FOUND
        return self._index.last_update

    def answer(
        self, ops: QueryOps, constants: QueryConstants, queries: Longs, offsets: Longs, texts: Bytes
    ) -> Iterator[tuple[int, int]]:
        """Answer queries whose records are looked up: gives from which row to before which they are answered.

        Their answers, of those whose state is ANSWERED, stay until the next are asked for. A query is not
        answered here if a record of another topic, or without the key, has the same hash.

        Args:
            texts: topics and keys, as ``ops.read`` gave them.
        """
        if not len(self._answers):
            self._answers = np.empty(ANSWERS_SIZE_MAX, np.uint8)
        begin = first = at = 0
        mapped, file, looks = None, NOWHERE, 0
        given = *constants, self._answers, queries, offsets, texts, self._confirm_offset()
        while first < len(queries):
            before = first
            first, at, why = ops.answer(*given, *file, first, at)
            looks = looks + 1 if first == before and why == STUCK else 0
            if why == FULL and at:
                yield begin, first
                begin, at = first, 0
            elif why == STUCK and mapped is not None and looks <= LOOKS_MAX:
                _look_at(mapped, queries[first], FOUND)
            elif why == ELSEWHERE and (opened := bytes_at(self._log, int(offsets[first, 0]))) is not None:
                mapped, file = opened
            elif why != DONE:
                queries[first, STATE] = UNUSUAL
        yield begin, first

    def _look_up_in(
        self, file: IndexFile, number: int, ops: QueryOps, queries: Longs, offsets: Longs
    ) -> bool:
        """Look up in one file of the index, after so many others; False if that is for the plain way."""
        try:
            mapped = file.mapped()
        except OSError:
            return False  # the plain way will say so
        if mapped is None:
            return False
        for _ in range(HOPS_MAX + 1):
            if not ops.find(*file.bytes_for(mapped), number, self._max_count, queries, offsets):
                return True
            for row in np.flatnonzero(queries[:, STATE] == MISSING).tolist():
                _look_at(mapped, queries[row], LOOKING)
        return False  # memory is short: what was there is gone again

    def answers(self, begin: int, end: int) -> bytes:
        """Give a part of the answers."""
        return bytes(self._answers.data[begin:end])


def _look_at(mapped: FileMap, query: Longs, state: int) -> None:
    """Ask the system for what a query is MISSING; it has this state then if that is in memory."""
    is_ready = mapped.ready(int(query[PLACE]), int(query[PLACE_END])) is not None
    query[STATE] = state if is_ready else UNUSUAL
