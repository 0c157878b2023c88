"""The operations on pulls in plain Python: the definition, and what serves until others are loaded.

Which records a read gives is chosen by their queue entries, in whose order they are taken until a limit is
reached. Limits hold from the second record on: the first is given whatever its size. A read gives records of
one file of the log only. ``store.read.get`` says what becomes of entries that a leaf operation leaves.
"""

from collections.abc import Container, Iterable, Sequence
from struct import Struct
from typing import Final, NamedTuple

import numpy as np

from cometmq.errors import CometMQError
from cometmq.format.checksum import Crc
from cometmq.format.consume_queue_ext import ADDRESS_MAX
from cometmq.format.queue_entry import SIZE, unpack_tuples
from cometmq.format.record import MIN_SIZE
from cometmq.format.scan import is_message
from cometmq.kernels.arrays import PAGE_SIZE, Bytes, Longs
from cometmq.kernels.frames.rows import Frames
from cometmq.kernels.pulls import rows as r
from cometmq.kernels.pulls.rows import (
    AnswerRoom,
    AnswerStop,
    Asks,
    Choice,
    Constants,
    KnownEntries,
    LogBytes,
    Pull,
    PullRows,
    PullState,
    ReadOutcome,
)
from cometmq.kernels.text.key_table import NO_ROW, OWN, KeyTable
from cometmq.message import Buffer
from cometmq.wire.frame import Command
from cometmq.wire.headers import PullFlag, PullHeader, parse

_PULL: Final = Struct(f"{len(Pull._fields)}q")
_ASK: Final = Struct(f"{r.ASK_SIZE}q")  # a row is packed in a third of the time that numpy takes to set it
_KEY_START: Final = Struct(">iiqiiii")
_ABSENT: Final = -1
_LEFT: Final = ReadOutcome.LEFT
_DONE: Final = AnswerStop.DONE

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
        gone_before: the CommitLog offset where the first file begins that may be there.
        is_last_gone: while none is chosen, whether the last record that was wanted is not in the log.
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
        self.gone_before = 0
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


def choose(
    entries: Buffer,
    codes: Container[int] | None,
    file: LogBytes,
    limits: ReadLimits,
    queue_offset: int,
    crc: Crc,
) -> LeafChoice:
    """Choose records of one file, and check them: see ``rows.PullOps.choose``."""
    begin = file.begin
    one = _ChoiceOfOneFile(limits, codes, begin, file.end)
    try:
        one.go_on(unpack_tuples(entries))
    except _Left:
        return LeafChoice(_LEFT)
    chosen, looked_at, last = one.chosen, one.looked_at, one.last
    if not chosen:
        return LeafChoice(ReadOutcome.NONE_WANTED, looked_at, last)
    resident, data, missing = file.resident.data, file.data.data, []
    for record in chosen:
        _, offset, size = record
        if size < MIN_SIZE:
            return LeafChoice(_LEFT)
        place = offset - begin
        if 0 in resident[place // PAGE_SIZE : (place + size - 1) // PAGE_SIZE + 1]:
            missing.append(record)
    if missing:
        return LeafChoice(ReadOutcome.MISSING, looked_at, last, chosen, (), missing)
    for number, offset, size in chosen:
        if not is_message(data, offset - begin, size, offset, queue_offset + number, crc):
            return LeafChoice(_LEFT)
    return LeafChoice(ReadOutcome.FOUND, looked_at, last, chosen, runs_of(chosen, begin))


class PlainPulls:
    """The plain body of the operations (a ``rows.PullOps``).

    Args:
        crc: the checksum by which records are checked.
    """

    def __init__(self, crc: Crc) -> None:
        self._crc = crc

    def read(self, frames: Frames, first: int, last: int, into: PullRows, table: KeyTable, /) -> int:
        """Read pulls: see ``rows.PullOps.read``."""
        keys_end = 0
        for number in range(first, last):
            command = frames.request(number)
            try:
                header = parse(PullHeader, command.ext_fields)
            except CometMQError:
                return number - first  # as a command it is refused
            if (key := key_of(command.code, header)) is None:
                return number - first
            pull = row_of(command, header)._replace(frame=number, target=table.numbers.get(key, NO_ROW))
            if pull.target == NO_ROW:
                into.keys[keys_end : keys_end + len(key)] = np.frombuffer(key, np.uint8)
                pull = pull._replace(key_at=keys_end, key_end=keys_end + len(key))
                keys_end += len(key)
            _PULL.pack_into(into.array.data, (number - first) * _PULL.size, *pull)
        return last - first

    def ask_known(
        self, pulls: PullRows, begin: int, end: int, table: KeyTable, known: KnownEntries, asks: Asks, /
    ) -> int:
        """Ask for what is known: see ``rows.PullOps.ask_known``."""
        count_max, bytes_min, bytes_max = asks.limits.tolist()
        states = pulls.array["state"]
        for number, pull in enumerate(map(Pull._make, pulls.array[begin:end].tolist()), begin):
            if pull.target == NO_ROW:
                return number
            queue, is_filtered = table.rows[pull.target, OWN:].tolist()
            offset, size = pull.queue_offset, pull.max_bytes
            if queue >= len(known.ends):
                return number
            queue_end = int(known.ends[queue])
            if 0 < offset == queue_end:
                states[number] = PullState.AT_END
                continue
            if is_filtered or not bytes_min <= size <= bytes_max or queue >= len(known.windows):
                return number
            window, wanted = known.windows[queue].tolist(), max(pull.max_count, 1)
            known_end = min(offset + min(wanted, count_max), queue_end)
            first = max(window[r.FIRST], window[r.WINDOW_MIN_OFFSET])
            if not first <= offset < known_end <= window[r.KNOWN_END]:
                return number
            begin_at, entries_size = asks.entries_end, (known_end - offset) * SIZE
            if asks.asked == len(asks.rows) or begin_at + entries_size > len(asks.entries):
                return number
            at = window[r.WINDOW_AT] + (offset - window[r.FIRST]) * SIZE
            asks.entries_end = begin_at + entries_size
            asks.entries[begin_at : asks.entries_end] = known.entries[at : at + entries_size]
            asked = pull.opaque, pull.is_binary, offset, wanted, size, 0, r.NO_CODES, asks.entries_end
            answered = _LEFT, 0, 0, window[r.WINDOW_MIN_OFFSET], queue_end, 0
            _ASK.pack_into(asks.rows.data, asks.asked * _ASK.size, *asked, *answered)
            asks.asked += 1
            states[number] = PullState.ASKED
        return end

    def choose(
        self, entries: Bytes, codes: Longs | None, file: LogBytes, queue_offset: int, out: AnswerRoom, /
    ) -> Choice:
        """Choose records, check and copy them: see ``rows.PullOps.choose``."""
        chosen, records = out.chosen, out.data
        wanted = None if codes is None else frozenset(codes.tolist())
        within = _within(out.limits.tolist(), r.NO_LIMIT, r.NO_LIMIT)
        found = choose(entries.data, wanted, file, within, queue_offset, self._crc)
        for row, record in zip(chosen, found.chosen, strict=False):
            place, number = record.offset - file.begin, queue_offset + record.number
            row[r.RECORD_AT : r.RECORD_NUMBER + 1] = place, record.size, number
        for row, run in zip(chosen, found.runs, strict=False):
            row[r.RUN_AT : r.RUN_SIZE + 1] = run
        _put_missing(found, file, chosen)
        size = sum([size for _, size in found.runs])
        if size <= len(records):
            data = file.data.data
            _put(records.data, 0, b"".join([data[place : place + size] for place, size in found.runs]))
        counts = len(found.runs), len(found.missing), size
        return Choice(found.outcome, len(found.chosen), found.looked_at, found.last, *counts)

    def answer(
        self, asks: Asks, out: AnswerRoom, file: LogBytes, first: int, at: int, /
    ) -> tuple[int, int, AnswerStop, int]:
        """Answer pulls: see ``rows.PullOps.answer``."""
        bounds, answers, data, entries = out.limits.tolist(), out.data.data, file.data.data, asks.entries.data
        room = len(answers) - r.ANSWER_SIZE_MAX - len(out.constants.data)
        begin = int(asks.rows[first - 1, r.ENTRIES_END]) if first else 0
        rows, row, stop, missing_count = asks.rows[first : asks.asked].tolist(), first, _DONE, 0
        for ask in rows:
            ask[r.OUTCOME], ask[r.COUNT], ask[r.ANSWER_END] = _LEFT, 0, at
            own, begin = entries[begin : ask[r.ENTRIES_END]], ask[r.ENTRIES_END]
            if own:
                if not file.begin <= int.from_bytes(own[:8], "big") < file.end:
                    stop = AnswerStop.ELSEWHERE
                    break
                codes = None
                if ask[r.CODES_END] != r.NO_CODES:
                    codes = frozenset(asks.codes[ask[r.CODES_AT] : ask[r.CODES_END]].tolist())
                within = _within(bounds, ask[r.ASK_COUNT], ask[r.ASK_BYTES])
                found = choose(own, codes, file, within, ask[r.ASK_OFFSET], self._crc)
                if found.missing:
                    stop, missing_count = AnswerStop.MISSING, len(found.missing)
                    _put_missing(found, file, out.chosen)
                    break
                size = sum([size for _, size in found.runs])
                if size and at + size > room:
                    stop = AnswerStop.FULL
                    break
                if found.outcome is not _LEFT:
                    ask[r.OUTCOME], ask[r.COUNT] = found.outcome, len(found.chosen)
                    ask[r.NEXT_OFFSET] = ask[r.ASK_OFFSET] + found.looked_at
                if size:
                    start = _answer_start(ask, size, out.constants)
                    runs = [data[place : place + size] for place, size in found.runs]
                    at = _put(answers, at, b"".join((start, *runs)))
                    ask[r.ANSWER_END] = at
            row += 1
        for number, ask in enumerate(rows, first):
            _ASK.pack_into(asks.rows.data, number * _ASK.size, *ask)
        return row, at, stop, missing_count


def _put(out: memoryview, at: int, data: bytes) -> int:
    """Write bytes; returns where the next go."""
    end = at + len(data)
    out[at:end] = data
    return end


def _put_missing(found: LeafChoice, file: LogBytes, chosen: Longs) -> None:
    for row, record in zip(chosen, found.missing, strict=False):
        row[r.MISSING_AT : r.MISSING_SIZE + 1] = record.offset - file.begin, record.size


def row_of(command: Command, header: PullHeader) -> Pull:
    """Return the row of a pull whose target is not looked up."""
    is_committed = header.sys_flag & PullFlag.COMMIT_OFFSET
    return Pull(
        frame=0,
        opaque=command.opaque,
        is_binary=int(command.serialize_type),
        queue_offset=header.queue_offset,
        max_count=header.max_message_count,
        max_bytes=r.NO_LIMIT if header.max_message_bytes is None else header.max_message_bytes,
        sys_flag=header.sys_flag,
        commit_offset=header.commit_offset if is_committed else r.NOTHING_TO_COMMIT,
        suspend_ms=header.suspend_timeout_ms,
        target=NO_ROW,
        key_at=0,
        key_end=0,
        state=PullState.ASKED,
    )


def key_of(code: int, header: PullHeader) -> bytes | None:
    """Return all of a header that says what its pull may be given, None if it is too long.

    That is its code, queue, group and topic, and the filter that is sent along or the version of the one
    that the group has subscribed to.
    """
    is_sent_along = header.sys_flag & PullFlag.SUBSCRIPTION
    texts: Sequence[str | None] = header.consumer_group, header.topic
    if is_sent_along:
        texts = *texts, header.subscription, header.expression_type
    else:
        texts = *texts, None, None
    parts = [None if text is None else text.encode(errors="surrogatepass") for text in texts]
    start = _KEY_START.pack(
        code << 8 | is_sent_along,
        header.queue_id,
        0 if is_sent_along else header.sub_version,
        *[_ABSENT if part is None else len(part) for part in parts],
    )
    key = b"".join((start, *filter(None, parts)))
    return None if len(key) + 8 > r.KEY_SIZE_MAX else key


def _within(bounds: list[int], most_count: int, most_bytes: int) -> ReadLimits:
    """Return the bounds of a read, tightened by what its pull asks for."""
    _, _, near_offset, memory_count, memory_size, disk_count, disk_size = bounds
    if most_count < memory_count or most_count < disk_count:
        memory_count, disk_count = min(most_count, memory_count), min(most_count, disk_count)
    if most_bytes < memory_size or most_bytes < disk_size:
        memory_size, disk_size = min(most_bytes, memory_size), min(most_bytes, disk_size)
    return ReadLimits(near_offset, (memory_count, memory_size), (disk_count, disk_size))


def _answer_start(ask: list[int], body_size: int, constants: Constants) -> bytes:
    """Return the frame that answers what was asked, up to its body: see ``rows.Constants``."""
    assert constants.template is not None
    numbers = r.SUGGESTED_BROKER, ask[r.NEXT_OFFSET], ask[r.MIN_OFFSET], ask[r.MAX_OFFSET]
    return constants.template.start(ask[r.ASK_NUMBER], numbers, body_size, is_binary=ask[r.ASK_IS_BINARY])
