"""Read messages of a queue: from a queue offset, within limits, through a filter.

Status of a read and the offset of the next one; the first row that fits applies:

=========================================  =======================  =====================================
Condition                                  Status                   Next offset
=========================================  =======================  =====================================
no such queue                              NO_MATCHED_LOGIC_QUEUE   0
the queue never had a message              NO_MESSAGE_IN_QUEUE      0
offset before the first message            OFFSET_TOO_SMALL         of the first message
offset right behind the last message       OFFSET_OVERFLOW_ONE      the same
offset further behind                      OFFSET_OVERFLOW_BADLY    right behind the last message
the file of the entries is missing         OFFSET_FOUND_NULL        the first of the next file
a message that matches                     FOUND                    behind the last entry examined
no match; the last record examined is      MESSAGE_WAS_REMOVING     behind the last entry examined
deleted or damaged
no match                                   NO_MATCHED_MESSAGE       behind the last entry examined
=========================================  =======================  =====================================

Limits hold from the second message on: the first is returned whatever its size. Tighter limits hold for
records that count as on disk: those further behind the end of the log than a share of the machine's memory.
A read ends with the queue file that it begins in, and returns records of one file of the log only.

Source: RocketMQ ``store/DefaultMessageStore.java`` (getMessage), ``store/GetMessageStatus.java``.
"""

from collections.abc import Container, Mapping
from typing import Final, Protocol

from cometmq.format.consume_queue_ext import ADDRESS_MAX, ExtUnit
from cometmq.format.queue_entry import SIZE, unpack_tuples
from cometmq.kernels.pulls.plain import NOWHERE, EntryChoice, runs_of
from cometmq.message import Buffer
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.read.get_result import GetResult, GetStatus, split
from cometmq.store.read.limits import GetLimits
from cometmq.store.read.read_check import sound_records
from cometmq.store.read.resident_reads import ResidentReads, next_queue_file
from cometmq.store.reading import Reading, ReadStep

FILTER_WORK_MAX: Final = 4_000_000
"""A read ends once its filter has done this much ``work``, so that it does not block other requests."""


class RecordFilter(Protocol):
    """A filter over records, for what tags codes cannot express."""

    def may_match(self, store_time: int, bitmap: bytes) -> bool:
        """Check whether a record may match, by the unit of its queue's extension."""

    def matches(self, record: bytes) -> bool:
        """Check whether a record matches."""

    def work(self, record: bytes) -> int:
        """Return the cost of ``matches``: for a usual record the number of the filter's characters."""


def get_messages(
    resident: ResidentReads,
    queue: ConsumeQueue | None,
    queue_offset: int,
    *,
    max_count: int,
    max_bytes: int,
    tags_codes: Container[int] | None,
    record_filter: RecordFilter | None = None,
) -> Reading[GetResult]:
    """Read messages of one queue from ``queue_offset`` on.

    Args:
        resident: the reads of the log of what is in memory; its limits hold.
        max_count: most messages to return, at least one; the settings' limits hold too.
        max_bytes: most bytes to return; the first message is returned whatever its size.
        tags_codes: hashes of the wanted tags, None for all. Different tags can have the same hash: to be
            exact, compare the tags again.
        record_filter: a second filter, over whole records, or None.
    """
    if queue is None or not queue.min_offset <= queue_offset < queue.max_offset:
        return outside(queue, queue_offset)
    if record_filter is None:
        found = resident.read(queue, queue_offset, max_count, max_bytes, tags_codes)
        if isinstance(found, ReadStep):
            yield found
            found = resident.read(queue, queue_offset, max_count, max_bytes, tags_codes)
        if isinstance(found, GetResult):
            return found
    limits = resident.limits
    max_count = min(max(max_count, 1), limits.most_count)
    choice = _Choice(resident.log, limits, max_count, max_bytes, tags_codes, record_filter)
    return (yield from _read_step_by_step(choice, queue, queue_offset, max_count, limits.scan_count))


def _read_step_by_step(
    choice: "_Choice", queue: ConsumeQueue, queue_offset: int, max_count: int, scan_count: int
) -> Reading[GetResult]:
    """Read any messages: of extended entries, through a filter, of deleted, lost or damaged records."""
    next_file, record_filter = next_queue_file(queue, queue_offset), choice.record_filter
    scan_count = max(scan_count, max_count)
    count = scan_count if choice.codes or record_filter else max_count
    data = yield from queue.entries(queue_offset, min(count, next_file - queue_offset))
    if not data:
        return GetResult(GetStatus.OFFSET_FOUND_NULL, next_file, queue.min_offset, queue.max_offset, [])
    if queue.ext is not None and (choice.codes is not None or record_filter is not None):
        choice.units = yield from queue.ext.units(
            code for *_, code in unpack_tuples(data) if code <= ADDRESS_MAX
        )
    if record_filter is None:
        runs = yield from _read(choice, data)
        room = min(scan_count, next_file - queue_offset)
        if not runs and len(data) < room * SIZE:  # lost messages only, so far
            data = yield from queue.entries(queue_offset, room)
            runs = yield from _read(choice, data)
    else:
        runs = yield from _read_filtered(choice, data, record_filter)
    checked = sound_records(choice.log, queue, queue_offset, choice.chosen, runs, choice.looked_at)
    if checked.runs:
        status = GetStatus.FOUND
    elif choice.is_last_gone or checked.damaged is not None:
        status = GetStatus.MESSAGE_WAS_REMOVING
    else:
        status = GetStatus.NO_MATCHED_MESSAGE
    return GetResult(
        status,
        queue_offset + checked.looked_at,
        queue.min_offset,
        queue.max_offset,
        checked.runs,
        checked.sizes,
        choice.is_far_behind,
        checked.damaged,
    )


class _Choice(EntryChoice):
    """Chooses records of any entries, extended ones too, and of any file of the log.

    Attributes:
        record_filter: the filter over whole records, or None.
        units: the units of the queue's extension, by address.
    """

    __slots__ = ("log", "record_filter", "units")

    def __init__(
        self,
        commit_log: CommitLog,
        limits: GetLimits,
        max_count: int,
        max_bytes: int,
        tags_codes: Container[int] | None,
        record_filter: RecordFilter | None,
    ) -> None:
        super().__init__(limits.within(commit_log.written_offset, max_count, max_bytes), tags_codes)
        self.log = commit_log
        self.units: Mapping[int, ExtUnit] = {}
        self.record_filter = record_filter

    @property
    def is_far_behind(self) -> bool:
        """Whether the record of the last entry examined counts as on disk."""
        return self.last < self.limits.near_offset

    def may_match(self, address: int) -> bool:
        """Check whether an extended entry may match; without its unit it may, and the record decides."""
        unit = self.units.get(address)
        if unit is None:
            return True
        if self.codes is not None and unit.tags_code not in self.codes:
            return False
        return self.record_filter is None or self.record_filter.may_match(unit.store_time, unit.bitmap)

    def stretch_at(self, offset: int) -> tuple[int, int]:
        """Return the readable range (begin, end) of the file that holds an offset; NOWHERE if it is gone."""
        stretch = self.log.stretch(offset)
        if stretch is None:  # the file is deleted, with all its records
            file_size = self.log.chain.file_size
            self.gone_before = offset - offset % file_size + file_size
            return NOWHERE
        return stretch


def _read(choice: _Choice, data: Buffer) -> Reading[list[Buffer]]:
    """Choose among the entries in ``data`` that were not examined yet; read the chosen records."""
    before, chain = len(choice.chosen), choice.log.chain
    choice.begin, choice.end = NOWHERE  # records that the filter rejected do not bind the read to their file
    choice.go_on(unpack_tuples(memoryview(data)[choice.looked_at * SIZE :]))
    stretches = runs_of(choice.chosen[before:], choice.begin)
    if not stretches:
        return []
    runs: list[Buffer] | None = yield ReadStep(chain.files, chain.path(choice.begin), stretches)
    if runs is None:  # the file was deleted meanwhile
        del choice.chosen[before:]
        choice.is_last_gone = True
    return runs or []


def _read_filtered(choice: _Choice, data: Buffer, record_filter: RecordFilter) -> Reading[list[Buffer]]:
    """Read records until the matching ones reach the limits; return these."""
    wanted: list[Buffer] = []
    work = 0
    while choice.looked_at * SIZE < len(data) and work < FILTER_WORK_MAX:
        before = len(wanted)
        runs = yield from _read(choice, data)
        chosen = choice.chosen[before:]
        records = split(b"".join(runs), [size for _, _, size in chosen])
        matching = [
            (one, record)
            for one, record in zip(chosen, records, strict=True)
            if record_filter.matches(record)
        ]
        wanted += [record for _, record in matching]
        work += sum(map(record_filter.work, records))
        if wanted and len(wanted) == len(choice.chosen):
            break  # the filter rejected none, so a limit is reached
        choice.chosen[before:] = [one for one, _ in matching]
        choice.is_last_gone = False
    return wanted


def outside(queue: ConsumeQueue | None, queue_offset: int) -> GetResult:
    """Return the result of a read at an offset without a message."""
    if queue is None:
        return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0, [])
    low, high = queue.min_offset, queue.max_offset
    if high == 0:
        return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, low, high, [])
    if queue_offset < low:
        return GetResult(GetStatus.OFFSET_TOO_SMALL, low, low, high, [])
    if queue_offset == high:
        return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, high, low, high, [])
    return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, high, low, high, [])
