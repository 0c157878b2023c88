"""The kernel that groups consume queue entries by queue: each is appended to its queue's newest run."""

from typing import Any

from cometmq.format.queue_entry import SIZE
from cometmq.kernels.arrays import Bytes, Longs
from cometmq.kernels.compiling.buffers import put_int, put_long
from cometmq.kernels.compiling.jit import kernel
from cometmq.kernels.compiling.signatures import bytes_out, long, longs_out, rows_out
from cometmq.kernels.ops import RUN_COUNT, RUN_END, RUN_FIRST, RUN_PREVIOUS, RUN_QUEUE, Runs
from cometmq.kernels.sends.rows import ENTRY_SIZE, PHYSICAL_OFFSET, QUEUE, QUEUE_OFFSET, TAGS_CODE


def group_entries(rows: Longs, runs: Runs) -> int:
    """Group consume queue entries by queue: see ``ops.Ops.group_entries``."""
    places = len(runs.rows)
    assert places & (places - 1) == 0 and len(runs.entries) == places * runs.length * SIZE
    count: int = _group(rows, *runs)
    return count


@kernel(long(rows_out, long, rows_out, bytes_out, longs_out, longs_out))
def _group(rows: Longs, length: int, runs: Longs, entries: Bytes, newest: Longs, window: Longs) -> Any:
    first, end = window[0], window[1]
    for row in range(len(rows)):
        queue, queue_offset = rows[row, QUEUE], rows[row, QUEUE_OFFSET]
        if queue >= len(newest):
            window[1] = end
            return row
        run = newest[queue]
        place = run & (len(runs) - 1)
        if (
            run < first
            or runs[place, RUN_COUNT] == length
            or runs[place, RUN_FIRST] + runs[place, RUN_COUNT] != queue_offset
        ):
            if end - first == len(runs):
                window[1] = end
                return row
            newest[queue], place = end, end & (len(runs) - 1)
            runs[place, RUN_QUEUE], runs[place, RUN_FIRST], runs[place, RUN_COUNT] = queue, queue_offset, 0
            runs[place, RUN_PREVIOUS] = run
            end += 1
        at = (place * length + runs[place, RUN_COUNT]) * SIZE
        put_long(entries, at, rows[row, PHYSICAL_OFFSET])
        put_int(entries, at + 8, rows[row, ENTRY_SIZE])
        put_long(entries, at + 12, rows[row, TAGS_CODE])
        runs[place, RUN_COUNT] += 1
        runs[place, RUN_END] = rows[row, PHYSICAL_OFFSET] + rows[row, ENTRY_SIZE]
    window[1] = end
    return len(rows)
