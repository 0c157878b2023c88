"""Bulk dispatch of stretches of the CommitLog to ConsumeQueues and Index.

Recovery and rebuild use it, and the running store for its index, which follows the log by the
megabyte. Dispatch is idempotent: existing entries are skipped, so a stretch can be dispatched twice.

The time when a delayed message is due is only in its queue entry, computed by the delay levels of when it was
stored. So if a queue's file still has the entry of a record that is dispatched again, its time is kept; if it
is lost, the time is computed by the current levels.

The queues of a topic that was deleted and created again restart: queue offset 0 behind higher ones shows
that.

A checksum covers only a record's body, so the other fields are checked for harmful damage: a topic or queue
id that cannot be a directory's name, a queue offset that needs more messages before it than fit into the log,
a single queue offset out of order.
"""

from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cometmq import kernels
from cometmq.errors import IllegalName
from cometmq.format.delay_level import SCHEDULE_TOPIC, DelayLevels, may_be_due
from cometmq.format.layout import LIGHT_PREFIX, is_light
from cometmq.format.properties import MAX_LENGTH
from cometmq.format.queue_entry import SIZE
from cometmq.format.record import MIN_SIZE
from cometmq.kernels.ops import Dispatch
from cometmq.logs import get_logger
from cometmq.message import Buffer
from cometmq.store.index.index import Index
from cometmq.store.log.log_scan import Chunk
from cometmq.store.queue.consume_queue import ENTRY_DTYPE, ConsumeQueue
from cometmq.store.queue.entry_blocks import are_fillers
from cometmq.store.queue.queues import QueueKey, Queues
from cometmq.store.recovery.light_entries import placed

log = get_logger(__name__)

SKIPPED_MAX: Final = MAX_LENGTH // len(f"{LIGHT_PREFIX},0,")
"""Most queue offsets that one record can skip in a light queue, by naming it again and again."""

T = TypeVar("T")
EMPTY: Final[Mapping[str, int]] = MappingProxyType({})


class Gap(NamedTuple):
    """Queue offsets whose messages are not in the log.

    Attributes:
        first: first missing queue offset.
        missing: number of missing queue offsets.
    """

    topic: str
    queue_id: int
    first: int
    missing: int


class Replay:
    """Dispatches chunks of the log.

    Args:
        queues: receive the queue entries, or None.
        index: receives the keys, or None.
        begin: CommitLog offset of the first dispatched record, if there are others before it.
        deleted: by topic, the CommitLog offset before which its records belong to a deleted topic.

    Attributes:
        messages: number of records dispatched.
        gaps: stretches of queues whose records are not in the log (their entries are fillers).
        lagging: queues that lack messages which may lie before ``begin``; they were skipped.
    """

    def __init__(
        self,
        queues: Queues | None,
        index: Index | None,
        delay_levels: DelayLevels,
        begin: int = 0,
        deleted: Mapping[str, int] = EMPTY,
    ) -> None:
        self.messages = 0
        self.gaps: list[Gap] = []
        self.lagging: set[ConsumeQueue] = set()
        self._begin = begin
        self._deleted = deleted
        self._queues = queues
        self._index = index
        self._delay_levels = delay_levels

    def dispatch(self, chunk: Chunk) -> Dispatch:
        """Dispatch the records of ``chunk``; return what was read of them."""
        dispatch = self._dispatched(chunk)
        self.add(chunk, dispatch)
        return dispatch

    def walk(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """Dispatch chunks in order and yield each; meanwhile a thread reads the next one."""

        def read() -> Iterator[tuple[Chunk, Dispatch]]:
            for chunk in chunks:
                yield chunk, self._dispatched(chunk)

        with closing(read_ahead(read())) as pairs:
            for chunk, dispatch in pairs:
                self.add(chunk, dispatch)
                yield chunk

    def put(self, key: QueueKey, queue_offsets: NDArray[np.int64], entries: np.ndarray) -> None:
        """Add entries of one queue, in the order of the log.

        Args:
            queue_offsets: int64[n], the entries' queue offsets.
            entries: ENTRY_DTYPE[n].
        """
        alive = int(np.searchsorted(entries["physical_offset"], self._deleted.get(key[0], 0)))
        if alive == len(entries):
            return
        assert self._queues is not None, "there are no queues to put entries into"
        queue = self._queue_of(
            self._queues, key, len(entries) - alive, int(entries[alive]["physical_offset"])
        )
        if queue is not None:
            self._add_runs(queue, queue_offsets[alive:], entries[alive:])

    def _dispatched(self, chunk: Chunk) -> Dispatch:
        named = self._queues is not None
        return kernels.loading.ops.dispatch(chunk.buffer, chunk.scan, self._delay_levels, named=named)

    def add(self, chunk: Chunk, dispatch: Dispatch) -> None:
        """Add what was read of the records of ``chunk`` to queues and index."""
        self.messages += chunk.scan.count
        if self._queues is not None:
            self._add_entries(self._queues, chunk, dispatch)
        if self._index is not None:
            scan, record = chunk.scan, dispatch.key_record
            self._index.insert(dispatch.key_hash, scan.physical_offset[record], scan.store_time[record])

    def _add_entries(self, queues: Queues, chunk: Chunk, dispatch: Dispatch) -> None:
        entries = EntriesByQueue(chunk, dispatch)
        data = entries.all.tobytes()
        for key, start, last, is_row, queue_offset, begin, end in entries.stretches():
            first, alive = start, self._deleted.get(key[0], 0)
            if begin < alive:
                first += int(np.searchsorted(entries.all["physical_offset"][first:last], alive))
                if first == last:
                    continue
            queue = self._queue_of(queues, key, last - first, begin)
            if queue is None:
                continue
            if key[0] == SCHEDULE_TOPIC:
                self._add_delayed(queue, entries, first, last)
                continue
            is_next = is_row and queue_offset == queue.max_offset and begin >= max(queue.physical_end, alive)
            if is_next and queue not in self.lagging:  # the usual case
                queue.put_new(queue_offset, data[first * SIZE : last * SIZE], end)
            else:
                self._add_runs(queue, entries.queue_offsets[first:last], entries.all[first:last])

    def _add_delayed(self, queue: ConsumeQueue, entries: "EntriesByQueue", first: int, last: int) -> None:
        """Add entries of a queue of the schedule's topic; due times in the queue's file are kept."""
        offsets, times = entries.queue_offsets[first:last], entries.store_times(first, last)
        for begin, behind in runs_of(offsets):
            run = entries.all[first + begin : first + behind]
            data = queue.chain.read(int(offsets[begin]) * SIZE, len(run) * SIZE)
            keep_due_times(run, times[begin:behind], whole_entries(data))
        self._add_runs(queue, offsets, entries.all[first:last])

    def _queue_of(self, queues: Queues, key: QueueKey, count: int, begin: int) -> ConsumeQueue | None:
        try:
            return queues.find_or_create(*key)
        except IllegalName as illegal:
            log.warning("%d messages from %d on are skipped: %s", count, begin, illegal)
            return None

    def _add_runs(self, queue: ConsumeQueue, offsets: np.ndarray, entries: np.ndarray) -> None:
        """Add entries (ENTRY_DTYPE[n]) at queue offsets (int64[n]), run by run of consecutive ones."""
        if queue in self.lagging:
            return
        for first, last in runs_of(offsets):
            run, queue_offset = entries[first:last], int(offsets[first])
            following = int(offsets[last]) if last < len(offsets) else -1
            space = int(run[0]["physical_offset"]) - queue.physical_end
            if space >= 0 and 0 < queue_offset < queue.max_offset:
                self._resolve_conflict(queue, queue_offset, run)
            missing = queue_offset - queue.max_offset
            skipped_max = SKIPPED_MAX if is_light(queue.topic) else 0
            if (missing > skipped_max and (missing - skipped_max) * MIN_SIZE > space) or (
                len(run) == 1 and is_misplaced(queue_offset, queue.max_offset, following)
            ):
                self._skip(queue, queue_offset, run)
                continue
            if missing > 0 and queue.physical_end < self._begin:
                self.lagging.add(queue)
                return
            if queue_offset == 0 and queue.max_offset > 0 and space >= 0:
                queue.clear()
            elif missing > 0 and queue.max_offset > 0:
                self.gaps.append(Gap(queue.topic, queue.queue_id, queue.max_offset, missing))
            queue.put_run(queue_offset, run)

    def _resolve_conflict(self, queue: ConsumeQueue, queue_offset: int, run: np.ndarray) -> None:
        """Remove a queue's last entry, or skip the records of a run that overlaps the queue.

        A field of one of the two is damaged. It is that of the last entry if it is the only one behind a gap
        (as the last of its chunk it could not be checked yet), or if the queue's file still names the other.
        """
        last = queue.max_offset - 1
        begin = min(queue_offset, last - 1)
        block = np.frombuffer(queue.read(begin, queue.max_offset - begin), ENTRY_DTYPE)
        is_alone = len(block) > 1 and bool(are_fillers(block)[:-1].all())
        is_other = queue_offset == last and queue.chain.read(last * SIZE, SIZE) == run[:1].tobytes()
        if (is_alone or is_other) and not are_fillers(block)[-1]:
            self._skip(queue, last, block[-1:])
            queue.truncate(int(block[-1]["physical_offset"]))
            place = (queue.topic, queue.queue_id, queue.max_offset)
            self.gaps = [gap for gap in self.gaps if gap[:3] != place]
        else:
            self._skip(queue, queue_offset, run[: queue.max_offset - queue_offset])

    def _skip(self, queue: ConsumeQueue, queue_offset: int, run: np.ndarray) -> None:
        log.warning(
            "%d messages from %d on are skipped: queue offset %d cannot be in %s-%d, which ends at %d",
            len(run),
            run[0]["physical_offset"],
            queue_offset,
            queue.topic,
            queue.queue_id,
            queue.max_offset,
        )


def keep_due_times(run: np.ndarray, store_times: NDArray[np.int64], known: np.ndarray) -> None:
    """Set the due times of entries of the schedule's topic to those in their queue's file.

    These were computed by the levels of when the messages were stored, which may have changed since.

    Args:
        run: ENTRY_DTYPE[n], as computed now; changed in place.
        store_times: int64[n], ms, of their records.
        known: ENTRY_DTYPE[m], m <= n, the entries in the file at the same queue offsets.
    """
    there, times = run[: len(known)], store_times[: len(known)]
    kept = (known["physical_offset"] == there["physical_offset"]) & (known["size"] == there["size"])
    for entries in (known, there):
        kept &= may_be_due(entries["tags_code"].astype(np.int64), times)
    there["tags_code"][kept] = known["tags_code"][kept]


def whole_entries(data: Buffer) -> np.ndarray:
    """Return the complete entries in some bytes, ENTRY_DTYPE[n]."""
    return np.frombuffer(data[: len(data) - len(data) % SIZE], ENTRY_DTYPE)


class EntriesByQueue:
    """The queue entries of a chunk's records, grouped by queue; light queues are among them.

    Attributes:
        all: the entries, ENTRY_DTYPE[n].
        queue_offsets: int64[n], their queue offsets.
    """

    def __init__(self, chunk: Chunk, dispatch: Dispatch) -> None:
        scan = chunk.scan
        place = placed(chunk, dispatch)
        by_queue = np.argsort(place.queues, kind="stable")
        order, of_queue = place.records[by_queue], place.queues[by_queue]
        self.all = np.empty(len(order), ENTRY_DTYPE)
        self.all["physical_offset"] = scan.physical_offset[order]
        self.all["size"] = scan.size[order]
        self.all["tags_code"] = dispatch.tags_code[order]
        self.queue_offsets = place.queue_offsets[by_queue]
        self._scan, self._order = scan, order
        numbers, self._firsts = np.unique(of_queue, return_index=True)
        self._lasts = np.append(self._firsts[1:], len(order))[: len(numbers)]
        self._keys = [place.keys[number] for number in numbers.tolist()]

    def __iter__(self) -> Iterator[tuple[QueueKey, NDArray[np.int64], np.ndarray]]:
        """Iterate over the queues, as key, queue offsets (int64[n]) and entries (ENTRY_DTYPE[n])."""
        for key, first, last in zip(self._keys, self._firsts.tolist(), self._lasts.tolist(), strict=True):
            yield key, self.queue_offsets[first:last], self.all[first:last]

    def store_times(self, begin: int, behind: int) -> NDArray[np.int64]:
        """Return the store times, int64[n] in ms, of the records of ``all[begin:behind]``."""
        return self._scan.store_time[self._order[begin:behind]]

    def stretches(self) -> Iterator[tuple[QueueKey, int, int, bool, int, int, int]]:
        """Iterate over the queues without creating arrays; the numbers suffice in the usual case.

        Yields the queue's key, begin and end of its entries in ``all``, whether their queue offsets are
        consecutive, the first queue offset, and the CommitLog offsets of the first record and behind the
        last.
        """
        firsts, offsets = self._firsts, self.queue_offsets
        if not len(firsts):
            return iter(())
        steps = np.diff(offsets, prepend=-1) == 1
        steps[firsts] = True
        begins = self.all["physical_offset"].astype(np.int64)
        ends = begins[self._lasts - 1] + self.all["size"][self._lasts - 1]
        are_rows = np.logical_and.reduceat(steps, firsts)
        columns = (firsts, self._lasts, are_rows, offsets[firsts], begins[firsts], ends)
        return zip(self._keys, *(column.tolist() for column in columns), strict=True)


def runs_of(offsets: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Return the runs of consecutive ones among offsets, int64[n], as index ranges (first, behind last)."""
    breaks = np.flatnonzero(np.diff(offsets) != 1) + 1
    return pairwise([0, *breaks.tolist(), len(offsets)])


def is_misplaced(queue_offset: int, expected: int, following: int) -> bool:
    """Check whether a record's queue offset is damaged, or its queue id, so that it belongs to another queue.

    Args:
        expected: the queue offset that the record should have.
        following: the queue offset of the queue's next record, -1 if unknown.
    """
    return queue_offset != expected and (
        following in (expected, expected + 1) or (queue_offset == 0 and following > expected)
    )


def read_ahead(items: Iterator[T]) -> Generator[T, None, None]:
    """Yield ``items``, each but the first computed in a thread while the one before it is used.

    An error of the iterator is raised in place of its item. Close the generator if it is not used to its end.
    """
    item = next(items, None)
    if item is None:
        return  # no thread is started, as for a store that was closed
    with ThreadPoolExecutor(1, thread_name_prefix="cometmq-read-ahead") as thread:
        while item is not None:
            following = thread.submit(next, items, None)
            yield item
            item = following.result()
