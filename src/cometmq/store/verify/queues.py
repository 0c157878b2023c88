"""Check ConsumeQueues against the CommitLog, both ways.

Forward: each record must have its entry, with its offset, size and tags code; a delayed message with a
possible due time, whatever the levels are now. Backward: each entry must have its record, unless that has
expired or is lost. Queue offsets must be consecutive.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cometmq.errors import IllegalName
from cometmq.format.consume_queue_ext import ADDRESS_MAX
from cometmq.format.delay_level import SCHEDULE_TOPIC
from cometmq.format.layout import is_light
from cometmq.format.queue_entry import FILLER, SIZE, QueueEntry, pack
from cometmq.kernels.ops import Dispatch
from cometmq.store.directory import REBUILD, StoreDirectory
from cometmq.store.files.finding import Finding, Severity
from cometmq.store.log.log_scan import Chunk
from cometmq.store.log.vouched import vouched_start
from cometmq.store.queue.queue_files import QueueFiles
from cometmq.store.queue.queues import QueueKey
from cometmq.store.recovery.replay import EntriesByQueue, is_misplaced, keep_due_times, runs_of, whole_entries
from cometmq.store.verify.findings import AT_START, Findings
from cometmq.store.verify.log import LogExtent

WRONG_MAX = 1_000
"""Most stretches of wrong entries that are kept for a queue."""


class _Wrong(NamedTuple):
    """Consecutive entries that differ from their records.

    Attributes:
        first: queue offset of the first one.
        length: number of entries.
        expected: the first entry, by its record.
        actual: the first entry as it is, None if the file ends before it.
    """

    first: int
    length: int
    expected: QueueEntry
    actual: QueueEntry | None

    @property
    def is_missing(self) -> bool:
        return self.actual is None or self.actual == QueueEntry(0, 0, 0)


@dataclass(slots=True)
class _Queue:
    """The state of the check of one queue.

    Attributes:
        next_offset: queue offset that the next record must have, -1 before the first one.
        physical_end: CommitLog offset behind the last record.
        covered: queue offsets of the records so far, as ranges (first, behind the last).
        wrong: entries that differ from these records.
    """

    files: QueueFiles
    next_offset: int = -1
    physical_end: int = 0
    covered: list[tuple[int, int]] = field(default_factory=list)
    wrong: list[_Wrong] = field(default_factory=list)

    def actual(self, queue_offset: int, count: int) -> np.ndarray:
        """Read ``count`` entries, fewer at the end, with their tags codes: ENTRY_DTYPE[n]."""
        data = self.files.chain.read(queue_offset * SIZE, count * SIZE)
        return self.files.with_tags_codes(whole_entries(data))

    def cover(self, queue_offset: int, count: int, physical_end: int) -> None:
        """Record that the next ``count`` records were found."""
        self.next_offset = queue_offset + count
        self.physical_end = physical_end
        if self.covered and self.covered[-1][1] == queue_offset:
            self.covered[-1] = (self.covered[-1][0], self.next_offset)
        else:
            self.covered.append((queue_offset, self.next_offset))


class Recorded(NamedTuple):
    """Successive records of one queue, in the order of the log.

    Attributes:
        queue_offsets: int64[n].
        entries: ENTRY_DTYPE[n], the queue entries that they should have.
        store_times: int64[n], ms; None if the queue is not of the schedule's topic.
        following: queue offset of the queue's next record, -1 if unknown.
    """

    queue_offsets: NDArray[np.int64]
    entries: np.ndarray
    store_times: NDArray[np.int64] | None
    following: int = -1


def list_queues(store: StoreDirectory, findings: Findings) -> list[QueueFiles]:
    """Return the queues that have files; files that cannot be used are added to ``findings``."""
    listed: list[Finding] = []
    queues = list(store.queues(listed))
    findings.add_all(listed)
    return queues


def claimed_end(store: StoreDirectory, queues: Iterable[QueueFiles]) -> int:
    """Return the CommitLog offset behind the last record that any of these queues has an entry of."""
    room = store.log.chain.end_offset
    return max((queue.physical_end(room) for queue in queues), default=0)


def redispatched_from(store: StoreDirectory, claimed: int) -> int:
    """Return the CommitLog offset from which the next start dispatches the log again.

    Args:
        claimed: the result of ``claimed_end``.
    """
    if store.was_closed or store.checkpoint is None:
        return store.log.min_offset
    return min(vouched_start(store.log, store.checkpoint), claimed)


class QueueCheck:
    """Compares the entries of queues with the records, in the log's order, and at the end the other entries.

    Args:
        log: the extent of the log; it must be complete when ``finish`` is called.
        queues: the queues with files; others are added if there are records of them.
        recovered_from: the result of ``redispatched_from``.
    """

    def __init__(
        self,
        store: StoreDirectory,
        log: LogExtent,
        findings: Findings,
        queues: Iterable[QueueFiles],
        recovered_from: int,
    ) -> None:
        self._store = store
        self._log = log
        self._findings = findings
        self._queues: dict[QueueKey, _Queue] = {}
        for files in queues:
            self.add(files)
        self._topics = store.topics()
        self._recovered_from = recovered_from

    def check(self, chunk: Chunk, dispatch: Dispatch) -> None:
        """Check the entries of a chunk's records."""
        found = EntriesByQueue(chunk, dispatch)
        data = found.all.tobytes()
        for key, begin, behind, is_row, queue_offset, _, end in found.stretches():
            row = data[begin * SIZE : behind * SIZE]
            is_delayed = key[0] == SCHEDULE_TOPIC
            if is_row and not is_delayed and self._cover_if_sound(key, queue_offset, row, end):
                continue
            times = found.store_times(begin, behind) if is_delayed else None
            self.check_entries(
                key, Recorded(found.queue_offsets[begin:behind], found.all[begin:behind], times)
            )

    def check_entries(self, key: QueueKey, records: Recorded) -> None:
        """Check the entries of one queue's records."""
        deleted_before = self._store.deleted.get(key[0], 0)
        alive = int(np.searchsorted(records.entries["physical_offset"], deleted_before))
        offsets, entries = records.queue_offsets[alive:], records.entries[alive:]
        queue = self._queue_of(key, entries) if len(entries) else None
        if queue is None:
            return
        for first, last in runs_of(offsets):
            if records.store_times is not None:
                times = records.store_times[alive + first : alive + last]
                keep_due_times(entries[first:last], times, queue.actual(int(offsets[first]), last - first))
            following = int(offsets[last]) if last < len(offsets) else records.following
            self._check_run(key, queue, int(offsets[first]), entries[first:last], following)

    def finish(self) -> None:
        """Report the wrong entries of each queue, and check the entries without records."""
        for key in list(self._queues):
            self.finish_queue(key)

    def add(self, files: QueueFiles) -> None:
        """Add a queue that has files."""
        self._queues[files.topic, files.queue_id] = _Queue(files)

    def finish_queue(self, key: QueueKey) -> None:
        """Finish the check of one queue, and remove it; do nothing for an unknown queue."""
        queue = self._queues.pop(key, None)
        if queue is None:
            return
        for wrong in queue.wrong:
            self._report(queue, wrong)
        for start in queue.files.chain.starts:
            self._check_uncovered(queue, start)
        self._store.drop_pages()

    def _queue_of(self, key: QueueKey, entries: np.ndarray) -> _Queue | None:
        """Return the queue of records; None if it was deleted, has an illegal name, or is foreign.

        A light queue is no topic's: without files, nobody can tell a deleted one from a lost one.
        """
        queue = self._queues.get(key)
        if queue is not None:
            return queue
        if self._store.has_foreign_queues(key[0]):
            return None
        if is_light(key[0]) or (self._topics is not None and key[0] not in self._topics):
            return None  # deleted: its records stay until they expire
        try:
            queue = self._queues[key] = _Queue(self._store.queue(*key))
        except IllegalName as error:
            self._report_record(int(entries[0]["physical_offset"]), str(error), "it cannot be consumed")
        return queue

    def _cover_if_sound(self, key: QueueKey, queue_offset: int, row: bytes, physical_end: int) -> bool:
        """Fast path: cover consecutive entries that continue the queue and equal its file; False if not."""
        queue = self._queues.get(key)
        if queue is None or queue_offset != queue.next_offset or key[0] in self._store.deleted:
            return False
        if queue.files.chain.read(queue_offset * SIZE, len(row)) != row:
            return False
        queue.cover(queue_offset, len(row) // SIZE, physical_end)
        return True

    def _check_run(
        self, key: QueueKey, queue: _Queue, queue_offset: int, run: np.ndarray, following: int
    ) -> None:
        physical_offset = int(run[0]["physical_offset"])
        expected = queue.next_offset
        if expected < 0:
            expected = queue_offset if self._log.begin_offset else 0
        odd = len(run) == 1 and is_misplaced(queue_offset, expected, following)
        if queue_offset == 0 and expected > 0 and not odd:  # the topic was deleted and made again
            queue.covered.clear()
            queue.wrong.clear()
        elif queue_offset != expected and (odd or not self._is_lost_before(queue, physical_offset)):
            if not odd and self._is_filled(queue, expected, queue_offset):
                what = f"queue offsets {expected} to {queue_offset - 1} hold no messages: they are lost"
                self._findings.note(queue.files.chain.directory, what)
            else:
                self._report_order(key, physical_offset, queue_offset, expected)
        if odd:
            queue.next_offset = max(following, expected)
            return
        self._compare(queue, queue_offset, run)
        queue.cover(queue_offset, len(run), int(run[-1]["physical_offset"]) + int(run[-1]["size"]))

    def _compare(self, queue: _Queue, queue_offset: int, run: np.ndarray) -> None:
        actual = queue.actual(queue_offset, len(run))
        differ = np.ones(len(run), np.bool_)
        there = run[: len(actual)]
        differ[: len(actual)] = (actual != there) & ~self._lack_units(queue, actual, there)
        if not differ.any():
            return
        places = np.flatnonzero(differ)
        for first, last in runs_of(places):
            at = int(places[first])
            found = _entry(actual[at]) if at < len(actual) else None
            self._keep(queue, _Wrong(queue_offset + at, last - first, _entry(run[at]), found))

    def _lack_units(self, queue: _Queue, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
        """Return which entries (bool[n]) only lack their units, which the next start corrects.

        A start after a kill removes the units of records that it dispatches again; another kill leaves the
        entries.
        """
        lack = actual["tags_code"] <= ADDRESS_MAX
        if self._store.was_closed or queue.files.ext is None or not lack.any():
            return np.zeros(len(actual), np.bool_)
        for name in ("physical_offset", "size"):
            lack &= actual[name] == expected[name]
        return lack & (actual["physical_offset"] >= self._recovered_from)

    def _keep(self, queue: _Queue, wrong: _Wrong) -> None:
        """Keep a stretch for the report, joined with an adjacent one before it: a chunk may end within it."""
        last = queue.wrong[-1] if queue.wrong else None
        if last is not None and last.first + last.length == wrong.first:
            queue.wrong[-1] = last._replace(length=last.length + wrong.length)
            return
        if len(queue.wrong) < WRONG_MAX:
            queue.wrong.append(wrong)

    def _report(self, queue: _Queue, wrong: _Wrong) -> None:
        behind = f" and {wrong.length - 1} behind it" if wrong.length > 1 else ""
        if wrong.is_missing:
            what = (
                f"no entry of queue offset {wrong.first}{behind}; record at {wrong.expected.physical_offset}"
            )
            recovered = wrong.expected.physical_offset >= self._recovered_from
        else:
            what = (
                f"entry of queue offset {wrong.first}{behind}: is {_text(wrong.actual)}, "
                f"by its record {_text(wrong.expected)}"
            )
            if queue.files.topic == SCHEDULE_TOPIC:
                what += ", or due another number of whole seconds after it was stored"
            recovered = False
        self._add(queue, wrong.first, wrong.length, what, recovered=recovered)

    def _check_uncovered(self, queue: _Queue, start: int) -> None:
        """Check the entries of one file that no record covers."""
        entries = queue.files.entries(start)
        first = start // SIZE
        offsets = entries["physical_offset"].astype(np.int64)
        sizes = entries["size"].astype(np.int64)
        suspect = (offsets != 0) | (sizes != 0) | (entries["tags_code"] != 0)
        suspect &= ~((offsets == FILLER.physical_offset) & (sizes == FILLER.size))
        suspect &= ~((offsets >= 0) & (sizes > 0) & (offsets < self._log.begin_offset))  # expired
        for begin, end in queue.covered:
            suspect[max(begin - first, 0) : max(end - first, 0)] = False
        places = np.flatnonzero(suspect)
        for begin, end in runs_of(places) if len(places) else ():
            at, count = int(places[begin]), end - begin
            self._report_uncovered(queue, first + at, count, _entry(entries[at]))

    def _report_uncovered(self, queue: _Queue, queue_offset: int, count: int, entry: QueueEntry) -> None:
        behind = f" and {count - 1} behind it" if count > 1 else ""
        what = f"entry of queue offset {queue_offset}{behind}: is {_text(entry)}, "
        if any(begin <= entry.physical_offset < end for begin, end in self._log.damaged):
            self._add(queue, queue_offset, count, what + "its record is damaged", lost=True)
        elif entry.physical_offset >= self._log.end_offset:
            recovered = not self._store.was_closed
            self._add(
                queue, queue_offset, count, what + "which lies behind the log's end", recovered=recovered
            )
        else:
            self._add(queue, queue_offset, count, what + "where no record of this queue offset is")

    def _add(
        self,
        queue: _Queue,
        queue_offset: int,
        count: int,
        what: str,
        *,
        recovered: bool = False,
        lost: bool = False,
    ) -> None:
        """Report entries.

        Args:
            recovered: whether the next start corrects them.
            lost: whether their records are damaged, not the queue.
        """
        start = queue.files.chain.start_of(queue_offset * SIZE)
        if start is None:
            path, position = queue.files.chain.directory, None
        else:
            path, position = queue.files.chain.path(start), queue_offset * SIZE - start
        severity, remedy = Severity.DAMAGE, REBUILD
        if lost:
            severity, remedy = Severity.NOTE, ""
        elif recovered and not self._store.was_closed:
            severity, remedy = Severity.RECOVERY, AT_START
        self._findings.add(Finding(severity, path, position, count * SIZE, what, remedy))

    def _report_order(self, key: QueueKey, physical_offset: int, queue_offset: int, expected: int) -> None:
        what = f"record of {key[0]}-{key[1]} has queue offset {queue_offset}, expected {expected}"
        remedy = "the messages between are lost" if queue_offset > expected else "its queue offset is damaged"
        self._report_record(physical_offset, what, remedy)

    def _report_record(self, physical_offset: int, what: str, remedy: str) -> None:
        start = self._store.log.chain.start_of(physical_offset)
        assert start is not None
        path = self._store.log.chain.path(start)
        self._findings.damage(path, physical_offset - start, None, what, remedy)

    def _is_filled(self, queue: _Queue, first: int, end: int) -> bool:
        """Check whether the queue has fillers from ``first`` to ``end``: the messages were lost before."""
        data = queue.files.chain.read(first * SIZE, (end - first) * SIZE) if 0 <= first < end else b""
        return data != b"" and len(data) == (end - first) * SIZE and data == pack(*FILLER) * (end - first)

    def _is_lost_before(self, queue: _Queue, physical_offset: int) -> bool:
        """Check whether reported damage is between a queue's last record and this one."""
        return any(queue.physical_end <= begin < physical_offset for begin, _ in self._log.damaged)


def _entry(entry: np.void) -> QueueEntry:
    return QueueEntry._make(entry.item())


def _text(entry: QueueEntry | None) -> str:
    assert entry is not None
    return f"(offset {entry.physical_offset}, size {entry.size}, tags code {entry.tags_code})"
