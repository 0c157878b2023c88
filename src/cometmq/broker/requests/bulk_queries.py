"""Queries in bulk: the usual ones of a turn, by id and by key, are looked up and answered by kernels.

What is not usual, finds nothing or fails is left to ``query.Queries``, which is also the definition of what
happens here.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cometmq.kernels.ops import Bytes, Longs
from cometmq.kernels.queries.rows import (
    ANSWER_END,
    ANSWERED,
    FOUND_MAX,
    FRAME_END,
    IS_BY_KEY,
    QUERIES_MAX,
    QUERY_SIZE,
    STATE,
    TEXTS_SIZE,
    QueryConstants,
    QueryOps,
    constants_of,
)
from cometmq.kernels.sends.rows import PLACES_SIZE
from cometmq.net.turn import Read
from cometmq.store.read.bulk_finds import BulkFinds
from cometmq.wire.template import NumbersTemplate


class _ReadQueries(NamedTuple):
    """The queries of one read: its rows, and where the last one's frame ends."""

    read: Read
    begin: int
    end: int
    frames_end: int


class BulkQueries:
    """Takes the usual queries by id and by key.

    Args:
        by_id: writes the answers, as ``by_key`` does.
        unique_count: how many records a query by unique key is given.
    """

    def __init__(
        self, finds: BulkFinds, by_id: NumbersTemplate, by_key: NumbersTemplate, unique_count: int
    ) -> None:
        self._finds = finds
        self._by_id = by_id.around(())
        self._by_key = by_key
        self._unique_count = unique_count
        self._places: Longs = np.empty(PLACES_SIZE, np.int64)
        self._rows: Longs = np.empty((0, QUERY_SIZE), np.int64)
        self._offsets: Longs = np.empty((0, FOUND_MAX), np.int64)
        self._texts: Bytes = np.empty(0, np.uint8)
        self._last_update = 0, 0
        self._constants = self._constants_of(self._last_update)

    def take(self, reads: Sequence[Read]) -> list[Read]:
        """Answer the queries at the ``position`` of reads, up to another frame.

        Moves ``position`` and sets ``commands_end`` as a ``net.turn.BulkHandler`` does. Gives the reads that
        do not begin with a usual query.
        """
        ops = self._finds.ops()
        if ops is None:
            return list(reads)
        if not len(self._rows):
            self._rows = np.empty((QUERIES_MAX, QUERY_SIZE), np.int64)
            self._offsets = np.empty((QUERIES_MAX, FOUND_MAX), np.int64)
            self._texts = np.empty(QUERIES_MAX * TEXTS_SIZE, np.uint8)
        others: list[Read] = []
        asked: list[_ReadQueries] = []
        count = 0
        for read in reads:
            if count >= QUERIES_MAX:
                read.commands_end = read.position  # its turn comes when these are answered
            elif read.session.congested:
                read.commands_end = len(read.data)
            elif (one := self._read(ops, read, count)).end > count:
                asked.append(one)
                count = one.end
            else:
                others.append(read)
        if asked:
            self._answer(ops, asked, self._rows[:count], self._offsets[:count])
        return others

    def _read(self, ops: QueryOps, read: Read, begin: int) -> _ReadQueries:
        """Read the queries that a read begins with, into the rows from ``begin`` on."""
        count, frames_end, read.commands_end = ops.read(
            *(read.data, read.position, len(read.data), self._unique_count),
            *(self._rows[begin:], self._offsets[begin:], self._texts[begin * TEXTS_SIZE :], self._places),
        )
        return _ReadQueries(read, begin, begin + count, frames_end)

    def _answer(self, ops: QueryOps, asked: Sequence[_ReadQueries], rows: Longs, offsets: Longs) -> None:
        if rows[:, IS_BY_KEY].any():
            last_update = self._finds.look_up(ops, rows, offsets)
            if last_update != self._last_update:
                self._last_update, self._constants = last_update, self._constants_of(last_update)
        for one in asked:
            one.read.commands_end = one.read.position  # what follows is looked at next
        at = 0
        for begin, end in self._finds.answer(ops, self._constants, rows, offsets, self._texts):
            done = rows[begin:end, (STATE, ANSWER_END, FRAME_END)].tolist()
            while at < len(asked) and asked[at].begin < end:
                self._send(asked[at], begin, done)
                if asked[at].end > end:
                    break  # there was no room for its other answers
                at += 1

    def _send(self, asked: _ReadQueries, begin: int, done: list[list[int]]) -> None:
        """Send a read's answers, up to the first query that is not answered: that and the rest are commands.

        Args:
            done: of the rows from ``begin`` on the state, and where answer and frame end.
        """
        read = asked.read
        if read.commands_end > read.position or read.session.congested:
            return  # one before is not answered; or the peer is to take its answers first
        first, end = max(asked.begin - begin, 0), min(asked.end - begin, len(done))
        last = first
        while last < end and done[last][0] == ANSWERED:
            last += 1
        if last > first:
            answers_begin = done[first - 1][1] if first else 0
            _, answers_end, read.position = done[last - 1]
            read.session.send(self._finds.answers(answers_begin, answers_end))
        read.commands_end = read.position if last == end else asked.frames_end

    def _constants_of(self, last_update: tuple[int, int]) -> QueryConstants:
        return constants_of(self._by_id, self._by_key.around(last_update))
