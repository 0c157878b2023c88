"""Bulk dispatch: what a stretch of the CommitLog puts into ConsumeQueues and Index.

Recovery and rebuild go through here with chunks of records, and so does the running store for its
index, which follows the log by some hundred kilobytes. Everything is idempotent: what is there already is
passed over, so a stretch can be dispatched twice.

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
from cometmq.format.delay_level import DelayLevels
from cometmq.format.record import MIN_SIZE
from cometmq.kernels.ops import Dispatch
from cometmq.store.consume_queue import ENTRY_DTYPE, ConsumeQueue
from cometmq.store.index import Index
from cometmq.store.log_scan import Chunk
from cometmq.store.queues import QueueKey, Queues
from cometmq.store.read_ahead import ahead

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
        for (topic, queue_id), offsets, entries, is_row in entries_by_queue(chunk, dispatch):
            first = 0
            if self._deleted:
                first = int(np.searchsorted(entries["physical_offset"], self._deleted.get(topic, 0)))
                if first == len(entries):
                    continue
            try:
                queue = queues.get(topic, queue_id)
            except IllegalName as illegal:
                where = entries["physical_offset"][0]
                log.warning("%d messages from %d on are left out: %s", len(entries), where, illegal)
                continue
            if not (is_row and first == 0 and self._put_row(queue, offsets, entries)):
                self._put_queue(queue, offsets[first:], entries[first:])

    def _put_row(self, queue: ConsumeQueue, offsets: NDArray[np.int64], entries: np.ndarray) -> bool:
        """Put entries that go on where the queue ends, as nearly all do; False, and nothing, if not."""
        fits = (
            int(offsets[0]) == queue.max_offset and int(entries[0]["physical_offset"]) >= queue.physical_end
        )
        if not fits or queue in self.lagging:
            return False
        last = entries[-1]
        queue.put_new(queue.max_offset, entries.tobytes(), int(last["physical_offset"]) + int(last["size"]))
        return True

    def _put_queue(self, queue: ConsumeQueue, offsets: np.ndarray, entries: np.ndarray) -> None:
        """Put one queue's entries, run by run of consecutive queue offsets."""
        if queue in self.lagging:
            return
        for first, last in runs_of(offsets):
            run, queue_offset = entries[first:last], int(offsets[first])
            following = int(offsets[last]) if last < len(offsets) else -1
            space = int(run[0]["physical_offset"]) - queue.physical_end
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


def entries_by_queue(
    chunk: Chunk, dispatch: Dispatch
) -> Iterator[tuple[QueueKey, NDArray[np.int64], np.ndarray, bool]]:
    """Give the queue entries of a chunk's records by queue.

    Of each queue: its queue offsets, entries (of ENTRY_DTYPE), and whether the offsets follow one another.
    """
    scan = chunk.scan
    chosen = np.flatnonzero(dispatch.in_queue)
    order = chosen[np.argsort(dispatch.queue[chosen], kind="stable")]
    entries = np.empty(len(order), ENTRY_DTYPE)
    entries["physical_offset"] = scan.physical_offset[order]
    entries["size"] = scan.size[order]
    entries["tags_code"] = dispatch.tags_code[order]
    numbers, firsts = np.unique(dispatch.queue[order], return_index=True)
    offsets = scan.queue_offset[order]
    steps = np.diff(offsets, prepend=-1) == 1
    steps[firsts] = True
    are_rows = np.logical_and.reduceat(steps, firsts) if len(firsts) else steps
    bounds = [*firsts.tolist(), len(order)]
    for number, (first, last), is_row in zip(
        numbers.tolist(), pairwise(bounds), are_rows.tolist(), strict=True
    ):
        yield dispatch.queues[number], offsets[first:last], entries[first:last], is_row


def runs_of(offsets: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Give the runs of consecutive offsets as (first, behind the last)."""
    breaks = np.flatnonzero(np.diff(offsets) != 1) + 1
    return pairwise([0, *breaks.tolist(), len(offsets)])


def is_odd(queue_offset: int, expected: int, following: int) -> bool:
    """Tell whether one record's queue offset is damaged, by the expected one and the next record's, or -1."""
    return queue_offset != expected and (
        following == expected + 1 or (queue_offset == 0 and following > expected)
    )
