"""The operations on pulls compiled by Numba: ``plain`` says in Python what they do."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cometmq.format.consume_queue_ext import ADDRESS_MAX
from cometmq.format.queue_entry import SIZE
from cometmq.format.record import MIN_SIZE
from cometmq.kernels.arrays import PAGE_SIZE, Bytes, Longs
from cometmq.kernels.compiling.buffers import copy_bytes, fetch_soon, int_at, long_at
from cometmq.kernels.compiling.jit import inlined, int64, kernel
from cometmq.kernels.compiling.signatures import (
    bytes_in,
    bytes_out,
    long,
    longs_in,
    records_out,
    rows_out,
    types,
)
from cometmq.kernels.frames.rows import Frames
from cometmq.kernels.pulls import frames as pull_frames
from cometmq.kernels.pulls import rows as r
from cometmq.kernels.pulls.answers import put_header
from cometmq.kernels.pulls.pull_table import NO_TARGET, PullTable
from cometmq.kernels.pulls.rows import (
    AnswerRoom,
    AnswerStop,
    Asks,
    Choice,
    KnownEntries,
    LogBytes,
    PullRows,
    PullState,
    ReadOutcome,
)
from cometmq.kernels.records.walk import is_message

__all__ = ["answer", "ask_known", "choose", "read"]

_CACHE_LINE: Final = 64
"""Bytes that processors fetch together; if it is another number, a little is fetched later, or twice."""
_read: Any = pull_frames.read  # to Numba the bytes that sockets give are no array
_OUTCOMES: Final = tuple(ReadOutcome)
_STOPS: Final = tuple(AnswerStop)
_LEFT: Final = int(ReadOutcome.LEFT)
_FOUND: Final = int(ReadOutcome.FOUND)
_NONE_WANTED: Final = int(ReadOutcome.NONE_WANTED)
_MISSING: Final = int(ReadOutcome.MISSING)
_STOP_DONE: Final = int(AnswerStop.DONE)
_STOP_ELSEWHERE: Final = int(AnswerStop.ELSEWHERE)
_STOP_FULL: Final = int(AnswerStop.FULL)
_STOP_MISSING: Final = int(AnswerStop.MISSING)
_NOT_KNOWN: Final = -1
_ASKED: Final = int(PullState.ASKED)
_AT_END: Final = int(PullState.AT_END)


@inlined
def _known_end(window: Longs, offset: int, count: int, queue_end: int) -> Any:
    """Return up to where a pull of ``count`` messages reads entries; -1 if these are not known."""
    end = min(offset + count, queue_end)
    if window[r.FIRST] <= offset < end <= window[r.KNOWN_END] and offset >= window[r.WINDOW_MIN_OFFSET]:
        return int64(end)
    return int64(_NOT_KNOWN)


@inlined
def _put_ask(pull: Any, row: Longs, count: int, window: Longs, queue_end: int, entries_end: int) -> Any:
    row[r.ASK_NUMBER], row[r.ASK_IS_BINARY] = pull.opaque, pull.is_binary
    row[r.ASK_OFFSET], row[r.ASK_COUNT], row[r.ASK_BYTES] = pull.queue_offset, count, pull.max_bytes
    row[r.CODES_AT], row[r.CODES_END] = 0, r.NO_CODES
    row[r.MIN_OFFSET], row[r.MAX_OFFSET] = window[r.WINDOW_MIN_OFFSET], queue_end
    row[r.ENTRIES_END] = entries_end
    row[r.OUTCOME], row[r.COUNT], row[r.NEXT_OFFSET], row[r.ANSWER_END] = _LEFT, 0, 0, 0
    return int64(0)


@kernel(
    types.UniTuple(long, 3)(
        records_out(r.PULL),
        long,
        rows_out,
        longs_in,
        rows_out,
        bytes_in,
        rows_out,
        bytes_out,
        long,
        long,
        longs_in,
    )
)
def ask_for_known(
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
    """Ask for what pulls want: see ``rows.PullOps.ask_known``."""
    asked, entries_end = int64(asked), int64(entries_end)
    count_max = limits[r.ASK_COUNT_MAX]
    for i in range(begin, len(pulls)):
        pull = pulls[i]
        if pull.target == NO_TARGET:
            return int64(i), asked, entries_end
        target = targets[pull.target]
        number, offset = target[r.QUEUE_NUMBER], pull.queue_offset
        if number >= len(ends):
            return int64(i), asked, entries_end
        if 0 < offset == ends[number]:
            pull.state = _AT_END
            continue
        if target[r.IS_FILTERED] or number >= len(windows):
            return int64(i), asked, entries_end
        if not limits[r.ASK_BYTES_MIN] <= pull.max_bytes <= limits[r.ASK_BYTES_MAX]:
            return int64(i), asked, entries_end
        window, wanted = windows[number], max(pull.max_count, 1)
        end = _known_end(window, offset, min(wanted, count_max), ends[number])
        size = (end - offset) * SIZE
        if end == _NOT_KNOWN or asked == len(asks) or entries_end + size > len(entries):
            return int64(i), asked, entries_end
        at = window[r.WINDOW_AT] + (offset - window[r.FIRST]) * SIZE
        entries_end = copy_bytes(known, at, at + size, entries, entries_end)
        _put_ask(pull, asks[asked], wanted, window, ends[number], entries_end)
        pull.state = _ASKED
        asked += 1
    return int64(len(pulls)), asked, entries_end


@inlined
def _has(codes: Longs, code: int) -> bool:
    """Check whether a code is among the wanted."""
    for i in range(len(codes)):
        if codes[i] == code:
            return True
    return False


@inlined
def _choose(
    entries: Bytes,
    entries_at: int,
    entries_end: int,
    codes: Longs,
    is_filtered: bool,
    file: Bytes,
    resident: Bytes,
    limits: Longs,
    most_count: int,
    most_size: int,
    queue_offset: int,
    chosen: Any,
) -> Any:
    """Choose records and check them; returns the numbers of a ``rows.Choice``."""
    begin, end, near_offset = limits[r.FILE_BEGIN], limits[r.FILE_END], limits[r.NEAR_OFFSET]
    memory_count, memory_size = min(most_count, limits[r.MEMORY_COUNT]), min(most_size, limits[r.MEMORY_SIZE])
    disk_count, disk_size = min(most_count, limits[r.DISK_COUNT]), min(most_size, limits[r.DISK_SIZE])
    places, sizes, numbers = chosen[r.RECORD_AT], chosen[r.RECORD_SIZE], chosen[r.RECORD_NUMBER]
    zero = int64(0)
    left = int64(_LEFT), zero, zero, int64(-1), zero, zero
    count, total, looked_at, last = int64(0), int64(0), int64(0), int64(-1)
    for i in range((entries_end - entries_at) // SIZE):
        at = entries_at + i * SIZE
        offset, size, code = long_at(entries, at), int64(int_at(entries, at + 8)), long_at(entries, at + 12)
        if count:
            is_near = offset >= near_offset
            if count >= (memory_count if is_near else disk_count):
                break
            if total + size > (memory_size if is_near else disk_size):
                break
            if not begin <= offset < end:
                break
        if code <= ADDRESS_MAX:
            return left
        looked_at += 1
        last = offset
        if is_filtered and not _has(codes, code):
            continue
        if count == len(places) or size < MIN_SIZE or not begin <= offset <= end - size:
            return left
        places[count] = offset - begin
        sizes[count] = size
        for line in range(0, min(size, PAGE_SIZE), _CACHE_LINE):
            fetch_soon(file, offset - begin + line)
        numbers[count] = queue_offset + i
        count += 1
        total += size
    if not count:
        return int64(_NONE_WANTED), zero, looked_at, last, zero, zero
    missing = zero
    for i in range(count):
        for page in range(places[i] // PAGE_SIZE, (places[i] + sizes[i] - 1) // PAGE_SIZE + 1):
            if not resident[page]:
                chosen[r.MISSING_AT, missing] = places[i]
                chosen[r.MISSING_SIZE, missing] = sizes[i]
                missing += 1
                break
    if missing:
        return int64(_MISSING), count, looked_at, last, zero, missing
    for i in range(count):
        if not is_message(file, places[i], sizes[i], begin + places[i], numbers[i]):
            return left
    runs, end_of_run = zero, int64(-1)
    for i in range(count):
        place = places[i]
        if place == end_of_run:
            chosen[r.RUN_SIZE, runs - 1] += sizes[i]
        else:
            chosen[r.RUN_AT, runs] = place
            chosen[r.RUN_SIZE, runs] = sizes[i]
            runs += 1
        end_of_run = place + sizes[i]
    return int64(_FOUND), count, looked_at, last, runs, zero


@inlined
def _copy_runs(file: Bytes, chosen: Any, run_count: int, out: Bytes, at: int) -> Any:
    """Copy the chosen records to ``out[at:]``; return where they end."""
    for run in range(run_count):
        place = chosen[r.RUN_AT, run]
        at = copy_bytes(file, place, place + chosen[r.RUN_SIZE, run], out, at)
    return at


@inlined
def _size_of_runs(chosen: Any, run_count: int) -> Any:
    size = int64(0)
    for run in range(run_count):
        size += chosen[r.RUN_SIZE, run]
    return size


@kernel(
    types.UniTuple(long, 7)(
        bytes_in,
        longs_in,
        types.boolean,
        bytes_in,
        bytes_in,
        longs_in,
        long,
        rows_out,
        bytes_out,
    )
)
def choose_records(
    entries: Bytes,
    codes: Longs,
    is_filtered: bool,
    file: Bytes,
    resident: Bytes,
    limits: Longs,
    queue_offset: int,
    chosen: Any,
    records: Bytes,
) -> Any:
    """Choose records, check and copy them: see ``choose``."""
    outcome, count, looked_at, last, run_count, missing_count = _choose(
        entries,
        0,
        len(entries),
        codes,
        is_filtered,
        file,
        resident,
        limits,
        int64(r.NO_LIMIT),
        int64(r.NO_LIMIT),
        queue_offset,
        chosen,
    )
    size = _size_of_runs(chosen, run_count)
    if size <= len(records):
        _copy_runs(file, chosen, run_count, records, int64(0))
    return outcome, count, looked_at, last, run_count, missing_count, size


@kernel(
    types.UniTuple(long, 4)(
        bytes_in,
        longs_in,
        longs_in,
        rows_out,
        bytes_out,
        rows_out,
        bytes_in,
        longs_in,
        bytes_in,
        bytes_in,
        long,
        long,
    )
)
def answer_asks(
    constants: Bytes,
    bounds: Longs,
    codes: Longs,
    chosen: Any,
    answers: Bytes,
    asks: Any,
    entries: Bytes,
    limits: Longs,
    file: Bytes,
    resident: Bytes,
    first: int,
    at: int,
) -> Any:
    """Answer pulls: see ``answer``."""
    at = int64(at)
    begin, end = limits[r.FILE_BEGIN], limits[r.FILE_END]
    for i in range(first, len(asks)):
        ask = asks[i]
        entries_at = asks[i - 1, r.ENTRIES_END] if i else int64(0)
        ask[r.OUTCOME], ask[r.COUNT], ask[r.ANSWER_END] = _LEFT, 0, at
        if entries_at == ask[r.ENTRIES_END]:
            continue
        if not begin <= long_at(entries, entries_at) < end:
            return int64(i), at, int64(_STOP_ELSEWHERE), int64(0)
        outcome, count, looked_at, _, run_count, missing_count = _choose(
            entries,
            entries_at,
            ask[r.ENTRIES_END],
            codes[ask[r.CODES_AT] : max(ask[r.CODES_END], 0)],
            ask[r.CODES_END] != r.NO_CODES,
            file,
            resident,
            limits,
            ask[r.ASK_COUNT],
            ask[r.ASK_BYTES],
            ask[r.ASK_OFFSET],
            chosen,
        )
        if outcome == _MISSING:
            return int64(i), at, int64(_STOP_MISSING), missing_count
        if outcome == _LEFT:
            continue
        next_offset = ask[r.ASK_OFFSET] + looked_at
        if count:
            size = _size_of_runs(chosen, run_count)
            if at + size + len(constants) + r.ANSWER_SIZE_MAX > len(answers):
                return int64(i), at, int64(_STOP_FULL), int64(0)
            ask[r.NEXT_OFFSET] = next_offset
            at = put_header(ask, size, constants, bounds, answers, at)
            at = _copy_runs(file, chosen, run_count, answers, at)
        ask[r.OUTCOME], ask[r.COUNT], ask[r.NEXT_OFFSET], ask[r.ANSWER_END] = outcome, count, next_offset, at
    return int64(len(asks)), at, int64(_STOP_DONE), int64(0)


def read(frames: Frames, first: int, last: int, into: PullRows, table: PullTable, /) -> int:
    """Read pulls: see ``rows.PullOps.read``."""
    count: int = _read(
        frames.data, frames.table.numbers, first, last, into.table.numbers, table.table.numbers
    )
    return count


def ask_known(
    pulls: NDArray[np.void], begin: int, targets: Longs, known: KnownEntries, asks: Asks, limits: Longs, /
) -> int:
    """Ask for what is known: see ``rows.PullOps.ask_known``."""
    ends, windows, entries = known
    done: int
    done, asks.asked, asks.entries_end = ask_for_known(
        pulls,
        begin,
        targets,
        ends,
        windows,
        entries,
        asks.rows,
        asks.entries,
        asks.asked,
        asks.entries_end,
        limits,
    )
    return done


def choose(
    entries: Bytes,
    codes: Longs | None,
    file: LogBytes,
    limits: Longs,
    queue_offset: int,
    chosen: Longs,
    records: Bytes,
    /,
) -> Choice:
    """Choose records, check and copy them: see ``rows.PullOps.choose``."""
    is_filtered = codes is not None
    outcome, *numbers = choose_records(
        entries,
        r.NO_TAGS if codes is None else codes,
        is_filtered,
        file.data,
        file.resident,
        limits,
        queue_offset,
        chosen,
        records,
    )
    return tuple.__new__(Choice, (_OUTCOMES[outcome], *numbers))  # in half the time of Choice(…)


def answer(
    asks: Asks, out: AnswerRoom, file: LogBytes, limits: Longs, first: int, at: int, /
) -> tuple[int, int, AnswerStop, int]:
    """Answer pulls: see ``rows.PullOps.answer``."""
    row, end, stop, missing_count = answer_asks(
        out.constants.data,
        out.constants.bounds,
        asks.codes,
        out.chosen,
        out.data,
        asks.rows[: asks.asked],
        asks.entries,
        limits,
        file.data,
        file.resident,
        first,
        at,
    )
    return row, end, _STOPS[stop], missing_count
