"""Which records a read gives, chosen by their queue entries: the rule, in plain Python.

Records are taken in the order of their entries until a limit is reached. Limits hold from the second record
on: the first is given whatever its size. A read gives records of one file of the log only. ``store.read.get``
says what becomes of entries that a leaf operation leaves.
"""

from collections.abc import Container, Iterable, Sequence
from typing import Final, NamedTuple

from cometmq.format.checksum import Crc
from cometmq.format.consume_queue_ext import ADDRESS_MAX
from cometmq.format.queue_entry import unpack_tuples
from cometmq.format.record import MIN_SIZE
from cometmq.format.scan import is_message
from cometmq.kernels.ops import PAGE_SIZE
from cometmq.kernels.pulls.rows import LogBytes, ReadOutcome
from cometmq.message import Buffer

NOWHERE: Final = -1, -1
Entry = tuple[int, int, int]
"""CommitLog offset and size of a record, and the hash of its tag."""


class ReadLimits(NamedTuple):
    """How much a read gives at most: of records from ``near_offset`` on, and of those before it.

    Attributes:
        near_offset: a CommitLog offset; what lies before it counts as on the disk.
        memory: most records, and most bytes.
        disk: the same for what counts as on the disk.
    """

    near_offset: int
    memory: tuple[int, int]
    disk: tuple[int, int]


class ChosenRecord(NamedTuple):
    """A record that a read gives.

    Attributes:
        number: which of the entries is its.
        offset: its CommitLog offset.
        size: its size, bytes.
    """

    number: int
    offset: int
    size: int


class EntryChoice:
    """The choice of records. What is special about one is left to derived classes.

    Attributes:
        limits: how much is chosen at most.
        codes: the hashes of the wanted tags; None for any.
        begin: the CommitLog offset of the first byte of the file that records are chosen of; -1 for none yet.
        end: the one up to where that file can be read.
        chosen: the records chosen so far.
        looked_at: how many entries are done with.
        last: the CommitLog offset of the last of them, -1 if there is none.
        is_last_gone: whether the last record that was wanted is not in the log, and none is chosen.
    """

    __slots__ = (
        "begin",
        "chosen",
        "codes",
        "end",
        "gone_before",
        "is_last_gone",
        "last",
        "limits",
        "looked_at",
    )

    def __init__(
        self, limits: ReadLimits, codes: Container[int] | None, begin: int = -1, end: int = -1
    ) -> None:
        self.limits = limits
        self.codes = codes
        self.begin, self.end = begin, end
        self.chosen: list[ChosenRecord] = []
        self.looked_at = 0
        self.last = -1
        self.gone_before = 0  # CommitLog offset where the first file begins that may be there
        self.is_last_gone = False

    def go_on(self, entries: Iterable[Entry]) -> None:
        """Choose from the entries that are not done with yet, until a limit or the file's end is reached."""
        codes, chosen, (near_offset, memory, disk) = self.codes, self.chosen, self.limits
        count, total, number = len(chosen), sum([size for _, _, size in chosen]), self.looked_at
        begin, end, last = self.begin, self.end, self.last
        for offset, size, code in entries:
            if count:
                most_count, most_bytes = memory if offset >= near_offset else disk
                if count >= most_count or total + size > most_bytes:
                    break
                if begin >= 0 and not begin <= offset < end:
                    break  # in another file
            number += 1
            last = offset
            if offset < self.gone_before:
                continue
            if self.may_match(code) if code <= ADDRESS_MAX else codes is None or code in codes:
                if not begin <= offset < offset + size <= end:
                    found = self.stretch_at(offset)
                    if not found[0] <= offset < offset + size <= found[1]:
                        self.is_last_gone = self.is_last_gone or not count
                        continue
                    begin, end = found
                chosen.append(ChosenRecord(number - 1, offset, size))
                count += 1
                total += size
            elif not count:
                self.is_last_gone = False
        self.looked_at, self.last, self.begin, self.end = number, last, begin, end

    def may_match(self, address: int, /) -> bool:
        """Decide whether the record of an extended entry may be wanted."""
        raise NotImplementedError

    def stretch_at(self, offset: int, /) -> tuple[int, int]:
        """Return from where to where the file that holds an offset can be read; ``NOWHERE`` if it is gone."""
        raise NotImplementedError


class _Left(Exception):
    """The choice is not for a leaf operation."""


class _ChoiceOfOneFile(EntryChoice):
    """What a leaf operation chooses: plain entries of records of the file that is given."""

    __slots__ = ()

    def may_match(self, _: int) -> bool:
        raise _Left

    def stretch_at(self, _: int) -> tuple[int, int]:
        raise _Left


def runs_of(chosen: Iterable[ChosenRecord], begin: int) -> list[tuple[int, int]]:
    """Return position and size of the runs that records are in a file that begins at ``begin``."""
    runs: list[tuple[int, int]] = []
    run_begin = run_end = -1
    for _, offset, size in chosen:
        if offset != run_end:
            if run_end >= 0:
                runs.append((run_begin - begin, run_end - run_begin))
            run_begin = offset
        run_end = offset + size
    if run_end >= 0:
        runs.append((run_begin - begin, run_end - run_begin))
    return runs


class LeafChoice(NamedTuple):
    """What a leaf operation chose.

    Attributes:
        looked_at: how many entries are done with.
        last: the CommitLog offset of the last of them, -1 if there is none.
        chosen: the records.
        runs: position and size of the runs that they are in the file; none unless all are in memory.
        missing: those that are not known to be in memory.
    """

    outcome: ReadOutcome
    looked_at: int = 0
    last: int = -1
    chosen: Sequence[ChosenRecord] = ()
    runs: Sequence[tuple[int, int]] = ()
    missing: Sequence[ChosenRecord] = ()


LEFT: Final = LeafChoice(ReadOutcome.LEFT)


def choose(
    entries: Buffer,
    codes: Container[int] | None,
    file: LogBytes,
    limits: ReadLimits,
    queue_offset: int,
    crc: Crc,
) -> LeafChoice:
    """Choose records of one file, and check them: see ``pulls.PullOps.choose``."""
    begin = file.begin
    one = _ChoiceOfOneFile(limits, codes, begin, file.end)
    try:
        one.go_on(unpack_tuples(entries))
    except _Left:
        return LEFT
    chosen, looked_at, last = one.chosen, one.looked_at, one.last
    if not chosen:
        return LeafChoice(ReadOutcome.NONE_WANTED, looked_at, last)
    resident, data, missing = file.resident.data, file.data.data, []
    for record in chosen:
        _, offset, size = record
        if size < MIN_SIZE:
            return LEFT
        place = offset - begin
        if 0 in resident[place // PAGE_SIZE : (place + size - 1) // PAGE_SIZE + 1]:
            missing.append(record)
    if missing:
        return LeafChoice(ReadOutcome.MISSING, looked_at, last, chosen, (), missing)
    for number, offset, size in chosen:
        if not is_message(data, offset - begin, size, offset, queue_offset + number, crc):
            return LEFT
    return LeafChoice(ReadOutcome.FOUND, looked_at, last, chosen, runs_of(chosen, begin))
