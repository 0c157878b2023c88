"""The operations on pulls compiled by Numba: ``plain`` says in Python what they do."""

from typing import Any, Final

from cometmq.format.consume_queue_ext import ADDRESS_MAX
from cometmq.format.queue_entry import SIZE
from cometmq.format.record import MIN_SIZE
from cometmq.kernels.arrays import PAGE_SIZE, Bytes, Longs
from cometmq.kernels.compiling.buffers import (
    array_of,
    bytes_of,
    copy_bytes,
    fetch_soon,
    int_at,
    long_at,
    longs_of,
)
from cometmq.kernels.compiling.jit import inlined, int64, kernel
from cometmq.kernels.compiling.signatures import bytes_in, long, longs_in, types
from cometmq.kernels.frames.rows import Frames
from cometmq.kernels.pulls import frames as pull_frames
from cometmq.kernels.pulls import rows as r
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
from cometmq.kernels.text.answers import header_writer, put_decimal
from cometmq.kernels.text.key_search import key_rows_of
from cometmq.kernels.text.key_table import NO_ROW, ROWS, KeyTable

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

_asks_of = array_of(types.int64, r.ASK_SIZE)
_windows_of = array_of(types.int64, r.WINDOW_SIZE)
_chosen_of = array_of(types.int64, r.CHOSEN_SIZE)


@inlined
def _put_number(i: int, numbers: tuple[int, ...], out: Bytes, at: int) -> Any:
    return put_decimal(out, at, numbers[i])


_put_header = header_writer(_put_number)


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


@kernel(types.UniTuple(long, 3)(longs_in, long, long, longs_in, longs_in, longs_in, long, long))
def ask_for_known(
    into: Longs,
    begin: int,
    end: int,
    table: Longs,
    known: Longs,
    into_asks: Longs,
    asked: int,
    entries_end: int,
) -> Any:
    """Ask for what pulls want: see ``rows.PullOps.ask_known``."""
    pulls, ends = pull_frames.pulls_of(into, r.PULLS), longs_of(known, r.ENDS)
    windows, known_entries = _windows_of(known, r.WINDOWS), bytes_of(known, r.KNOWN)
    asks, entries = _asks_of(into_asks, r.ASKS), bytes_of(into_asks, r.ENTRIES)
    limits, targets = longs_of(into_asks, r.ASK_LIMITS), key_rows_of(table, ROWS)
    asked, entries_end = int64(asked), int64(entries_end)
    for i in range(begin, end):
        pull = pulls[i]
        if pull.target == NO_ROW:
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
        known_end = _known_end(window, offset, min(wanted, limits[r.ASK_COUNT_MAX]), ends[number])
        size = (known_end - offset) * SIZE
        if known_end == _NOT_KNOWN or asked == len(asks) or entries_end + size > len(entries):
            return int64(i), asked, entries_end
        at = window[r.WINDOW_AT] + (offset - window[r.FIRST]) * SIZE
        entries_end = copy_bytes(known_entries, at, at + size, entries, entries_end)
        _put_ask(pull, asks[asked], wanted, window, ends[number], entries_end)
        pull.state = _ASKED
        asked += 1
    return int64(end), asked, entries_end


@inlined
def _has(codes: Longs, code: int) -> bool:
    """Check whether a code is among the wanted."""
    for i in range(len(codes)):
        if codes[i] == code:
            return True
    return False


@inlined
def _put_wanted(
    entries: Bytes, codes: Longs, is_filtered: bool, file: Bytes, limits: Longs, asked: Any, chosen: Any
) -> Any:
    """Choose records by their entries.

    Args:
        asked: the most records, their most bytes, and the queue offset of the first entry.

    Returns:
        How many are chosen, how many bytes they are, how many entries are done with, and the last one's
        offset in the log; -1 records if the choice is not for a leaf operation.
    """
    most_count, most_size, queue_offset = asked
    begin, end, near_offset = limits[r.FILE_BEGIN], limits[r.FILE_END], limits[r.NEAR_OFFSET]
    memory_count, memory_size = min(most_count, limits[r.MEMORY_COUNT]), min(most_size, limits[r.MEMORY_SIZE])
    disk_count, disk_size = min(most_count, limits[r.DISK_COUNT]), min(most_size, limits[r.DISK_SIZE])
    left = int64(-1), int64(0), int64(0), int64(-1)
    count, total, looked_at, last = int64(0), int64(0), int64(0), int64(-1)
    for i in range(len(entries) // SIZE):
        at = i * SIZE
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
        if count == len(chosen) or size < MIN_SIZE or not begin <= offset <= end - size:
            return left
        record = chosen[count]
        record[r.RECORD_AT], record[r.RECORD_SIZE] = offset - begin, size
        record[r.RECORD_NUMBER] = queue_offset + i
        for line in range(0, min(size, PAGE_SIZE), _CACHE_LINE):
            fetch_soon(file, offset - begin + line)
        count += 1
        total += size
    return count, total, looked_at, last


@inlined
def _put_missing(chosen: Any, count: int, resident: Bytes) -> Any:
    """Collect those of the chosen records that are not known to be in memory; return how many."""
    missing = int64(0)
    for i in range(count):
        place, size = chosen[i, r.RECORD_AT], chosen[i, r.RECORD_SIZE]
        for page in range(place // PAGE_SIZE, (place + size - 1) // PAGE_SIZE + 1):
            if not resident[page]:
                chosen[missing, r.MISSING_AT], chosen[missing, r.MISSING_SIZE] = place, size
                missing += 1
                break
    return missing


@inlined
def _are_messages(file: Bytes, begin: int, chosen: Any, count: int) -> bool:
    """Check that the chosen records are what their entries say."""
    for i in range(count):
        record = chosen[i]
        place = record[r.RECORD_AT]
        if not is_message(file, place, record[r.RECORD_SIZE], begin + place, record[r.RECORD_NUMBER]):
            return False
    return True


@inlined
def _put_runs(chosen: Any, count: int) -> Any:
    """Join chosen records that lie side by side; return how many runs they are."""
    runs, end_of_run = int64(0), int64(-1)
    for i in range(count):
        place, size = chosen[i, r.RECORD_AT], chosen[i, r.RECORD_SIZE]
        if place == end_of_run:
            chosen[runs - 1, r.RUN_SIZE] += size
        else:
            chosen[runs, r.RUN_AT], chosen[runs, r.RUN_SIZE] = place, size
            runs += 1
        end_of_run = place + size
    return runs


@inlined
def _choose(
    entries: Bytes,
    codes: Longs,
    is_filtered: bool,
    file: Bytes,
    resident: Bytes,
    limits: Longs,
    asked: Any,
    chosen: Any,
) -> Any:
    """Choose records and check them; return the numbers of a ``rows.Choice``."""
    zero = int64(0)
    left = int64(_LEFT), zero, zero, int64(-1), zero, zero, zero
    count, size, looked_at, last = _put_wanted(entries, codes, is_filtered, file, limits, asked, chosen)
    if count < 0:
        return left
    if not count:
        return int64(_NONE_WANTED), zero, looked_at, last, zero, zero, zero
    missing = _put_missing(chosen, count, resident)
    if missing:
        return int64(_MISSING), count, looked_at, last, zero, missing, zero
    if not _are_messages(file, limits[r.FILE_BEGIN], chosen, count):
        return left
    return int64(_FOUND), count, looked_at, last, _put_runs(chosen, count), zero, size


@inlined
def _copy_runs(file: Bytes, chosen: Any, run_count: int, out: Bytes, at: int) -> Any:
    """Copy the chosen records to ``out[at:]``; return where they end."""
    for run in range(run_count):
        place = chosen[run, r.RUN_AT]
        at = copy_bytes(file, place, place + chosen[run, r.RUN_SIZE], out, at)
    return at


@kernel(types.UniTuple(long, 7)(bytes_in, longs_in, types.boolean, bytes_in, bytes_in, long, longs_in))
def choose_records(
    entries: Bytes,
    codes: Longs,
    is_filtered: bool,
    file: Bytes,
    resident: Bytes,
    queue_offset: int,
    room: Longs,
) -> Any:
    """Choose records, check and copy them: see ``choose``."""
    records, chosen, limits = bytes_of(room, r.DATA), _chosen_of(room, r.CHOSEN), longs_of(room, r.LIMITS)
    asked = int64(r.NO_LIMIT), int64(r.NO_LIMIT), queue_offset
    choice = _choose(entries, codes, is_filtered, file, resident, limits, asked, chosen)
    _, _, _, _, run_count, _, size = choice
    if size <= len(records):
        _copy_runs(file, chosen, run_count, records, int64(0))
    return choice


@kernel(types.UniTuple(long, 4)(longs_in, long, longs_in, bytes_in, bytes_in, long, long))
def answer_asks(
    table: Longs, asked: int, room: Longs, file: Bytes, resident: Bytes, first: int, at: int
) -> Any:
    """Answer pulls: see ``answer``."""
    asks, entries, codes = _asks_of(table, r.ASKS), bytes_of(table, r.ENTRIES), longs_of(table, r.CODES)
    answers, chosen, limits = bytes_of(room, r.DATA), _chosen_of(room, r.CHOSEN), longs_of(room, r.LIMITS)
    constants, bounds = bytes_of(room, r.CONSTANTS), longs_of(room, r.BOUNDS)
    at = int64(at)
    for i in range(first, asked):
        ask = asks[i]
        entries_at = asks[i - 1, r.ENTRIES_END] if i else int64(0)
        ask[r.OUTCOME], ask[r.COUNT], ask[r.ANSWER_END] = _LEFT, 0, at
        if entries_at == ask[r.ENTRIES_END]:
            continue
        if not limits[r.FILE_BEGIN] <= long_at(entries, entries_at) < limits[r.FILE_END]:
            return int64(i), at, int64(_STOP_ELSEWHERE), int64(0)
        outcome, count, looked_at, _, run_count, missing_count, size = _choose(
            entries[entries_at : ask[r.ENTRIES_END]],
            codes[ask[r.CODES_AT] : max(ask[r.CODES_END], 0)],
            ask[r.CODES_END] != r.NO_CODES,
            file,
            resident,
            limits,
            (ask[r.ASK_COUNT], ask[r.ASK_BYTES], ask[r.ASK_OFFSET]),
            chosen,
        )
        if outcome == _MISSING:
            return int64(i), at, int64(_STOP_MISSING), missing_count
        if outcome == _LEFT:
            continue
        next_offset = ask[r.ASK_OFFSET] + looked_at
        if count:
            if at + size + len(constants) + r.ANSWER_SIZE_MAX > len(answers):
                return int64(i), at, int64(_STOP_FULL), int64(0)
            numbers = int64(r.SUGGESTED_BROKER), next_offset, ask[r.MIN_OFFSET], ask[r.MAX_OFFSET]
            opaque, is_binary = ask[r.ASK_NUMBER], ask[r.ASK_IS_BINARY]
            at = _put_header(opaque, is_binary, size, numbers, constants, bounds, answers, at)
            at = _copy_runs(file, chosen, run_count, answers, at)
        ask[r.OUTCOME], ask[r.COUNT], ask[r.NEXT_OFFSET], ask[r.ANSWER_END] = outcome, count, next_offset, at
    return int64(asked), at, int64(_STOP_DONE), int64(0)


def read(frames: Frames, first: int, last: int, into: PullRows, table: KeyTable, /) -> int:
    """Read pulls: see ``rows.PullOps.read``."""
    count: int = _read(
        frames.data, frames.table.numbers, first, last, into.table.numbers, table.table.numbers
    )
    return count


def ask_known(
    pulls: PullRows, begin: int, end: int, table: KeyTable, known: KnownEntries, asks: Asks, /
) -> int:
    """Ask for what is known: see ``rows.PullOps.ask_known``."""
    done: int
    done, asks.asked, asks.entries_end = ask_for_known(
        pulls.table.numbers,
        begin,
        end,
        table.table.numbers,
        known.table.numbers,
        asks.table.numbers,
        asks.asked,
        asks.entries_end,
    )
    return done


def choose(
    entries: Bytes, codes: Longs | None, file: LogBytes, queue_offset: int, out: AnswerRoom, /
) -> Choice:
    """Choose records, check and copy them: see ``rows.PullOps.choose``."""
    wanted = r.NO_TAGS if codes is None else codes
    outcome, *numbers = choose_records(
        entries, wanted, codes is not None, file.data, file.resident, queue_offset, out.table.numbers
    )
    return tuple.__new__(Choice, (_OUTCOMES[outcome], *numbers))  # in half the time of Choice(…)


def answer(
    asks: Asks, out: AnswerRoom, file: LogBytes, first: int, at: int, /
) -> tuple[int, int, AnswerStop, int]:
    """Answer pulls: see ``rows.PullOps.answer``."""
    row, end, stop, missing_count = answer_asks(
        asks.table.numbers, asks.asked, out.table.numbers, file.data, file.resident, first, at
    )
    return row, end, _STOPS[stop], missing_count
