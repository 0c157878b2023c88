"""Queries by key and by offset id as rows: the data that broker, store and leaf operations pass each other.

One leaf operation reads the queries of a socket read into rows, one looks up their keys in an index file, and
one writes responses from the records in a file of the log, for queries from all connections. Each has a plain
body (``plain``, the readable definition) and a compiled one (``compiled``); both return the same for the same
arguments. A query that a leaf leaves is no error: a reading responds to it, see ``store.read.query``.
"""

from ctypes import Structure, c_int64
from enum import IntEnum
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cometmq.kernels.arrays import Bytes, Longs, joined
from cometmq.kernels.frames.rows import Frames
from cometmq.kernels.pulls.rows import AnswerStop, LogBytes
from cometmq.wire.template import NumbersTemplate

QUERIES_MAX: Final = 256
"""The most queries that are read, and answered, together."""
UNIQUE_COUNT: Final = 32
"""The most records of a query by unique key (RocketMQ: ``defaultQueryMaxNum``)."""
FOUND_MAX: Final = 64
"""The most records of a query; one that may find more is left to a reading."""
HOPS_MAX: Final = 64
"""The most entries of a chain that are followed in the event loop; a longer one is left to a reading."""
NO_LIMIT: Final = 2**31 - 1
ANSWERS_SIZE_MAX: Final = 1 << 18
"""The most bytes of responses that are written together; a longer response is left to a reading."""
TEXTS_SIZE: Final = 256
"""The most bytes of a query's topic and key together; one with more is left to a reading."""
ANSWER_SIZE_MAX: Final = 64
"""The most bytes of a response besides its constant parts and its records."""


class QueryRow(Structure):
    """A query, on its way from a frame to a response.

    A structure of C, so that Python and compiled operations read and write the same numbers in place.

    Attributes:
        frame: the row of its frame.
        opaque: the opaque number.
        is_binary: whether its header is a ROCKETMQ one, and so the response's.
        is_by_key: whether it is by key; else the seven numbers that follow are 0.
        is_unique: whether the key must be the record's unique key.
        key_hash: as ``format.java.java_hash.index_key_hash`` computes it.
        topic_size: how many bytes of its part of ``texts`` are its topic.
        key_size: how many bytes that follow are its key.
        max_count: the most records wanted.
        begin_time: the earliest store time wanted, ms since 1970; the index rounds it to seconds.
        end_time: the latest store time wanted, ms since 1970.
        state: a QueryState.
        files: in how many index files it was looked up, the newest first.
        count: how many records were found.
        place, place_end: where the bytes that it is MISSING are in the index file, or in the log's.
        answer_end: where its response ends.
    """

    frame: int
    opaque: int
    is_binary: int
    is_by_key: int
    is_unique: int
    key_hash: int
    topic_size: int
    key_size: int
    max_count: int
    begin_time: int
    end_time: int
    state: int
    files: int
    count: int
    place: int
    place_end: int
    answer_end: int


QueryRow._fields_ = [(name, c_int64) for name in QueryRow.__annotations__]
_EMPTY: Final = QueryRow()
QUERY: Final = np.dtype([(name, np.int64) for name in QueryRow.__annotations__])
"""The dtype of a QueryRow."""


class QueryState(IntEnum):
    """The state of a query on its way to a response."""

    LOOKING = 0
    """It is to be looked up in the next index file, if there is one."""
    MISSING = 1
    """It needs bytes that are not known to be in memory."""
    FOUND = 2
    """The CommitLog offsets of all its records are known."""
    ANSWERED = 3
    """Its response is written."""
    NOTHING = 4
    """There is no such record."""
    LEFT = 5
    """Leaf operations cannot respond to it: a reading does."""


# The numbers of an index file.
(
    ENTRIES_AT,  # position in the file of the entry with number 0
    WRITTEN,  # number of the first entry that is not in the file yet
    FILE_BEGIN_TIME,  # the store times in the file's header, ms since 1970
    FILE_END_TIME,
    NEXT_ENTRY,  # number of the next entry, from the file's header
) = range(5)

BY_KEY_PIECES: Final = 4
"""The number of the first constant for queries by key; those before it are for queries by id."""
BINARY_PIECES: Final = 2
"""The first of either's constants for ROCKETMQ headers; those before it are for JSON headers."""


class IndexBytes(NamedTuple):
    """An index file, mapped, and its entries that are not written yet.

    Attributes:
        image: uint8[40 + 4 × slots], header and slots; or of one slot only: that of all keys to look up.
        is_held: whether ``image`` is a copy in memory, rather than the beginning of ``file``.
        file: uint8[], the whole file.
        resident: uint8[pages], for each page of ``file`` 1 if it is known to be in memory, else 0; no
            other pages are read.
        tail: uint8[20 × n], the entries that are not in the file yet.
        numbers: see ``ENTRIES_AT`` and the others.
    """

    image: Bytes
    is_held: bool
    file: Bytes
    resident: Bytes
    tail: Bytes
    numbers: tuple[int, int, int, int, int]


FilledTemplate: TypeAlias = tuple[NumbersTemplate, tuple[int, ...]]
"""A template of responses, and the numbers that all responses of a turn have."""


class QueryConstants(NamedTuple):
    """The bytes that are the same in all responses of a turn of the event loop.

    Constant ``i`` is ``data[bounds[i]:bounds[i + 1]]``, what it precedes or follows is as listed.

    ::

        by id    JSON 0 opaque number 1    binary 2 opaque number 3
        by key   JSON 4 opaque number 5    binary 6 opaque number 7

    Attributes:
        by_id, by_key: the templates of the responses, with their numbers.
    """

    data: Bytes
    bounds: Longs
    by_id: FilledTemplate
    by_key: FilledTemplate


def constants_of(by_id: FilledTemplate, by_key: FilledTemplate) -> QueryConstants:
    """Join the constant parts of the responses that the templates encode with these numbers."""
    pieces = [piece for template, numbers in (by_id, by_key) for piece in template.around(numbers)]
    assert len(pieces) == 2 * BY_KEY_PIECES
    return QueryConstants(*joined(pieces), by_id, by_key)


class QueryRows:
    """Queries, and room for more.

    Args:
        room: how many queries there is room for.
        found_max: the most records of each.

    Attributes:
        count: how many queries there are; the rows behind them are room.
        rows: a row for each query.
        array: QUERY[room], the same rows.
        states: int64[room], their states.
        offsets: int64[room, found_max], the CommitLog offsets of each query's records, newest first.
        texts: uint8[room × TEXTS_SIZE], the topic and the key of each query by key.
    """

    __slots__ = ("array", "count", "offsets", "rows", "states", "texts")

    def __init__(self, room: int = QUERIES_MAX, found_max: int = FOUND_MAX) -> None:
        self.count = 0
        self.rows = (QueryRow * room)()
        self.array: NDArray[np.void] = np.frombuffer(memoryview(self.rows).cast("B"), QUERY)
        self.states: Longs = self.array["state"]
        self.offsets: Longs = np.empty((room, found_max), np.int64)
        self.texts: Bytes = np.empty(room * TEXTS_SIZE, np.uint8)

    def ask(self, key_hash: int, begin_time: int, end_time: int, max_count: int) -> None:
        """Begin with one query by a key's hash, to be looked up in index files.

        The parameters are those of ``QueryRow``; ``max_count`` is from 1 to ``found_max``.
        """
        self.rows[0] = _EMPTY
        self.count = 1
        row = self.rows[0]
        row.is_by_key, row.key_hash, row.max_count = 1, key_hash, max_count
        row.begin_time, row.end_time = begin_time, end_time

    def found(self, number: int) -> list[int]:
        """Return the CommitLog offsets that were found for a query, newest first."""
        found: list[int] = self.offsets[number, : self.rows[number].count].tolist()
        return found


def hash_query(key_hash: int, begin_time: int, end_time: int, max_count: int) -> QueryRows:
    """Build a query by a key's hash: see ``QueryRows.ask``."""
    query = QueryRows(1, max_count)
    query.ask(key_hash, begin_time, end_time, max_count)
    return query


class QueryOps(Protocol):
    """The leaf operations on queries."""

    def read(self, frames: Frames, first: int, last: int, queries: QueryRows, /) -> int:
        """Read the queries of some frames from row ``first`` on, up to one that is unusual.

        As a command that one gets the same response.

        Args:
            frames: those of ``first`` up to before ``last`` are queries of one read.
            queries: the queries are added to it, while there is room.

        Returns:
            How many queries were added.
        """
        ...

    def find(
        self, file: IndexBytes, number: int, max_count: int, hops_max: int, queries: QueryRows, /
    ) -> int:
        """Look up in an index file the queries that are LOOKING and were looked up in ``number`` files.

        Records with another key of the same hash are found too: ``answer`` compares topics and keys. A query
        becomes FOUND if older files have nothing for it.

        Args:
            number: how many index files are newer than this one.
            max_count: the most records of any query.
            hops_max: the most entries of a chain that are followed.
            queries: changed: their states, and what was found.

        Returns:
            How many queries are MISSING bytes of the file.
        """
        ...

    def answer(
        self,
        queries: QueryRows,
        constants: QueryConstants,
        answers: Bytes,
        file: LogBytes,
        confirm_offset: int,
        first: int,
        at: int,
        /,
    ) -> tuple[int, int, AnswerStop]:
        """Respond to queries from row ``first`` on, while their records are in one file.

        Those that are FOUND get a response, and those that are still LOOKING: there was no file left.

        Args:
            queries: changed; a query is LEFT if a record is damaged, has another topic or lacks the key.
            answers: uint8[], where responses are written from ``at`` on, one frame after another.
            confirm_offset: CommitLog offset before which a record must be to be found by id.
            first: the first row to respond to.
            at: position in ``answers`` of the first response.

        Returns:
            The first row that was not processed, where the responses end, and why it stopped.
        """
        ...
