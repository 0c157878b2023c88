"""The kernel that groups queue entries by queue: each goes to the end of its queue's newest run."""

from typing import Any, Final

from cometmq.format.queue_entry import SIZE
from cometmq.kernels.jit import Bytes, Longs, bytes_out, kernel, long, longs_out, put_int, put_long, rows_out
from cometmq.kernels.ops import Runs
from cometmq.kernels.sends import ENTRY_SIZE, PHYSICAL_OFFSET, QUEUE, QUEUE_OFFSET, TAGS_CODE

_NUMBER: Final = 0
_FIRST: Final = 1
"""The queue offset of a run's first entry."""
_COUNT: Final = 2
_END: Final = 3
"""Where the record of its last entry ends."""
_PREVIOUS: Final = 4
"""The run that its queue began before, or -1."""


def group_entries(rows: Longs, runs: Runs) -> int:
    """Group queue entries: see ``ops.Ops.group_entries``."""
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
            or runs[place, _COUNT] == length
            or runs[place, _FIRST] + runs[place, _COUNT] != queue_offset
        ):
            if end - first == len(runs):
                window[1] = end
                return row
            newest[queue], place = end, end & (len(runs) - 1)
            runs[place, _NUMBER], runs[place, _FIRST], runs[place, _COUNT] = queue, queue_offset, 0
            runs[place, _PREVIOUS] = run
            end += 1
        at = (place * length + runs[place, _COUNT]) * SIZE
        put_long(entries, at, rows[row, PHYSICAL_OFFSET])
        put_int(entries, at + 8, rows[row, ENTRY_SIZE])
        put_long(entries, at + 12, rows[row, TAGS_CODE])
        runs[place, _COUNT] += 1
        runs[place, _END] = rows[row, PHYSICAL_OFFSET] + rows[row, ENTRY_SIZE]
    window[1] = end
    return len(rows)
