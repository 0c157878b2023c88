"""The queue entries of records that a master has encoded, in the running store of its slave.

Usually each record continues its queue. Then entries are staged as those of the store's own messages are, and
grouped by queue before they are appended: see ``queue.staged``. Else, and where an entry is not what its
record says (due times, light queues), they are replayed as by a recovery.
"""

import numpy as np

from cometmq import kernels
from cometmq.errors import IllegalName
from cometmq.format.delay_level import SCHEDULE_TOPIC, DelayLevels
from cometmq.kernels.ops import Dispatch
from cometmq.store.log.log_scan import Chunk
from cometmq.store.queue.ledger import Ledger
from cometmq.store.queue.queues import QueueKey, Queues
from cometmq.store.recovery.light_entries import placed
from cometmq.store.recovery.replay import Replay


class ReceivedEntries:
    """Adds the entries of a master's records to their queues.

    Args:
        ledger: says which records are those of deleted topics.
    """

    def __init__(self, queues: Queues, delay_levels: DelayLevels, ledger: Ledger) -> None:
        self._queues = queues
        self._delay_levels = delay_levels
        self._ledger = ledger

    def add(self, chunk: Chunk) -> Dispatch:
        """Add the entries of records, in the order of the log; later messages are numbered from there.

        Returns:
            What was read of the records.

        Raises:
            StoreNotWritable: the disk takes no more.
        """
        found = kernels.loading.ops.dispatch(chunk.buffer, chunk.scan, self._delay_levels, named=True)
        are_usual = not found.is_light.any() and all(map(self._is_usual, found.queues))
        if not (are_usual and self._stage(chunk, found)):
            self._replay(chunk, found)
        return found

    def _is_usual(self, key: QueueKey) -> bool:
        return key[0] != SCHEDULE_TOPIC and key[0] not in self._ledger.deleted

    def _stage(self, chunk: Chunk, found: Dispatch) -> bool:
        """Stage the entries; return False, with nothing done, if a record does not continue its queue."""
        try:
            used = np.unique(found.queue[found.in_queue]).tolist()
            numbers = {queue: self._queues.number_of(*found.queues[queue]) for queue in used}
        except IllegalName:
            return False
        next_offsets, scan = self._queues.next_offsets.values, chunk.scan
        rows: list[tuple[int, ...]] = []
        for is_in_queue, queue, *row in zip(
            found.in_queue.tolist(),
            found.queue.tolist(),
            scan.queue_offset.tolist(),
            scan.physical_offset.tolist(),
            scan.size.tolist(),
            found.tags_code.tolist(),
            strict=True,
        ):
            if not is_in_queue:
                continue
            number = numbers[queue]
            if row[0] != next_offsets[number]:
                for taken, *_ in rows:
                    next_offsets[taken] -= 1
                return False
            next_offsets[number] += 1
            rows.append((number, *row))
        self._queues.staged.add(rows)
        return True

    def _replay(self, chunk: Chunk, found: Dispatch) -> None:
        """Add the entries to their queues as a recovery does."""
        queues = self._queues
        Replay(queues, None, self._delay_levels, deleted=self._ledger.deleted).add(chunk, found)
        for key in placed(chunk, found).keys:
            if (queue := queues.find(*key)) is not None:
                queue.next_offset = queue.max_offset
