"""Queries in bulk: what a broker, a store and the kernels of queries pass each other.

The queries by offset id and by key of a socket read are read by one call of a kernel. One looks the keys up
in an index file, another writes answers from what lies in a file of the log, whoever asked. A query with
anything unusual about it is left to the plain path, which is the definition of what it is answered.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple, Protocol

import numpy as np

from cometmq.kernels.ops import Bytes, Longs

QUERIES_MAX: Final = 256
"""So many queries are read, and answered, together."""
FOUND_MAX: Final = 64
"""So many records are given by one at most; one that may be given more is none for this path."""
HOPS_MAX: Final = 64
"""So many entries of a chain are looked at in the loop; a longer one is left to a thread."""
ANSWERS_SIZE_MAX: Final = 1 << 18
"""So many bytes of answers are made together. One that is longer is none for this path."""
TEXTS_SIZE: Final = 256
"""So many bytes of a query's topic and key are kept to be compared; one with more is none for this path."""
ANSWER_SIZE_MAX: Final = 64
"""What an answer takes at most, but for its constant parts and its records."""

# A query that was read: its row's numbers.
(
    FRAME_AT,
    FRAME_END,
    NUMBER,  # the opaque one
    IS_BINARY,  # whether the header is a ROCKETMQ one, and so the answer's
    IS_BY_KEY,
    KEY_HASH,
    MAX_COUNT,
    BEGIN_TIME,
    END_TIME,
    STATE,
    FILES,  # how many index files it was looked up in, the newest first
    COUNT,  # how many records were found
    PLACE,  # the bytes that it is MISSING: of the index file, or of the log's
    PLACE_END,
    IS_UNIQUE,  # whether the key must be the record's unique one
    TOPIC_SIZE,  # bytes of its topic, which its texts begin with
    KEY_SIZE,  # bytes of its key, which follows
    ANSWER_END,
) = range(18)
QUERY_SIZE: Final = 18

LOOKING, MISSING, FOUND, ANSWERED, UNUSUAL = range(5)
"""States: it is to be looked up in the next index file; that cannot go on without bytes that are not known to
be in memory; all records are found; it is answered; it is to be done the plain way."""

DONE, ELSEWHERE, FULL, STUCK = range(4)
"""Why no more is answered: there is no more; the next one's records lie in another file; there is no room for
its answer; or it is MISSING something."""

PIECES: Final = 4
"""By id from the first constant on, by key from this one on; of these JSON from the first, ROCKETMQ from …"""
BINARY_PIECES: Final = 2


class Constants(NamedTuple):
    """What is the same in all answers of a turn: ``data[bounds[i]:bounds[i + 1]]`` is the i-th constant.

    ::

        by id    JSON 0 opaque number 1    binary 2 opaque number 3
        by key   JSON 4 opaque number 5    binary 6 opaque number 7
    """

    data: Bytes
    bounds: Longs


def constants_of(by_id: Sequence[bytes], by_key: Sequence[bytes]) -> Constants:
    """Put the constants together: see ``NumbersTemplate.around``."""
    assert len(by_id) == len(by_key) == PIECES
    pieces = [*by_id, *by_key]
    return Constants(np.frombuffer(b"".join(pieces), np.uint8), np.array([0, *accumulate(map(len, pieces))]))


class QueryOps(Protocol):
    """The operations on queries; the plain way defines what they do."""

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
        """Read the queries at ``start``, up to the first other frame.

        Gives how many; where they end; and where the frames after them end that are to be handled otherwise,
        the same if there is no more room.

        Args:
            data_end: up to where ``data`` is looked at.
            unique_count: how many records one by unique key may be given.
            queries: gets a row for each, see ``FRAME_AT`` and the others.
            offsets: gets a row for each: the CommitLog offset of one by id.
            texts: gets the topic and the key of one by key, ``TEXTS_SIZE`` bytes for each.
            places: room for where the fields of a header are.
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
        """Look up in an index file those that are LOOKING and were looked up in ``number`` files before.

        Gives how many are MISSING something of it.

        Args:
            image: the file's header and slots.
            file: all of it, mapped.
            resident: a byte for each page of that: whether it is known to be in memory. No other is touched.
            is_held: whether the image is the process's own, and not that part of ``file``.
            tail: the entries that are not in the file yet.
            written: number of the first of them.
            begin_time: as its header says, like the next two.
            max_count: how many records any query may be given.
            queries: those that were read.
            offsets: gets the CommitLog offsets of what is found, newest first.
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
        """Answer those that are FOUND from row ``first`` on, as far as it can be from one file of the log.

        Gives the first row that is not done with, where the answers end, and why it stopped: see ``DONE``.

        Args:
            constants: see ``Constants``, as for ``bounds``.
            answers: gets them from ``at`` on, one frame behind the other.
            texts: as they were read: a record that has another topic or no such key makes a query UNUSUAL.
            confirm_offset: CommitLog offset before which records are given by id.
            file: a file of the log, mapped; ``begin`` is its offset, and what it has is readable to ``end``.
            resident: as for ``find``, of that file.
        """
        ...
