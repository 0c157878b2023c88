"""Pulls in bulk: what a broker, a store and the kernels of pulls pass each other.

The pulls of a socket read are read by one call of a kernel. Those that find something are answered by one of
another, whoever they come from: it chooses records by their queue entries, checks them and writes answers. A
pull with anything unusual about it is left to the plain path, which is the definition of what it is answered.
"""

import mmap
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple, Protocol

import numpy as np

from cometmq.kernels.ops import Bytes, Longs

UNUSUAL: Final = -1
"""What a choice gives where it is to be made the plain way."""
LOOKED_AT, LAST, RUNS = range(3)
"""What a choice tells: how many entries are done with; where the last one's record lies in the CommitLog; and
how many runs the records are: those that lie side by side are one."""
TOLD: Final = 3
PAGE_SIZE: Final = mmap.PAGESIZE

PULLS_MAX: Final = 256
"""So many pulls are read, and answered, together."""
ANSWERS_SIZE_MAX: Final = 1 << 19
"""So many bytes of answers are made together. One that is longer is none for this path."""
ANSWER_SIZE_MAX: Final = 256
"""What an answer takes at most, but for its constant parts and its records."""

# A pull that was read: its row's numbers.
(
    FRAME_AT,
    FRAME_END,
    NUMBER,  # the opaque one
    IS_BINARY,  # whether the header is a ROCKETMQ one, and so the answer's
    QUEUE_OFFSET,
    MAX_COUNT,
    MAX_BYTES,
    SYS_FLAG,
    COMMIT_OFFSET,
    SUSPEND_MS,
    TARGET,  # what the table has for it, or NO_TARGET; then …
    HASH,  # … the key's hash, …
    UNKNOWN_AT,  # … and where it stands
    UNKNOWN_END,
    PLACE,  # what is said of where it begins: see ADDED
) = range(15)
PULL_SIZE: Final = 15
NO_TARGET: Final = -1
NO_LIMIT: Final = 2**31 - 1

# A target, as far as kernels know it.
(
    QUEUE_NUMBER,  # in the store, or NO_NUMBER
    IS_FILTERED,  # whether messages are wanted by their tags
) = range(2)
TARGET_SIZE: Final = 2
NO_NUMBER: Final = 2**31
"""In place of a queue's number: no queue has it."""

ADDED, AT_END, OUTSIDE = range(3)
"""What becomes of a pull: it will be answered; it begins where its queue's messages end; or elsewhere, where
nothing is."""

# Entries of a queue that are known, by its number: a row of a table.
(
    FIRST,  # queue offset of the first one
    KNOWN_END,  # the one behind the last
    WINDOW_AT,  # where they lie among the entries of all
    WINDOW_MIN_OFFSET,  # the queue's first offset
) = range(4)
WINDOW_SIZE: Final = 4

# What is asked, and what it was answered.
(
    ASK_NUMBER,
    ASK_IS_BINARY,
    ASK_OFFSET,
    ASK_COUNT,
    ASK_BYTES,
    CODES_AT,  # the hashes of the wanted tags, if CODES_END is not NO_CODES
    CODES_END,
    ENTRIES_END,  # they begin where those of the row before end
    COUNT,  # how many records, or UNUSUAL
    NEXT_OFFSET,
    MIN_OFFSET,
    MAX_OFFSET,
    ANSWER_END,
) = range(13)
ASK_SIZE: Final = 13
NO_CODES: Final = -1

DONE, ELSEWHERE, FULL = range(3)
"""Why no more is answered: there is no more; the next one's first record lies in another file; or there is no
room for its answer. Above them: how many records, FULL less, are not known to be in memory."""

# Which constants there are.
JSON_PIECES: Final = 0
BINARY_PIECES: Final = 6
PIECE_COUNT: Final = 13


class Constants(NamedTuple):
    """What is the same in all answers: ``data[bounds[i]:bounds[i + 1]]`` is the i-th constant.

    ::

        JSON     0 first number 1 second 2 third 3 fourth 4 opaque number 5
        binary   6 opaque number 7 length of what follows 8 first 9 second 10 third 11 fourth 12

    The first number is always 0, the others are where to go on, and the queue's first and next offsets.
    """

    data: Bytes
    bounds: Longs


def constants_of(pieces: Sequence[bytes]) -> Constants:
    """Put the constants together: see ``NumbersTemplate.pieces``."""
    assert len(pieces) == PIECE_COUNT
    return Constants(np.frombuffer(b"".join(pieces), np.uint8), np.array([0, *accumulate(map(len, pieces))]))


class PullOps(Protocol):
    """The operations on pulls; the plain way defines what they do."""

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
        """Read the pulls at ``start``, up to the first other frame.

        Gives how many; where they end; and where the frames after them end that are to be handled otherwise,
        the same if there is no more room.

        Args:
            data_end: up to where ``data`` is looked at.
            pulls: gets a row for each, see ``FRAME_AT`` and the others.
            places: room for where the fields of a header are.
            unknown: gets the keys that the table does not have; KEY_SIZE_MAX bytes for each row.
            keys: see ``PullTable``, as for ``rows`` and ``slots``.
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
        """Ask for what pulls want from row ``begin`` on, up to the first whose queue's entries are not known.

        Gives which one that is, ``count`` if none; and ``asked`` and ``entries_end`` as they are then.

        Args:
            pulls: see ``FRAME_AT`` and the others; each gets its PLACE.
            targets: a row for each, see ``QUEUE_NUMBER`` and the other.
            ends: where the messages of queues end, by the queues' numbers.
            windows: see ``FIRST`` and the others, by the queues' numbers; of the entries in ``known``.
            asks: gets what is asked from row ``asked`` on, while there is room.
            entries: gets entries from ``entries_end`` on, while there is room.
            count_max: no answer has more messages.
            bytes_min: a pull that asks for fewer bytes is left, and one for more than ``bytes_max``.
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
        told: Longs,
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
        """Answer what is asked in rows ``first`` to before ``count``, as far as it can be from one file.

        Gives the first row that is not answered, where the answers end, and why it stopped: see ``DONE``.

        Args:
            constants: see ``Constants``, as for ``bounds``.
            codes: the hashes of tags that the rows refer to.
            places: as for ``choose``; so are ``sizes``, ``run_sizes``, ``told``, ``file`` and others.
            answers: gets them from ``at`` on, one frame behind the other; none for those that found nothing.
            asks: see ``ASK_NUMBER`` and the others; gets COUNT, NEXT_OFFSET and ANSWER_END.
            entries: of all rows; those of one from its offset on.
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
        told: Longs,
        /,
    ) -> int:
        """Choose records by their queue entries until a limit is reached, and check each.

        Args:
            entries: those from ``queue_offset`` on.
            codes: the hashes of the wanted tags, if ``is_filtered``.
            file: a file of the log, mapped; ``begin`` is its offset, and what it has is readable to ``end``.
            resident: a byte for each page of it: whether it is known to be in memory. No other is touched.
            near_offset: CommitLog offset before which the limits for the disk hold, then those for memory.
            places: gets the position of each run in the file, …
            run_sizes: … and its size.
            sizes: gets the size of each record.
            told: gets what ``LOOKED_AT``, … name; as long as these three, and at least ``TOLD``.

        Returns:
            How many records; UNUSUAL; or UNUSUAL - n if n are not known to be in memory: those at ``places``,
            of ``sizes``.
        """
        ...
