"""The kernel that collects the queue entries which pulls read, from windows of entries read ahead.

``store.get`` defines which entries a pull reads. This kernel serves pulls whose entries are in their queue's
window; it stops at any other pull.
"""

from typing import Any, Final

from cometmq.format.queue_entry import SIZE
from cometmq.kernels.jit import (
    Bytes,
    Longs,
    bytes_in,
    bytes_out,
    copy_bytes,
    inlined,
    int64,
    kernel,
    long,
    longs_in,
    rows_out,
    types,
)
from cometmq.kernels.pulls import (
    ADDED,
    ASK_BYTES,
    ASK_COUNT,
    ASK_IS_BINARY,
    ASK_NUMBER,
    ASK_OFFSET,
    AT_END,
    CODES_AT,
    CODES_END,
    ENTRIES_END,
    FIRST,
    IS_BINARY,
    IS_FILTERED,
    KNOWN_END,
    MAX_BYTES,
    MAX_COUNT,
    MAX_OFFSET,
    MIN_OFFSET,
    NO_CODES,
    NO_TARGET,
    NUMBER,
    PLACE,
    QUEUE_NUMBER,
    QUEUE_OFFSET,
    TARGET,
    WINDOW_AT,
    WINDOW_MIN_OFFSET,
)

__all__ = ["ask_known"]

_NOT_KNOWN: Final = -1


@inlined
def _known_end(window: Longs, offset: int, count: int, queue_end: int) -> Any:
    """Return the queue offset up to which a pull of ``count`` messages reads, -1 if entries are missing."""
    end = min(offset + count, queue_end)
    if window[FIRST] <= offset < end <= window[KNOWN_END] and offset >= window[WINDOW_MIN_OFFSET]:
        return int64(end)
    return int64(_NOT_KNOWN)


@inlined
def _put_ask(pull: Longs, row: Longs, count: int, window: Longs, queue_end: int, entries_end: int) -> Any:
    row[ASK_NUMBER], row[ASK_IS_BINARY] = pull[NUMBER], pull[IS_BINARY]
    row[ASK_OFFSET], row[ASK_COUNT], row[ASK_BYTES] = pull[QUEUE_OFFSET], count, pull[MAX_BYTES]
    row[CODES_AT], row[CODES_END] = 0, NO_CODES
    row[MIN_OFFSET], row[MAX_OFFSET] = window[WINDOW_MIN_OFFSET], queue_end
    row[ENTRIES_END] = entries_end
    return int64(0)


@kernel(
    types.UniTuple(long, 3)(
        *(rows_out, long, long, rows_out, longs_in),
        *(rows_out, bytes_in, rows_out, long, bytes_out, long),
        *(long, long, long),
    )
)
def ask_known(
    pulls: Any,
    begin: int,
    count: int,
    targets: Any,
    ends: Longs,
    windows: Any,
    known: Bytes,
    asks: Any,
    asked: int,
    entries: Bytes,
    entries_end: int,
    count_max: int,
    bytes_min: int,
    bytes_max: int,
) -> Any:
    """Collect the queue entries which pulls read: see ``pulls.PullOps.ask_known``."""
    asked, entries_end = int64(asked), int64(entries_end)
    for i in range(begin, count):
        pull = pulls[i]
        if pull[TARGET] == NO_TARGET:
            return int64(i), asked, entries_end
        target = targets[pull[TARGET]]
        number, offset = target[QUEUE_NUMBER], pull[QUEUE_OFFSET]
        if number >= len(ends):
            return int64(i), asked, entries_end
        if 0 < offset == ends[number]:
            pull[PLACE] = AT_END
            continue
        if target[IS_FILTERED] or not bytes_min <= pull[MAX_BYTES] <= bytes_max or number >= len(windows):
            return int64(i), asked, entries_end
        window, wanted = windows[number], max(pull[MAX_COUNT], 1)
        end = _known_end(window, offset, min(wanted, count_max), ends[number])
        size = (end - offset) * SIZE
        if end == _NOT_KNOWN or asked == len(asks) or entries_end + size > len(entries):
            return int64(i), asked, entries_end
        at = window[WINDOW_AT] + (offset - window[FIRST]) * SIZE
        entries_end = copy_bytes(known, at, at + size, entries, entries_end)
        _put_ask(pull, asks[asked], wanted, window, ends[number], entries_end)
        pull[PLACE] = ADDED
        asked += 1
    return int64(count), asked, entries_end
