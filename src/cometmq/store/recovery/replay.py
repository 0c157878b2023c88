"""Bulk dispatch: what a stretch of the CommitLog puts into ConsumeQueues and Index.

Recovery and rebuild go through here with chunks of records, and so does the running store for its
index, which follows the log by some hundred kilobytes. Everything is idempotent: what is there already is
passed over, so a stretch can be dispatched twice.

When a delayed message is due stands in its queue entry only, and was computed by the levels of the time when
it was stored. So where a queue's file still has the entry of a record that is dispatched again, that time is
kept; only where it is lost it is computed anew, by the levels of now.

A topic that is deleted and made again begins its queues anew: queue offset 0, behind the others, tells.

Only a record's body is under a checksum, so damage to the other fields that would do harm is looked for:
a topic or queue id that cannot be a directory's name, a queue offset that needs more messages before it
than there is room for in the log, a single queue offset out of a row.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import pairwise
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cometmq import kernels
from cometmq.errors import IllegalName
from cometmq.format.delay_level import SCHEDULE_TOPIC, DelayLevels, may_be_due
from cometmq.format.queue_entry import SIZE
from cometmq.format.record import MIN_SIZE
from cometmq.kernels.ops import Dispatch
from cometmq.message import Buffer
from cometmq.store.index.index import Index
from cometmq.store.queue.consume_queue import ENTRY_DTYPE, ConsumeQueue
from cometmq.store.queue.entry_blocks import are_fillers
from cometmq.store.queue.queues import QueueKey, Queues
from cometmq.store.recovery.log_scan import Chunk
from cometmq.store.recovery.read_ahead import ahead

log = logging.getLogger(__name__)

EMPTY: Final[Mapping[str, int]] = MappingProxyType({})


class Gap(NamedTuple):
    """Queue offsets whose messages are not in the log.

    Attributes:
        first: first missing queue offset.
        missing: how many are.
    """

    topic: str
    queue_id: int
    first: int
    missing: int


class Replay:
    """Dispatches chunks of the log.

    Args:
        queues: gets the queue entries, or None.
        index: gets the keys, or None.
        begin: CommitLog offset of the first record that is dispatched, if there are others before it.
        deleted: by topic, the CommitLog offset before which its records are those of a deleted topic.

    Attributes:
        messages: how many records were looked at.
        gaps: stretches of queues that are missing in the log (their offsets hold fillers).
        lagging: queues that miss messages which may lie before ``begin``; they were left as they are.
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

    def dispatch(self, chunk: Chunk) -> None:
        """Dispatch the records of ``chunk``."""
        self._take(chunk, self._dispatched(chunk))

    def walk(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """Dispatch chunks one after the other, and give each; meanwhile a thread reads the one behind it."""

        def read() -> Iterator[tuple[Chunk, Dispatch]]:
            for chunk in chunks:
                yield chunk, self._dispatched(chunk)

        with closing(ahead(read())) as pairs:
            for chunk, dispatch in pairs:
                self._take(chunk, dispatch)
                yield chunk

    def put(self, key: QueueKey, queue_offsets: NDArray[np.int64], entries: np.ndarray) -> None:
        """Put the entries (of ENTRY_DTYPE) of some records of one queue, in the order of the log."""
        alive = int(np.searchsorted(entries["physical_offset"], self._deleted.get(key[0], 0)))
        if alive == len(entries):
            return
        assert self._queues is not None, "there are no queues to put entries into"
        queue = self._queue_of(
            self._queues, key, len(entries) - alive, int(entries[alive]["physical_offset"])
        )
        if queue is not None:
            self._put_queue(queue, queue_offsets[alive:], entries[alive:])

    def _dispatched(self, chunk: Chunk) -> Dispatch:
        named = self._queues is not None
        return kernels.current().dispatch(chunk.buffer, chunk.scan, self._delay_levels, named=named)

    def _take(self, chunk: Chunk, dispatch: Dispatch) -> None:
        self.messages += chunk.scan.count
        if self._queues is not None:
            self._put_entries(self._queues, chunk, dispatch)
        if self._index is not None:
            self._put_keys(self._index, chunk, dispatch)

    def _put_entries(self, queues: Queues, chunk: Chunk, dispatch: Dispatch) -> None:
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
                self._put_delayed(queue, entries, first, last)
                continue
            is_next = is_row and queue_offset == queue.max_offset and begin >= max(queue.physical_end, alive)
            if is_next and queue not in self.lagging:  # as nearly all
                queue.put_new(queue_offset, data[first * SIZE : last * SIZE], end)
            else:
                self._put_queue(queue, entries.queue_offsets[first:last], entries.all[first:last])

    def _put_delayed(self, queue: ConsumeQueue, entries: "EntriesByQueue", first: int, last: int) -> None:
        """Put some of the entries of a queue of the schedule; what is known of when they are due stays."""
        offsets, times = entries.queue_offsets[first:last], entries.store_times(first, last)
        for begin, behind in runs_of(offsets):
            run = entries.all[first + begin : first + behind]
            data = queue.chain.read(int(offsets[begin]) * SIZE, len(run) * SIZE)
            keep_due_times(run, times[begin:behind], whole_entries(data))
        self._put_queue(queue, offsets, entries.all[first:last])

    def _queue_of(self, queues: Queues, key: QueueKey, count: int, begin: int) -> ConsumeQueue | None:
        try:
            return queues.get(*key)
        except IllegalName as illegal:
            log.warning("%d messages from %d on are left out: %s", count, begin, illegal)
            return None

    def _put_queue(self, queue: ConsumeQueue, offsets: np.ndarray, entries: np.ndarray) -> None:
        """Put one queue's entries, run by run of consecutive queue offsets."""
        if queue in self.lagging:
            return
        for first, last in runs_of(offsets):
            run, queue_offset = entries[first:last], int(offsets[first])
            following = int(offsets[last]) if last < len(offsets) else -1
            space = int(run[0]["physical_offset"]) - queue.physical_end
            if space >= 0 and 0 < queue_offset < queue.max_offset:
                self._settle(queue, queue_offset, run)
            missing = queue_offset - queue.max_offset
            if (missing > 0 and missing * MIN_SIZE > space) or (
                len(run) == 1 and is_odd(queue_offset, queue.max_offset, following)
            ):
                self._leave_out(queue, queue_offset, run)
                continue
            if missing > 0 and queue.physical_end < self._begin:
                self.lagging.add(queue)
                return
            if queue_offset == 0 and queue.max_offset > 0 and space >= 0:
                queue.begin_anew()
            elif missing > 0 and queue.max_offset > 0:
                self.gaps.append(Gap(queue.topic, queue.queue_id, queue.max_offset, missing))
            queue.put_run(queue_offset, run)

    def _settle(self, queue: ConsumeQueue, queue_offset: int, run: np.ndarray) -> None:
        """Decide between a queue's last entry and a run that begins at its queue offset, or before it.

        A field of one of the two is damaged. It is the last entry if it stands alone behind a gap (it was the
        last of its chunk, so nothing told yet), or if the queue's file still names the other record.
        """
        last = queue.max_offset - 1
        begin = min(queue_offset, last - 1)
        block = np.frombuffer(queue.read(begin, queue.max_offset - begin), ENTRY_DTYPE)
        is_alone = len(block) > 1 and bool(are_fillers(block)[:-1].all())
        is_other = queue_offset == last and queue.chain.read(last * SIZE, SIZE) == run[:1].tobytes()
        if (is_alone or is_other) and not are_fillers(block)[-1]:
            self._leave_out(queue, last, block[-1:])
            queue.truncate(int(block[-1]["physical_offset"]))
            place = (queue.topic, queue.queue_id, queue.max_offset)
            self.gaps = [gap for gap in self.gaps if gap[:3] != place]
        else:
            self._leave_out(queue, queue_offset, run[: queue.max_offset - queue_offset])

    def _leave_out(self, queue: ConsumeQueue, queue_offset: int, run: np.ndarray) -> None:
        log.warning(
            "%d messages from %d on are left out: queue offset %d cannot be in %s-%d, which goes to %d",
            len(run),
            run[0]["physical_offset"],
            queue_offset,
            queue.topic,
            queue.queue_id,
            queue.max_offset,
        )

    def _put_keys(self, index: Index, chunk: Chunk, dispatch: Dispatch) -> None:
        scan, record = chunk.scan, dispatch.key_record
        index.insert(dispatch.key_hash, scan.physical_offset[record], scan.store_time[record])


def keep_due_times(run: np.ndarray, store_times: NDArray[np.int64], known: np.ndarray) -> None:
    """Change entries of the schedule's topic: when they are due is what their queue's file already says.

    That was computed by the levels of the time when they were stored, which may be others by now.

    Args:
        run: entries (of ENTRY_DTYPE) as they are computed now.
        store_times: of their records.
        known: the entries in their places; there may be fewer.
    """
    there, times = run[: len(known)], store_times[: len(known)]
    kept = (known["physical_offset"] == there["physical_offset"]) & (known["size"] == there["size"])
    for entries in (known, there):
        kept &= may_be_due(entries["tags_code"].astype(np.int64), times)
    there["tags_code"][kept] = known["tags_code"][kept]


def whole_entries(data: Buffer) -> np.ndarray:
    """Return the entries (of ENTRY_DTYPE) that bytes hold as a whole."""
    return np.frombuffer(data[: len(data) - len(data) % SIZE], ENTRY_DTYPE)


class EntriesByQueue:
    """The queue entries of a chunk's records, those of each queue together.

    Attributes:
        all: the entries (of ENTRY_DTYPE).
        queue_offsets: of the entries.
    """

    def __init__(self, chunk: Chunk, dispatch: Dispatch) -> None:
        scan = chunk.scan
        chosen = np.flatnonzero(dispatch.in_queue)
        order = chosen[np.argsort(dispatch.queue[chosen], kind="stable")]
        self.all = np.empty(len(order), ENTRY_DTYPE)
        self.all["physical_offset"] = scan.physical_offset[order]
        self.all["size"] = scan.size[order]
        self.all["tags_code"] = dispatch.tags_code[order]
        self.queue_offsets = scan.queue_offset[order]
        self._scan, self._order = scan, order
        numbers, self._firsts = np.unique(dispatch.queue[order], return_index=True)
        self._lasts = np.append(self._firsts[1:], len(order))[: len(numbers)]
        self._keys = [dispatch.queues[number] for number in numbers.tolist()]

    def __iter__(self) -> Iterator[tuple[QueueKey, NDArray[np.int64], np.ndarray]]:
        """Go through the queues; give the queue offsets and the entries of each."""
        for key, first, last in zip(self._keys, self._firsts.tolist(), self._lasts.tolist(), strict=True):
            yield key, self.queue_offsets[first:last], self.all[first:last]

    def store_times(self, begin: int, behind: int) -> NDArray[np.int64]:
        """Return when the records of some of ``all`` were stored, ms."""
        return self._scan.store_time[self._order[begin:behind]]

    def stretches(self) -> Iterator[tuple[QueueKey, int, int, bool, int, int, int]]:
        """Go through the queues; give, without making arrays, what nearly all can be put by.

        That is where in ``all`` its entries begin and end, whether their queue offsets follow one another,
        the first queue offset, and the CommitLog offsets of the first record and behind the last.
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
    """Give the runs of consecutive offsets as (first, behind the last)."""
    breaks = np.flatnonzero(np.diff(offsets) != 1) + 1
    return pairwise([0, *breaks.tolist(), len(offsets)])


def is_odd(queue_offset: int, expected: int, following: int) -> bool:
    """Tell whether one record's queue offset is damaged, by the expected one and the next record's, or -1.

    Or its queue id is, and it is one of another queue: then this one goes on as if it were not there.
    """
    return queue_offset != expected and (
        following in (expected, expected + 1) or (queue_offset == 0 and following > expected)
    )
