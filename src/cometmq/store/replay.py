"""Bulk dispatch: what a stretch of the CommitLog puts into ConsumeQueues and Index.

Recovery and rebuild go through here with chunks of records, and so does the running store for its
index, which follows the log by some hundred kilobytes. Everything is idempotent: what is there already is
passed over, so a stretch can be dispatched twice.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from cometmq import kernels
from cometmq.format.delay_level import DelayLevels
from cometmq.kernels.ops import Dispatch
from cometmq.store.consume_queue import ENTRY_DTYPE, ConsumeQueue
from cometmq.store.index import Index
from cometmq.store.log_scan import Chunk
from cometmq.store.queues import Queues


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

    Attributes:
        messages: how many records were looked at.
        gaps: stretches of queues that are missing in the log (their offsets hold fillers).
    """

    def __init__(self, queues: Queues | None, index: Index | None, delay_levels: DelayLevels) -> None:
        self.messages = 0
        self.gaps: list[Gap] = []
        self._queues = queues
        self._index = index
        self._delay_levels = delay_levels

    def dispatch(self, chunk: Chunk) -> None:
        """Dispatch the records of ``chunk``."""
        self.messages += chunk.scan.count
        dispatch = kernels.current().dispatch(chunk.buffer, chunk.scan, self._delay_levels)
        if self._queues is not None:
            self._put_entries(self._queues, chunk, dispatch)
        if self._index is not None:
            self._put_keys(self._index, chunk, dispatch)

    def _put_entries(self, queues: Queues, chunk: Chunk, dispatch: Dispatch) -> None:
        scan = chunk.scan
        chosen = np.flatnonzero(dispatch.in_queue)
        order = chosen[np.argsort(dispatch.queue[chosen], kind="stable")]
        entries = np.empty(len(order), ENTRY_DTYPE)
        entries["physical_offset"] = scan.physical_offset[order]
        entries["size"] = scan.size[order]
        entries["tags_code"] = dispatch.tags_code[order]
        numbers, firsts = np.unique(dispatch.queue[order], return_index=True)
        bounds = [*firsts.tolist(), len(order)]
        for number, (first, last) in zip(numbers.tolist(), pairwise(bounds), strict=True):
            queue = queues.get(*dispatch.queues[number])
            self._put_queue(queue, scan.queue_offset[order[first:last]], entries[first:last])

    def _put_queue(self, queue: ConsumeQueue, offsets: np.ndarray, entries: np.ndarray) -> None:
        """Put one queue's entries, run by run of consecutive queue offsets."""
        breaks = np.flatnonzero(np.diff(offsets) != 1) + 1
        bounds = [0, *breaks.tolist(), len(offsets)]
        for first, last in pairwise(bounds):
            queue_offset = int(offsets[first])
            missing = queue_offset - queue.max_offset
            if missing > 0 and queue.max_offset > 0:
                self.gaps.append(Gap(queue.topic, queue.queue_id, queue.max_offset, missing))
            queue.put_run(queue_offset, entries[first:last])

    def _put_keys(self, index: Index, chunk: Chunk, dispatch: Dispatch) -> None:
        offsets = chunk.scan.physical_offset[dispatch.key_record]
        new = offsets > index.end_offset
        if not new.all():
            dispatch_hash, offsets = dispatch.key_hash[new], offsets[new]
            times = chunk.scan.store_time[dispatch.key_record[new]]
        else:
            dispatch_hash, times = dispatch.key_hash, chunk.scan.store_time[dispatch.key_record]
        index.insert(dispatch_hash, offsets, times)
