"""Reading a queue: from a queue offset, within limits, through a filter.

How a read ends, and where the next one should begin; the rows are tried from the top:

=========================================  =======================  =====================================
What is found                              Status                   Next offset
=========================================  =======================  =====================================
no such queue                              NO_MATCHED_LOGIC_QUEUE   0
a queue that never had a message           NO_MESSAGE_IN_QUEUE      0
the offset is before the first message     OFFSET_TOO_SMALL         the first message's
the offset is that of the next message     OFFSET_OVERFLOW_ONE      the same
the offset is behind that                  OFFSET_OVERFLOW_BADLY    that of the next message
no entries: their file is missing          OFFSET_FOUND_NULL        the first of the next file
a message, wanted and there                FOUND                    behind the last entry looked at
no wanted message, the last that was       MESSAGE_WAS_REMOVING     behind the last entry looked at
looked for in the log is no longer there
no wanted message                          NO_MATCHED_MESSAGE       behind the last entry looked at
=========================================  =======================  =====================================

Limits hold from the second message on: the first is given whatever its size. There are tighter ones for what
counts as on the disk: what lies further behind the end of the log than a share of the machine's memory. A
read goes no further than the queue's file that it begins in, and gives records of one file of the log only.

Source: RocketMQ ``store/DefaultMessageStore.java`` (getMessage), ``store/GetMessageStatus.java``.
"""

from collections.abc import Container, Mapping
from typing import Final, Protocol

from cometmq.format.consume_queue_ext import ADDRESS_MAX, ExtUnit
from cometmq.format.queue_entry import SIZE, unpack_tuples
from cometmq.message import Buffer
from cometmq.store.commit_log import CommitLog
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.get_result import GetResult, GetStatus, split
from cometmq.store.limits import Limits
from cometmq.store.read_check import sound_records
from cometmq.store.reading import Bytes, Reading, Stretch
from cometmq.store.usual_reads import UsualReads

FILTER_WORK_MAX: Final = 4_000_000
"""A read looks at no more records once their filter has done so much: others wait meanwhile. See ``work``."""


class RecordFilter(Protocol):
    """What a reader wants, as far as tags codes cannot say it."""

    def may_match(self, store_time: int, bitmap: bytes) -> bool:
        """Tell whether a record may be wanted, by what its queue's extension says of it."""

    def matches(self, record: bytes) -> bool:
        """Tell whether a record is wanted."""

    def work(self, record: bytes) -> int:
        """Return how much work ``matches`` is: of a usual record as much as the filter has characters."""


def get_messages(
    commit_log: CommitLog,
    queue: ConsumeQueue | None,
    queue_offset: int,
    limits: Limits,
    *,
    max_count: int,
    max_bytes: int,
    tags_codes: Container[int] | None,
    record_filter: RecordFilter | None = None,
) -> Reading[GetResult]:
    """Read messages of one queue from ``queue_offset`` on.

    Args:
        max_count: most messages wanted; the settings' own limits hold too, and one is given in any case.
        max_bytes: most bytes wanted; the first message is given whatever its size.
        tags_codes: the hashes of the wanted tags, or None for all. Different tags can have the same
            hash: who must be exact compares the tags again.
        record_filter: looks at each record that would be given, or None.
    """
    if queue is None or not queue.min_offset <= queue_offset < queue.max_offset:
        return outside(queue, queue_offset)
    max_count = min(max(max_count, 1), limits.most_count)
    next_file = _next_file(queue, queue_offset)
    wanted = max(limits.scan_count, max_count) if tags_codes or record_filter else max_count
    data = yield from queue.entries(queue_offset, min(wanted, next_file - queue_offset))
    if not data:
        return GetResult(GetStatus.OFFSET_FOUND_NULL, next_file, queue.min_offset, queue.max_offset, [])
    choice = _Choice(commit_log, limits, max_count, max_bytes, tags_codes, record_filter)
    if queue.ext is not None and (tags_codes is not None or record_filter is not None):
        choice.units = yield from queue.ext.units(
            code for *_, code in unpack_tuples(data) if code <= ADDRESS_MAX
        )
    if record_filter is None:
        runs = yield from _read(choice, data)
        room = min(max(limits.scan_count, max_count), next_file - queue_offset)
        if not runs and len(data) < room * SIZE:  # lost messages only, so far
            data = yield from queue.entries(queue_offset, room)
            runs = yield from _read(choice, data)
    else:
        runs = yield from _read_filtered(choice, data, record_filter)
    checked = sound_records(commit_log, queue, queue_offset, data, runs, choice.sizes, choice.looked_at)
    status = choice.status if checked.damaged is None else GetStatus.MESSAGE_WAS_REMOVING
    return GetResult(
        GetStatus.FOUND if checked.runs else status,
        queue_offset + checked.looked_at,
        queue.min_offset,
        queue.max_offset,
        checked.runs,
        checked.sizes,
        choice.is_far_behind,
        checked.damaged,
    )


def get_at_hand(
    usual: UsualReads,
    queue: ConsumeQueue | None,
    queue_offset: int,
    limits: Limits,
    *,
    max_count: int,
    max_bytes: int,
    tags_codes: Container[int] | None,
) -> GetResult | None:
    """Give what ``get_messages`` gives, without a filter of records, if that takes only a look at memory."""
    if queue is None or not queue.min_offset <= queue_offset < queue.max_offset:
        return outside(queue, queue_offset)
    data = entries_at_hand(queue, queue_offset, limits, max_count, is_filtered=bool(tags_codes))
    return usual.read(queue, queue_offset, data, max_count, max_bytes, tags_codes) if data else None


def entries_at_hand(
    queue: ConsumeQueue, queue_offset: int, limits: Limits, max_count: int, *, is_filtered: bool
) -> Buffer | None:
    """Give the entries that a read has to look at, if they are in memory and in one file; or None."""
    if not 0 < max_count <= limits.memory_count:
        max_count = min(max(max_count, 1), limits.most_count)
    wanted = max(limits.scan_count, max_count) if is_filtered else max_count
    next_file = _next_file(queue, queue_offset)
    if queue_offset + wanted > next_file:
        wanted = next_file - queue_offset
    return queue.entries_at_hand(queue_offset, wanted)


class _Choice:
    """Which of a queue's entries are read, and where their records lie.

    Attributes:
        status: how the read ends if it finds nothing.
        looked_at: so many entries are done with.
        sizes: of the records chosen so far.
        units: of the queue's extension, by their addresses.
        is_far_behind: whether the last entry looked at is of a record that counts as on the disk.
    """

    __slots__ = (
        "_disk",
        "_memory",
        "_near_offset",
        "_record_filter",
        "_removed_before",
        "_tags_codes",
        "is_far_behind",
        "log",
        "looked_at",
        "sizes",
        "status",
        "units",
    )

    def __init__(
        self,
        commit_log: CommitLog,
        limits: Limits,
        max_count: int,
        max_bytes: int,
        tags_codes: Container[int] | None,
        record_filter: RecordFilter | None,
    ) -> None:
        self.status = GetStatus.NO_MATCHED_MESSAGE
        self.looked_at = 0
        self.sizes: list[int] = []
        self.is_far_behind = False
        self.log = commit_log
        self.units: Mapping[int, ExtUnit] = {}
        self._tags_codes = tags_codes
        self._record_filter = record_filter
        self._near_offset = commit_log.written_offset - limits.memory_bytes
        self._memory = min(max_count, limits.memory_count), min(max_bytes, limits.memory_size)
        self._disk = min(max_count, limits.disk_count), min(max_bytes, limits.disk_size)
        self._removed_before = 0  # CommitLog offset where the first file begins that may be there

    def go_on(self, data: Buffer) -> tuple[int, list[Stretch]]:
        """Choose from the entries that are not done with yet, until the limits or the file's end are reached.

        Gives the CommitLog offset at which the file begins, and the stretches: records that lie side by side
        are in one.
        """
        tags_codes, near_offset, sizes = self._tags_codes, self._near_offset, self.sizes
        stretches: list[Stretch] = []
        total, count, looked_at = sum(sizes), len(sizes), self.looked_at
        begin = end = run_begin = run_end = last = -1
        rest = memoryview(data)[looked_at * SIZE :] if looked_at else data
        for physical_offset, size, tags_code in unpack_tuples(rest):
            if count:
                most_count, most_bytes = self._memory if physical_offset >= near_offset else self._disk
                if count >= most_count or total + size > most_bytes:
                    break
                if begin >= 0 and not begin <= physical_offset < end:
                    break  # in another file; what a filter left of an earlier one does not hold up this one
            looked_at += 1
            last = physical_offset
            if physical_offset < self._removed_before:
                continue
            if tags_code <= ADDRESS_MAX:
                is_passed_over = not self._may_match(tags_code)
            else:
                is_passed_over = tags_codes is not None and tags_code not in tags_codes
            if is_passed_over:
                if not count:
                    self.status = GetStatus.NO_MATCHED_MESSAGE
                continue
            if not begin <= physical_offset < physical_offset + size <= end:
                found = self._stretch(physical_offset)
                if not found[0] <= physical_offset < physical_offset + size <= found[1]:
                    if not count:
                        self.status = GetStatus.MESSAGE_WAS_REMOVING
                    continue
                begin, end = found
            if physical_offset != run_end:
                if run_end >= 0:
                    stretches.append((run_begin - begin, run_end - run_begin))
                run_begin = physical_offset
            run_end = physical_offset + size
            sizes.append(size)
            count += 1
            total += size
        if run_end >= 0:
            stretches.append((run_begin - begin, run_end - run_begin))
        self.looked_at = looked_at
        self.is_far_behind = last < near_offset
        return begin, stretches

    def _may_match(self, address: int) -> bool:
        """Tell whether an extended entry is wanted; if its unit is lost, it may be: the record decides."""
        unit = self.units.get(address)
        if unit is None:
            return True
        if self._tags_codes is not None and unit.tags_code not in self._tags_codes:
            return False
        return self._record_filter is None or self._record_filter.may_match(unit.store_time, unit.bitmap)

    def _stretch(self, physical_offset: int) -> tuple[int, int]:
        """Give from where to where the file that holds an offset can be read; nowhere if it is not there."""
        stretch = self.log.stretch(physical_offset)
        if stretch is None:  # nor are the other records of that file
            file_size = self.log.chain.file_size
            self._removed_before = physical_offset - physical_offset % file_size + file_size
            return -1, -1
        return stretch


def _read(choice: _Choice, data: Buffer) -> Reading[list[Buffer]]:
    """Read the records that are chosen from the entries in ``data``."""
    before, chain = len(choice.sizes), choice.log.chain
    start, stretches = choice.go_on(data)
    if not stretches:
        return []
    runs: list[Buffer] | None = yield Bytes(chain.files, chain.path(start), stretches)
    if runs is None:  # removed since
        del choice.sizes[before:]
        choice.status = GetStatus.MESSAGE_WAS_REMOVING
    return runs or []


def _read_filtered(choice: _Choice, data: Buffer, record_filter: RecordFilter) -> Reading[list[Buffer]]:
    """Read records, and give those that are wanted; go on until they reach the limits."""
    wanted: list[Buffer] = []
    work = 0
    while choice.looked_at * SIZE < len(data) and work < FILTER_WORK_MAX:
        before = len(wanted)
        runs = yield from _read(choice, data)
        records = split(b"".join(runs), choice.sizes[before:])
        wanted += [record for record in records if record_filter.matches(record)]
        work += sum(map(record_filter.work, records))
        if wanted and len(wanted) == len(choice.sizes):
            break  # none was left out, so a limit is reached
        choice.sizes = [len(record) for record in wanted]
        choice.status = GetStatus.NO_MATCHED_MESSAGE
    return wanted


def outside(queue: ConsumeQueue | None, queue_offset: int) -> GetResult:
    """Say why nothing is at ``queue_offset``."""
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


def _next_file(queue: ConsumeQueue, queue_offset: int) -> int:
    """Give where the queue's next file begins, or where its messages end."""
    per_file = queue.chain.file_size // SIZE
    return min(queue_offset - queue_offset % per_file + per_file, queue.max_offset)
