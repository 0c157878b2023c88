"""The kernels that select a queue's messages by its entries, check the records, and write pull responses.

``store.get`` defines the result of a read. These kernels serve the usual case: the records are sound, in one
file of the log, and in memory. Any other read is reported as UNUSUAL.
"""

from typing import Any, Final

from cometmq.format.consume_queue_ext import ADDRESS_MAX
from cometmq.format.queue_entry import SIZE
from cometmq.format.record import MIN_SIZE
from cometmq.kernels.jit import (
    Bytes,
    Longs,
    bytes_in,
    bytes_out,
    copy_bytes,
    fetch_soon,
    inlined,
    int64,
    int_at,
    kernel,
    long,
    long_at,
    longs_in,
    longs_out,
    rows_out,
    types,
)
from cometmq.kernels.pull_answers import put_header
from cometmq.kernels.pull_asks import ask_known
from cometmq.kernels.pull_frames import read
from cometmq.kernels.pulls import (
    ANSWER_END,
    ANSWER_SIZE_MAX,
    ASK_BYTES,
    ASK_COUNT,
    ASK_OFFSET,
    CODES_AT,
    CODES_END,
    COUNT,
    DONE,
    ELSEWHERE,
    ENTRIES_END,
    FULL,
    LAST,
    LOOKED_AT,
    NEXT_OFFSET,
    NO_CODES,
    PAGE_SIZE,
    RUNS,
    UNUSUAL,
)
from cometmq.kernels.record_check import is_message

__all__ = ["answer", "ask_known", "choose", "read"]

_CACHE_LINE: Final = 64
"""The usual size of a processor's cache line in bytes; with another size, prefetching is only less exact."""


@inlined
def _has(codes: Longs, begin: int, end: int, code: int) -> bool:
    """Return whether a code is among ``codes[begin:end]``."""
    for i in range(begin, end):
        if codes[i] == code:
            return True
    return False


@inlined
def _choose(
    entries: Bytes,
    entries_at: int,
    entries_end: int,
    codes: Longs,
    codes_at: int,
    codes_end: int,
    file: Bytes,
    resident: Bytes,
    begin: int,
    end: int,
    queue_offset: int,
    near_offset: int,
    memory_count: int,
    memory_size: int,
    disk_count: int,
    disk_size: int,
    places: Longs,
    sizes: Longs,
    run_sizes: Longs,
    outcome: Longs,
) -> Any:
    count, total, looked_at, last = 0, 0, 0, int64(-1)
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
            return UNUSUAL
        looked_at += 1
        last = offset
        if codes_end != NO_CODES and not _has(codes, codes_at, codes_end, code):
            continue
        if count == len(places) or size < MIN_SIZE or not begin <= offset <= end - size:
            return UNUSUAL
        places[count] = offset - begin
        sizes[count] = size
        for line in range(0, min(size, PAGE_SIZE), _CACHE_LINE):
            fetch_soon(file, offset - begin + line)
        outcome[count] = queue_offset + i
        count += 1
        total += size
    missing = 0
    for i in range(count):
        for page in range(places[i] // PAGE_SIZE, (places[i] + sizes[i] - 1) // PAGE_SIZE + 1):
            if not resident[page]:
                places[missing] = places[i]
                sizes[missing] = sizes[i]
                missing += 1
                break
    if missing:
        return UNUSUAL - missing
    for i in range(count):
        if not is_message(file, places[i], sizes[i], begin + places[i], outcome[i]):
            return UNUSUAL
    runs, end_of_run = 0, int64(-1)
    for i in range(count):
        place = places[i]
        if place == end_of_run:
            run_sizes[runs - 1] += sizes[i]
        else:
            places[runs] = place
            run_sizes[runs] = sizes[i]
            runs += 1
        end_of_run = place + sizes[i]
    outcome[LOOKED_AT] = looked_at
    outcome[LAST] = last
    outcome[RUNS] = runs
    return count


@kernel(
    long(
        *(bytes_in, longs_in, types.boolean, bytes_in, bytes_in),
        *(long, long, long, long, long, long, long, long),
        *(longs_out, longs_out, longs_out, longs_out),
    )
)
def choose(
    entries: Bytes,
    codes: Longs,
    is_filtered: bool,
    file: Bytes,
    resident: Bytes,
    begin: int,
    end: int,
    queue_offset: int,
    near_offset: int,
    memory_count: int,
    memory_size: int,
    disk_count: int,
    disk_size: int,
    places: Longs,
    sizes: Longs,
    run_sizes: Longs,
    outcome: Longs,
) -> Any:
    """Select records by their queue entries, and check them: see ``pulls.PullOps.choose``."""
    return _choose(
        entries,
        0,
        len(entries),
        codes,
        0,
        len(codes) if is_filtered else NO_CODES,
        file,
        resident,
        begin,
        end,
        queue_offset,
        near_offset,
        memory_count,
        memory_size,
        disk_count,
        disk_size,
        places,
        sizes,
        run_sizes,
        outcome,
    )


@kernel(
    types.UniTuple(long, 3)(
        *(bytes_in, longs_in, longs_in),
        *(longs_out, longs_out, longs_out, longs_out),
        *(bytes_out, rows_out, bytes_in),
        *(long, long, long, long, long),
        *(bytes_in, bytes_in, long, long),
        *(long, long, long),
    )
)
def answer(
    constants: Bytes,
    bounds: Longs,
    codes: Longs,
    places: Longs,
    sizes: Longs,
    run_sizes: Longs,
    outcome: Longs,
    answers: Bytes,
    asks: Any,
    entries: Bytes,
    memory_count: int,
    memory_size: int,
    disk_count: int,
    disk_size: int,
    near_offset: int,
    file: Bytes,
    resident: Bytes,
    begin: int,
    end: int,
    first: int,
    count: int,
    at: int,
) -> Any:
    """Write the responses to pulls: see ``pulls.PullOps.answer``."""
    at = int64(at)
    for i in range(first, count):
        ask = asks[i]
        entries_at = asks[i - 1, ENTRIES_END] if i else int64(0)
        ask[COUNT], ask[ANSWER_END] = UNUSUAL, at
        if entries_at == ask[ENTRIES_END]:
            continue
        if not begin <= long_at(entries, entries_at) < end:
            return int64(i), at, int64(ELSEWHERE)
        found = _choose(
            entries,
            entries_at,
            ask[ENTRIES_END],
            codes,
            ask[CODES_AT],
            ask[CODES_END],
            file,
            resident,
            begin,
            end,
            ask[ASK_OFFSET],
            near_offset,
            min(ask[ASK_COUNT], memory_count),
            min(ask[ASK_BYTES], memory_size),
            min(ask[ASK_COUNT], disk_count),
            min(ask[ASK_BYTES], disk_size),
            places,
            sizes,
            run_sizes,
            outcome,
        )
        if found < UNUSUAL:
            return int64(i), at, FULL + UNUSUAL - found
        if found < 0:
            continue
        ask[NEXT_OFFSET] = ask[ASK_OFFSET] + outcome[LOOKED_AT]
        if found:
            size = int64(0)
            for run in range(outcome[RUNS]):
                size += run_sizes[run]
            if at + size + len(constants) + ANSWER_SIZE_MAX > len(answers):
                return int64(i), at, int64(FULL)
            at = put_header(ask, size, constants, bounds, answers, at)
            for run in range(outcome[RUNS]):
                at = copy_bytes(file, places[run], places[run] + run_sizes[run], answers, at)
        ask[COUNT], ask[ANSWER_END] = found, at
    return int64(count), at, int64(DONE)
