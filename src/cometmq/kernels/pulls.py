"""Pulls in bulk: the data that broker, store and kernels pass each other.

One call of a kernel parses the pulls of a socket read. One call of another responds to all pulls that find
messages, from whatever connection: it selects records by their queue entries, checks them and writes the
responses. A pull with anything unusual is left to the plain path, which defines the response.
"""

import mmap
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple, Protocol

import numpy as np

from cometmq.kernels.ops import Bytes, Longs

UNUSUAL: Final = -1
"""The result for a read that is left to the plain path."""
LOOKED_AT, LAST, RUNS = range(3)
"""The items of ``outcome``: how many entries were read; the CommitLog offset of the last one's record; and
how many runs the records form, where a run is records that are adjacent in the log."""
OUTCOME_SIZE: Final = 3
PAGE_SIZE: Final = mmap.PAGESIZE

PULLS_MAX: Final = 256
"""The most pulls that one call parses or responds to."""
ANSWERS_SIZE_MAX: Final = 1 << 19
"""The most bytes of responses from one call; a longer response is left to the plain path."""
ANSWER_SIZE_MAX: Final = 256
"""The most bytes of a response besides its constant parts and its records."""

# The columns of a parsed pull's row.
(
    FRAME_AT,
    FRAME_END,
    NUMBER,  # the opaque number
    IS_BINARY,  # whether its header is a ROCKETMQ one, and so the response's
    QUEUE_OFFSET,
    MAX_COUNT,
    MAX_BYTES,
    SYS_FLAG,
    COMMIT_OFFSET,
    SUSPEND_MS,
    TARGET,  # its row in the PullTable, or NO_TARGET; then the next three describe its key
    HASH,  # the key's hash
    UNKNOWN_AT,  # where the key begins in ``unknown``
    UNKNOWN_END,  # where the key ends
    PLACE,  # where it begins in its queue: see ADDED
) = range(15)
PULL_SIZE: Final = 15
NO_TARGET: Final = -1
NO_LIMIT: Final = 2**31 - 1

# The columns of a target's row: of a group that reads a queue with a filter.
(
    QUEUE_NUMBER,  # the queue's number in the store, or NO_NUMBER
    IS_FILTERED,  # whether messages are selected by their tags
) = range(2)
TARGET_SIZE: Final = 2
NO_NUMBER: Final = 2**31
"""The number of a queue that the store does not have."""

ADDED, AT_END, OUTSIDE = range(3)
"""The values of PLACE: the pull's entries were collected; it begins at the end of its queue; or outside the
queue's offsets."""

# The columns of a window's row: of the entries read ahead from the queue whose number is the row's.
(
    FIRST,  # queue offset of the first entry
    KNOWN_END,  # queue offset after the last entry
    WINDOW_AT,  # where they begin in the bytes of all windows
    WINDOW_MIN_OFFSET,  # the queue's minimum offset
) = range(4)
WINDOW_SIZE: Final = 4

# The columns of an ask: what a pull reads, and, from COUNT on, the response to it.
(
    ASK_NUMBER,
    ASK_IS_BINARY,
    ASK_OFFSET,
    ASK_COUNT,
    ASK_BYTES,
    CODES_AT,  # where the hashes of the wanted tags begin, unless CODES_END is NO_CODES
    CODES_END,
    ENTRIES_END,  # where its entries end; they begin where those of the row before end
    COUNT,  # how many records there are, or UNUSUAL
    NEXT_OFFSET,
    MIN_OFFSET,
    MAX_OFFSET,
    ANSWER_END,
) = range(13)
ASK_SIZE: Final = 13
NO_CODES: Final = -1

DONE, ELSEWHERE, FULL = range(3)
"""Why responding stopped: at the end of the asks; because the next one's first record is in another file; or
because its response does not fit. FULL + n: because n of its records are not known to be in memory."""

# The numbers of the constants.
JSON_PIECES: Final = 0
BINARY_PIECES: Final = 6
PIECE_COUNT: Final = 13


class PullConstants(NamedTuple):
    """The bytes that are the same in all pull responses: constant ``i`` is ``data[bounds[i]:bounds[i + 1]]``.

    ::

        JSON     0 first number 1 second 2 third 3 fourth 4 opaque number 5
        binary   6 opaque number 7 length of what follows 8 first 9 second 10 third 11 fourth 12

    The first number, the suggested broker id, is always 0; the others are next, minimum and maximum offset.
    """

    data: Bytes
    bounds: Longs


def constants_of(pieces: Sequence[bytes]) -> PullConstants:
    """Join the constant parts of responses: see ``NumbersTemplate.pieces``."""
    assert len(pieces) == PIECE_COUNT
    data = np.frombuffer(b"".join(pieces), np.uint8)
    return PullConstants(data, np.array([0, *accumulate(map(len, pieces))]))


class PullOps(Protocol):
    """The bulk operations on pulls; the plain path defines the responses."""

    def read(
        self,
        data: bytes,
        start: int,
        data_end: int,
        pulls: Longs,
        places: Longs,
        unknown: Bytes,
        keys: Bytes,
        rows: Longs,
        slots: Longs,
        /,
    ) -> tuple[int, int, int]:
        """Parse the pulls of ``data`` from ``start`` on, up to the first other frame.

        Args:
            data: what a socket read returned.
            start: position of the first frame.
            data_end: position at which ``data`` is taken to end.
            pulls: int64[n, PULL_SIZE], written: a row for each pull, see ``FRAME_AT`` and the others.
            places: int64[PLACES_SIZE], scratch space for the positions of a header's fields.
            unknown: uint8[n × KEY_SIZE_MAX], written: the keys that the table does not have.
            keys, rows, slots: the arrays of a ``PullTable``.

        Returns:
            How many pulls there are; where they end; and where the frames after them end that the plain path
            must handle, the same position if ``pulls`` is full.
        """
        ...

    def ask_known(
        self,
        pulls: Longs,
        begin: int,
        count: int,
        targets: Longs,
        ends: Longs,
        windows: Longs,
        known: Bytes,
        asks: Longs,
        asked: int,
        entries: Bytes,
        entries_end: int,
        count_max: int,
        bytes_min: int,
        bytes_max: int,
        /,
    ) -> tuple[int, int, int]:
        """Collect the entries which the pulls from row ``begin`` on read, up to the first that is not usual.

        Args:
            pulls: int64[n, PULL_SIZE], from ``read``; PLACE is written.
            begin, count: the rows of ``pulls`` to read: from ``begin``, before ``count``.
            targets: int64[targets, TARGET_SIZE], see ``QUEUE_NUMBER`` and ``IS_FILTERED``.
            ends: int64[queues], for each queue's number the queue offset after its last message.
            windows: int64[queues, WINDOW_SIZE], for each queue's number the entries in ``known``: see
                ``FIRST`` and the others.
            known: uint8[], the entries of all windows, as in ConsumeQueue files.
            asks: int64[n, ASK_SIZE], written from row ``asked`` on: see ``ASK_NUMBER`` and the others.
            asked: how many rows of ``asks`` are in use.
            entries: uint8[], where the entries of the asks are written, from ``entries_end`` on.
            entries_end: how many bytes of ``entries`` are in use.
            count_max: the most messages of a response.
            bytes_min, bytes_max: the least and the most bytes that a pull may ask for; another one is not
                usual.

        Returns:
            The first row that was not processed; and the new ``asked`` and ``entries_end``.
        """
        ...

    def answer(
        self,
        constants: Bytes,
        bounds: Longs,
        codes: Longs,
        places: Longs,
        sizes: Longs,
        run_sizes: Longs,
        outcome: Longs,
        answers: Bytes,
        asks: Longs,
        entries: Bytes,
        memory_count: int,
        memory_size: int,
        disk_count: int,
        disk_size: int,
        near_offset: int,
        file: Bytes,
        resident: Bytes,
        begin: int,
        end: int,
        first: int,
        count: int,
        at: int,
        /,
    ) -> tuple[int, int, int]:
        """Respond to the asks from row ``first`` on, as long as their records are in one file of the log.

        Args:
            constants, bounds: the fields of ``PullConstants``.
            codes: int64[], the hashes of tags to which CODES_AT and CODES_END of the asks refer.
            places, sizes, run_sizes, outcome: as in ``choose``, scratch space here.
            answers: uint8[], where responses are written from ``at`` on, one frame after another; an ask that
                finds no message gets none.
            asks: int64[n, ASK_SIZE], see ``ASK_NUMBER`` and the others; COUNT, NEXT_OFFSET and ANSWER_END
                are written.
            entries: uint8[], the queue entries of all rows, each row's from its ASK_OFFSET on.
            memory_count, memory_size, disk_count, disk_size, near_offset, file, resident, begin, end: as in
                ``choose``.
            first, count: the rows of ``asks`` to respond to: from ``first``, before ``count``.
            at: position in ``answers`` of the first response.

        Returns:
            The first row without a response, where the responses end, and why it stopped: see ``DONE``.
        """
        ...

    def choose(
        self,
        entries: Bytes,
        codes: Longs,
        is_filtered: bool,
        file: Bytes,
        resident: Bytes,
        begin: int,
        end: int,
        queue_offset: int,
        near_offset: int,
        memory_count: int,
        memory_size: int,
        disk_count: int,
        disk_size: int,
        places: Longs,
        sizes: Longs,
        run_sizes: Longs,
        outcome: Longs,
        /,
    ) -> int:
        """Select records by their queue entries until a limit is reached, and check each.

        Args:
            entries: uint8[20 × n], the queue's entries from ``queue_offset`` on, as in ConsumeQueue files.
            codes: int64[], the hashes of the wanted tags.
            is_filtered: whether ``codes`` counts; if not, all messages are wanted.
            file: uint8[], a mapped file of the log.
            resident: uint8[pages], for each page of ``file`` 1 if it is known to be in memory, else 0; no
                other pages are read.
            begin: CommitLog offset of the file's first byte.
            end: CommitLog offset up to which the file is readable.
            queue_offset: queue offset of the first entry.
            near_offset: CommitLog offset from which on the limits for memory hold, before it those for disk.
            memory_count, disk_count: the most messages.
            memory_size, disk_size: the most bytes, except that one message is always allowed.
            places: int64[m], written: the position in the file of each run, in bytes.
            sizes: int64[m], written: the size of each record, in bytes.
            run_sizes: int64[m], written: the size of each run, in bytes.
            outcome: int64[max(m, OUTCOME_SIZE)], written: see ``LOOKED_AT`` and the others.

        Returns:
            How many records were selected; UNUSUAL; or UNUSUAL - n if n of them are not known to be in
            memory, whose positions and sizes are in ``places`` and ``sizes`` then.
        """
        ...
