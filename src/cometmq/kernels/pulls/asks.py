"""The kernel that asks for what pulls want, where their queues' entries are known.

``plain`` says in Python what it does.
"""

from typing import Any, Final

from cometmq.format.queue_entry import SIZE
from cometmq.kernels.compiling.jit import (
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
from cometmq.kernels.pulls.pull_table import NO_TARGET
from cometmq.kernels.pulls.rows import (
    ANSWER_END,
    ASK_BYTES,
    ASK_BYTES_MAX,
    ASK_BYTES_MIN,
    ASK_COUNT,
    ASK_COUNT_MAX,
    ASK_IS_BINARY,
    ASK_NUMBER,
    ASK_OFFSET,
    CODES_AT,
    CODES_END,
    COUNT,
    ENTRIES_END,
    FIRST,
    IS_BINARY,
    IS_FILTERED,
    KNOWN_END,
    MAX_BYTES,
    MAX_COUNT,
    MAX_OFFSET,
    MIN_OFFSET,
    NEXT_OFFSET,
    NO_CODES,
    NUMBER,
    OUTCOME,
    QUEUE_NUMBER,
    QUEUE_OFFSET,
    STATE,
    TARGET,
    WINDOW_AT,
    WINDOW_MIN_OFFSET,
    PullState,
    ReadOutcome,
)

__all__ = ["ask_known"]

_NOT_KNOWN: Final = -1
_ASKED: Final = int(PullState.ASKED)
_AT_END: Final = int(PullState.AT_END)
_LEFT: Final = int(ReadOutcome.LEFT)


@inlined
def _known_end(window: Longs, offset: int, count: int, queue_end: int) -> Any:
    """Return up to where a pull of ``count`` messages reads entries; -1 if these are not known."""
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
    row[OUTCOME], row[COUNT], row[NEXT_OFFSET], row[ANSWER_END] = _LEFT, 0, 0, 0
    return int64(0)


@kernel(
    types.UniTuple(long, 3)(
        *(rows_out, long, rows_out, longs_in, rows_out, bytes_in),
        *(rows_out, bytes_out, long, long, longs_in),
    )
)
def ask_known(
    pulls: Any,
    begin: int,
    targets: Any,
    ends: Longs,
    windows: Any,
    known: Bytes,
    asks: Any,
    entries: Bytes,
    asked: int,
    entries_end: int,
    limits: Longs,
) -> Any:
    """Ask for what pulls want: see ``pulls.PullOps.ask_known``."""
    asked, entries_end = int64(asked), int64(entries_end)
    count_max = limits[ASK_COUNT_MAX]
    for i in range(begin, len(pulls)):
        pull = pulls[i]
        if pull[TARGET] == NO_TARGET:
            return int64(i), asked, entries_end
        target = targets[pull[TARGET]]
        number, offset = target[QUEUE_NUMBER], pull[QUEUE_OFFSET]
        if number >= len(ends):
            return int64(i), asked, entries_end
        if 0 < offset == ends[number]:
            pull[STATE] = _AT_END
            continue
        if target[IS_FILTERED] or number >= len(windows):
            return int64(i), asked, entries_end
        if not limits[ASK_BYTES_MIN] <= pull[MAX_BYTES] <= limits[ASK_BYTES_MAX]:
            return int64(i), asked, entries_end
        window, wanted = windows[number], max(pull[MAX_COUNT], 1)
        end = _known_end(window, offset, min(wanted, count_max), ends[number])
        size = (end - offset) * SIZE
        if end == _NOT_KNOWN or asked == len(asks) or entries_end + size > len(entries):
            return int64(i), asked, entries_end
        at = window[WINDOW_AT] + (offset - window[FIRST]) * SIZE
        entries_end = copy_bytes(known, at, at + size, entries, entries_end)
        _put_ask(pull, asks[asked], wanted, window, ends[number], entries_end)
        pull[STATE] = _ASKED
        asked += 1
    return int64(len(pulls)), asked, entries_end
