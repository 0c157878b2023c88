"""Queries in bulk: the data that broker, store and kernels pass each other.

One call of a kernel parses the queries by offset id and by key of a socket read. One call of another looks up
their keys in an index file, and a third writes responses from the records in a file of the log, for queries
from all connections. A query with anything unusual is left to the plain path, which defines the response.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple, Protocol

import numpy as np

from cometmq.kernels.ops import Bytes, Longs

QUERIES_MAX: Final = 256
"""The most queries that one call parses or responds to."""
FOUND_MAX: Final = 64
"""The most records of a query; one that may find more is left to the plain path."""
HOPS_MAX: Final = 64
"""The most entries of a chain that are followed in the event loop; a longer one is left to a thread."""
ANSWERS_SIZE_MAX: Final = 1 << 18
"""The most bytes of responses from one call; a longer response is left to the plain path."""
TEXTS_SIZE: Final = 256
"""The most bytes of a query's topic and key together; one with more is left to the plain path."""
ANSWER_SIZE_MAX: Final = 64
"""The most bytes of a response besides its constant parts and its records."""

# The columns of a parsed query's row.
(
    FRAME_AT,
    FRAME_END,
    NUMBER,  # the opaque number
    IS_BINARY,  # whether its header is a ROCKETMQ one, and so the response's
    IS_BY_KEY,
    KEY_HASH,
    MAX_COUNT,
    BEGIN_TIME,
    END_TIME,
    STATE,
    FILES,  # in how many index files it was looked up, the newest first
    COUNT,  # how many records were found
    PLACE,  # position in the index file, or the log's, of the bytes that it is MISSING
    PLACE_END,  # where they end
    IS_UNIQUE,  # whether the key must be the record's unique key
    TOPIC_SIZE,  # bytes of its topic, with which its row of ``texts`` begins
    KEY_SIZE,  # bytes of its key, which follows
    ANSWER_END,
) = range(18)
QUERY_SIZE: Final = 18

LOOKING, MISSING, FOUND, ANSWERED, UNUSUAL = range(5)
"""The values of STATE: the query must be looked up in the next index file; it needs bytes that are not known
to be in memory; all its records are found; its response is written; it is left to the plain path."""

DONE, ELSEWHERE, FULL, STUCK = range(4)
"""Why responding stopped: at the end of the queries; because the next one's records are in another file;
because its response does not fit; or because it is MISSING bytes."""

PIECES: Final = 4
"""The number of the first constant for queries by key; those before it are for queries by id."""
BINARY_PIECES: Final = 2
"""The first of either's constants for ROCKETMQ headers; those before it are for JSON headers."""


class QueryConstants(NamedTuple):
    """The bytes that are the same in all responses of a turn of the event loop.

    Constant ``i`` is ``data[bounds[i]:bounds[i + 1]]``, what it precedes or follows is as listed.

    ::

        by id    JSON 0 opaque number 1    binary 2 opaque number 3
        by key   JSON 4 opaque number 5    binary 6 opaque number 7
    """

    data: Bytes
    bounds: Longs


def constants_of(by_id: Sequence[bytes], by_key: Sequence[bytes]) -> QueryConstants:
    """Join the constant parts of responses: see ``NumbersTemplate.around``."""
    assert len(by_id) == len(by_key) == PIECES
    pieces = [*by_id, *by_key]
    data = np.frombuffer(b"".join(pieces), np.uint8)
    return QueryConstants(data, np.array([0, *accumulate(map(len, pieces))]))


class QueryOps(Protocol):
    """The bulk operations on queries; the plain path defines the responses."""

    def read(
        self,
        data: bytes,
        start: int,
        data_end: int,
        unique_count: int,
        queries: Longs,
        offsets: Longs,
        texts: Bytes,
        places: Longs,
        /,
    ) -> tuple[int, int, int]:
        """Parse the queries of ``data`` from ``start`` on, up to the first other frame.

        Args:
            data: what a socket read returned.
            start: position of the first frame.
            data_end: position at which ``data`` is taken to end.
            unique_count: the most records of a query by unique key.
            queries: int64[n, QUERY_SIZE], written: a row for each query, see ``FRAME_AT`` and the others.
            offsets: int64[n, m], written: in column 0 the CommitLog offset of a query by id.
            texts: uint8[n × TEXTS_SIZE], written: topic and key of each query by key.
            places: int64[PLACES_SIZE], scratch space for the positions of a header's fields.

        Returns:
            How many queries there are; where they end; and where the frames after them end that the plain
            path must handle, the same position if ``queries`` is full.
        """
        ...

    def find(
        self,
        image: Bytes,
        file: Bytes,
        resident: Bytes,
        is_held: bool,
        tail: Bytes,
        written: int,
        begin_time: int,
        end_time: int,
        next_entry: int,
        number: int,
        max_count: int,
        queries: Longs,
        offsets: Longs,
        /,
    ) -> int:
        """Look up in an index file the queries that are LOOKING and were looked up in ``number`` files.

        Args:
            image: uint8[40 + 4 × slots], the file's header and slots.
            file: uint8[], the whole mapped file.
            resident: uint8[pages], for each page of ``file`` 1 if it is known to be in memory, else 0; no
                other pages are read.
            is_held: whether ``image`` is a copy in memory, rather than the beginning of ``file``.
            tail: uint8[20 × n], the entries that are not in the file yet.
            written: number of the first entry in ``tail``.
            begin_time, end_time: the store times in the file's header, ms since 1970.
            next_entry: the number of the next entry, from the file's header.
            number: how many index files are newer than this one.
            max_count: the most records of any query.
            queries: int64[n, QUERY_SIZE], from ``read``; changed.
            offsets: int64[n, max_count], written: CommitLog offsets of each query's records, newest first.

        Returns:
            How many queries are MISSING bytes of the file.
        """
        ...

    def answer(
        self,
        constants: Bytes,
        bounds: Longs,
        answers: Bytes,
        queries: Longs,
        offsets: Longs,
        texts: Bytes,
        confirm_offset: int,
        file: Bytes,
        resident: Bytes,
        begin: int,
        end: int,
        first: int,
        at: int,
        /,
    ) -> tuple[int, int, int]:
        """Respond to the queries that are FOUND from row ``first`` on, while their records are in one file.

        Args:
            constants, bounds: the fields of ``QueryConstants``.
            answers: uint8[], where responses are written from ``at`` on, one frame after another.
            queries: int64[n, QUERY_SIZE], from ``find``; changed.
            offsets: int64[n, m], from ``find``.
            texts: uint8[n × TEXTS_SIZE], from ``read``; a record with another topic or without the key makes
                its query UNUSUAL.
            confirm_offset: CommitLog offset before which a record must be to be found by id.
            file: uint8[], a mapped file of the log.
            resident: uint8[pages], as in ``find``, for the pages of this file.
            begin: CommitLog offset of the file's first byte.
            end: CommitLog offset up to which the file is readable.
            first: the first row of ``queries`` to respond to.
            at: position in ``answers`` of the first response.

        Returns:
            The first row that was not processed, where the responses end, and why it stopped: see ``DONE``.
        """
        ...
