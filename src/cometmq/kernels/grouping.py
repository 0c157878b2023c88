"""The kernel that groups queue entries by queue: they are counted, and each put where its queue's are."""

from typing import Any, Final

import numpy as np

from cometmq.format.queue_entry import SIZE
from cometmq.kernels.jit import Bytes, Longs, bytes_out, kernel, long, put_int, put_long, rows_out
from cometmq.kernels.ops import Grouped
from cometmq.kernels.sends import ENTRY_SIZE, PHYSICAL_OFFSET, QUEUE, QUEUE_OFFSET, TAGS_CODE

_COUNT: Final = 0
"""Of a queue's entries, and then where its next one goes."""
_FIRST, _LAST = 1, 2
"""The rows of its first and last entry."""


def group_entries(rows: Longs) -> Grouped:
    """Group queue entries: see ``ops.Ops.group_entries``."""
    queues = np.zeros((int(rows[:, QUEUE].max(initial=-1)) + 1, 3), np.int64)
    runs = np.empty((min(len(rows), len(queues)), 5), np.int64)
    entries = np.empty(len(rows) * SIZE, np.uint8)
    count = _group(rows, queues, runs, entries)
    return Grouped(runs[:count], entries.tobytes())


@kernel(long(rows_out, rows_out, rows_out, bytes_out))
def _group(rows: Longs, queues: Longs, runs: Longs, entries: Bytes) -> Any:
    for row in range(len(rows)):
        queue = rows[row, QUEUE]
        if queues[queue, _COUNT] == 0:
            queues[queue, _FIRST] = row
        queues[queue, _LAST] = row
        queues[queue, _COUNT] += 1
    begin, run = 0, 0
    for queue in range(len(queues)):
        end = begin + queues[queue, _COUNT] * SIZE
        if end > begin:
            last = queues[queue, _LAST]
            runs[run, 0], runs[run, 1] = queue, rows[queues[queue, _FIRST], QUEUE_OFFSET]
            runs[run, 2], runs[run, 3] = begin, end
            runs[run, 4] = rows[last, PHYSICAL_OFFSET] + rows[last, ENTRY_SIZE]
            run += 1
        queues[queue, _COUNT] = begin
        begin = end
    for row in range(len(rows)):
        queue = rows[row, QUEUE]
        at = queues[queue, _COUNT]
        put_long(entries, at, rows[row, PHYSICAL_OFFSET])
        put_int(entries, at + 8, rows[row, ENTRY_SIZE])
        put_long(entries, at + 12, rows[row, TAGS_CODE])
        queues[queue, _COUNT] = at + SIZE
    return run
