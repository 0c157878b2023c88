"""Pulls as rows: what a broker, a store and the leaf operations on pulls pass each other.

Numbers travel in int64 arrays whose columns are named here. Each operation has a plain body (``plain``,
the readable definition) and a compiled one (``compiled``); both give the same for the same arguments.
A pull that a leaf leaves to others is no error: it is answered by a reading, see ``store.read.get``.
"""

from enum import IntEnum
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cometmq.kernels.arrays import ArrayTable, Bytes, Longs, joined
from cometmq.kernels.frames.rows import Frames
from cometmq.kernels.text.key_table import OWN, KeyTable
from cometmq.wire.template import NumbersTemplate

PULLS_MAX: Final = 256
"""So many pulls are read, and answered, together."""
ANSWERS_SIZE_MAX: Final = 1 << 19
"""So many bytes of answers are made together. A pull whose answer is longer is left to a reading."""
ANSWER_SIZE_MAX: Final = 256
"""What an answer takes at most, but for its constant parts and its records, bytes."""

NO_LIMIT: Final = 2**31 - 1
"""No read gives so many records, or bytes: all are of one file of the log, which is no longer."""
NOTHING_TO_COMMIT: Final = -1


class PullState(IntEnum):
    """What has become of a pull that was read."""

    ASKED = 0
    """The store has been asked for its messages."""
    AT_END = 1
    """It begins where its queue's messages end."""
    OUTSIDE = 2
    """It begins elsewhere, where nothing is."""
    RARE = 3
    """The store's leaf operations cannot answer it: a reading does."""
    DECIDED = 4
    """Its answer is known without the store: it is refused, or its offset was reset."""


class Pull(NamedTuple):
    """A pull that was read.

    Attributes:
        frame: the row of its frame.
        opaque: the opaque number.
        is_binary: whether the header is a ROCKETMQ one, and so the answer's.
        commit_offset: NOTHING_TO_COMMIT if nothing is to be committed.
        state: a PullState.
        target: the number that the table has for its key, or NO_ROW; then …
        key_at, key_end: … where the key stands.
    """

    frame: int
    opaque: int
    is_binary: int
    queue_offset: int
    max_count: int
    max_bytes: int
    sys_flag: int
    commit_offset: int
    suspend_ms: int
    state: int
    target: int
    key_at: int
    key_end: int


PULL: Final = np.dtype([(name, np.int64) for name in Pull._fields])
"""The dtype of a Pull."""
TARGET: Final = Pull._fields.index("target")


# The columns of a target's row in the ``KeyTable``. What its key holds is known only to ``plain.key_of``
# and to the kernel that reads pulls; the broker has the targets themselves, by their numbers.
(
    QUEUE_NUMBER,  # in the store, or NO_NUMBER
    IS_FILTERED,  # whether messages are wanted by their tags
) = range(OWN, OWN + 2)
KEY_SIZE_MAX: Final = 1024
"""The most bytes of a key; a pull with a longer one is a command."""
NO_NUMBER: Final = 2**31
"""In place of a queue's number: no queue has it."""

# The columns of the entries of a queue that are known; the row is the queue's number.
(
    FIRST,  # queue offset of the first one
    KNOWN_END,  # the one behind the last
    WINDOW_AT,  # where they lie among the entries of all
    WINDOW_MIN_OFFSET,  # the queue's first offset
) = range(4)
WINDOW_SIZE: Final = 4

# The columns of what the store is asked, and of what came of it.
(
    ASK_NUMBER,
    ASK_IS_BINARY,
    ASK_OFFSET,
    ASK_COUNT,
    ASK_BYTES,
    CODES_AT,  # the hashes of the wanted tags, if CODES_END is not NO_CODES
    CODES_END,
    ENTRIES_END,  # its entries begin where those of the row before end
    OUTCOME,  # a ReadOutcome: FOUND, NONE_WANTED or LEFT
    COUNT,  # how many records
    NEXT_OFFSET,
    MIN_OFFSET,
    MAX_OFFSET,
    ANSWER_END,
) = range(14)
ASK_SIZE: Final = 14
NO_CODES: Final = -1


class ReadOutcome(IntEnum):
    """How the choice of a read's records ended."""

    LEFT = 0
    """The choice is not for a leaf operation: see ``store.read.get``."""
    FOUND = 1
    NONE_WANTED = 2
    """None of the records is wanted."""
    MISSING = 3
    """Some records are not known to be in memory."""


class AnswerStop(IntEnum):
    """Why no more of what is asked is answered."""

    DONE = 0
    ELSEWHERE = 1
    """The next one's first record lies in another file."""
    FULL = 2
    """There is no room for the next one's answer."""
    MISSING = 3
    """Some of the next one's records are not known to be in memory."""


# The columns of what a choice fills: a row for each record, run, or record that is missing.
(
    RECORD_AT,  # position in the file
    RECORD_SIZE,
    RECORD_NUMBER,  # its queue offset
    RUN_AT,  # records that lie side by side are one run
    RUN_SIZE,
    MISSING_AT,  # records that are not known to be in memory
    MISSING_SIZE,
) = range(7)
CHOSEN_SIZE: Final = 7

# What bounds a read of one file of the log: the numbers of one array.
(
    FILE_BEGIN,  # the CommitLog offset of the file's first byte
    FILE_END,  # the one up to where it can be read
    NEAR_OFFSET,  # the one from which the limits for memory hold; before it those for the disk do
    MEMORY_COUNT,
    MEMORY_SIZE,
    DISK_COUNT,
    DISK_SIZE,
) = range(7)

# What bounds the pulls that are asked for by what is known: the numbers of one array.
(
    ASK_COUNT_MAX,  # no answer has more messages
    ASK_BYTES_MIN,  # a pull that asks for fewer bytes is left
    ASK_BYTES_MAX,  # so is one that asks for more
) = range(3)
ASK_LIMITS_SIZE: Final = 3

NO_TAGS: Final[Longs] = np.empty(0, np.int64)
"""No hashes of tags."""

PULLS, NEW_KEYS = range(2)
"""The arrays of ``PullRows.table``."""
ENDS, WINDOWS, KNOWN = range(3)
"""The arrays of ``KnownEntries.table``."""
ASKS, ENTRIES, CODES, ASK_LIMITS = range(4)
"""The arrays of ``Asks.table``."""
DATA, CHOSEN, LIMITS, CONSTANTS, BOUNDS = range(5)
"""The arrays of ``AnswerRoom.table``."""

SUGGESTED_BROKER: Final = 0
"""The broker that answers suggest to pull from next: the master."""
PIECE_COUNT: Final = 13
"""How many constants there are."""


class LogBytes(NamedTuple):
    """A file of the log, mapped.

    Attributes:
        data: its bytes.
        resident: a byte for each page of ``data``: whether it is known to be in memory.
        begin: the CommitLog offset of its first byte.
        end: the CommitLog offset up to where it can be read.
    """

    data: Bytes
    resident: Bytes
    begin: int
    end: int


class Constants(NamedTuple):
    """What is the same in all answers: ``data[bounds[i]:bounds[i + 1]]`` is the i-th constant.

    ::

        JSON     0 first number 1 second 2 third 3 fourth 4 opaque number 5
        binary   6 opaque number 7 length of what follows 8 first 9 second 10 third 11 fourth 12

    The first number is SUGGESTED_BROKER; the others are where to go on, and the queue's first and next
    offsets.

    Attributes:
        template: encodes the answers.
    """

    data: Bytes
    bounds: Longs
    template: NumbersTemplate | None


NO_CONSTANTS: Final = Constants(np.empty(0, np.uint8), np.zeros(1, np.int64), None)
"""Those of a room for records without answers."""


def constants_of(template: NumbersTemplate) -> Constants:
    """Join the constant parts of the answers that a template of four numbers encodes."""
    pieces = template.pieces()
    assert len(pieces) == PIECE_COUNT
    return Constants(*joined(pieces), template)


class PullRows:
    """Room for the pulls of a socket read.

    Attributes:
        array: PULL[], a row for each pull.
        numbers: int64[pulls, fields], the same.
        keys: gets the keys that the table does not have: see ``Pull.key_at``.
        table: these arrays: see ``PULLS`` and the other.
    """

    def __init__(self, count: int = PULLS_MAX) -> None:
        self.array: NDArray[np.void] = np.zeros(count, PULL)
        self.numbers: Longs = self.array.view(np.int64).reshape(count, -1)
        self.keys: Bytes = np.zeros(count * KEY_SIZE_MAX, np.uint8)
        self.table = ArrayTable(self.array, self.keys)


class KnownEntries:
    """What is known of queues without a look at them.

    Attributes:
        ends: int64, where the messages of queues end, by the queues' numbers.
        windows: int64, a row for each queue's number: see ``FIRST`` and the others.
        entries: the entries that ``windows`` are of.
        table: these arrays: see ``ENDS`` and the others.
    """

    __slots__ = ("ends", "entries", "table", "windows")

    def __init__(self, ends: Longs, windows: Longs, entries: Bytes) -> None:
        self.ends = ends
        self.windows = windows
        self.entries = entries
        self.table = ArrayTable(ends, windows, entries)


class Asks:
    """What the store is asked, so far.

    Attributes:
        rows: int64, see ``ASK_NUMBER`` and the others; those from ``asked`` on are room.
        entries: the queue entries of all rows, up to ``entries_end``; the others are room.
        limits: int64, see ``ASK_COUNT_MAX`` and the others.
        codes: int64, hashes of tags, those of each row side by side.
        table: these arrays: see ``ASKS`` and the others.
    """

    __slots__ = ("asked", "codes", "entries", "entries_end", "limits", "rows", "table")

    def __init__(self, rows: Longs, entries: Bytes, limits: Longs, codes: Longs = NO_TAGS) -> None:
        self.table = ArrayTable(rows, entries, codes, limits)
        self.limits = limits
        self.set_rows(rows)
        self.set_entries(entries)
        self.set_codes(codes)
        self.asked = self.entries_end = 0

    def set_rows(self, rows: Longs) -> None:
        """Replace the rows."""
        self.rows = rows
        self.table.put(ASKS, rows)

    def set_entries(self, entries: Bytes) -> None:
        """Replace the entries."""
        self.entries = entries
        self.table.put(ENTRIES, entries)

    def set_codes(self, codes: Longs) -> None:
        """Replace the hashes of tags."""
        self.codes = codes
        self.table.put(CODES, codes)


class AnswerRoom:
    """Room for answers, or for records without one, and what bounds the choice of records.

    Attributes:
        data: gets answers or records.
        chosen: int64[most records, CHOSEN_SIZE], room for a choice: see ``RECORD_AT`` and the others.
        limits: int64, see ``FILE_BEGIN`` and the others.
        constants: what is the same in all answers.
        table: these arrays: see ``DATA`` and the others.
    """

    __slots__ = ("chosen", "constants", "data", "limits", "table")

    def __init__(
        self, data: Bytes, chosen: Longs, limits: Longs, constants: Constants = NO_CONSTANTS
    ) -> None:
        self.data = data
        self.chosen = chosen
        self.limits = limits
        self.constants = constants
        self.table = ArrayTable(data, chosen, limits, constants.data, constants.bounds)


class Choice(NamedTuple):
    """Which records a read gives; of a choice that is LEFT, the other numbers are the defaults.

    Attributes:
        record_count: how many records are chosen.
        looked_at: how many entries are done with.
        last: the CommitLog offset of the last of them, -1 if there is none.
        run_count: how many runs the records are; 0 unless FOUND.
        missing_count: how many records are not known to be in memory.
        size: how many bytes the records are; 0 unless FOUND.
    """

    outcome: ReadOutcome
    record_count: int = 0
    looked_at: int = 0
    last: int = -1
    run_count: int = 0
    missing_count: int = 0
    size: int = 0


class PullOps(Protocol):
    """The leaf operations on pulls."""

    def read(self, frames: Frames, first: int, last: int, into: PullRows, table: KeyTable, /) -> int:
        """Read the pulls of some frames from row ``first`` on, up to one with an unusual number or key.

        What is made of that one as a command is the same.

        Args:
            frames: those of ``first`` up to before ``last`` are pulls of one read; there is room for them.
            table: has the targets that are known.

        Returns:
            How many pulls.
        """
        ...

    def ask_known(
        self, pulls: PullRows, begin: int, end: int, table: KeyTable, known: KnownEntries, asks: Asks, /
    ) -> int:
        """Ask for what pulls want from row ``begin`` to ``end``, up to the first that it leaves.

        It leaves one whose target or whose queue's entries are not known, that wants messages by their tags
        or an unusual number of bytes, or for which there is no room. One that begins where its queue
        ends is AT_END, and passed over.

        Args:
            pulls: as ``read`` makes them; each that is asked for or passed over gets its state.
            table: has the targets: see ``QUEUE_NUMBER`` and the other.
            asks: gets rows and entries, while there is room.

        Returns:
            Which one that is, ``end`` if there is none.
        """
        ...

    def choose(
        self,
        entries: Bytes,
        codes: Longs | None,
        file: LogBytes,
        queue_offset: int,
        out: AnswerRoom,
        /,
    ) -> Choice:
        """Choose records by their queue entries until a limit is reached, check each, and copy them.

        Args:
            entries: those from ``queue_offset`` on, 20 bytes each.
            codes: int64, the hashes of the wanted tags; None for any.
            file: where the records are; pages not known to be in memory are not touched.
            out: gets the runs, or what is missing; and the records, one behind the other, if it has room for
                all.
        """
        ...

    def answer(
        self, asks: Asks, out: AnswerRoom, file: LogBytes, first: int, at: int, /
    ) -> tuple[int, int, AnswerStop, int]:
        """Answer what is asked in rows from ``first`` on, as far as it can be from one file.

        Args:
            asks: its rows get OUTCOME, COUNT and ANSWER_END, and unless they are LEFT, NEXT_OFFSET.
            out: gets the answers from ``at`` on, one frame behind the other; none where nothing is found.

        Returns:
            The first row that is not answered; where the answers end; why it stopped; and how many records
            are not known to be in memory, if that is why.
        """
        ...
