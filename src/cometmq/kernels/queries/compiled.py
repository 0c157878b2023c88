"""The operations on queries compiled by Numba: ``plain`` says in Python what they do."""

from typing import Any, Final

from cometmq.format.index import ENTRY_SIZE, HEADER_SIZE, NO_ENTRY, SLOT_SIZE
from cometmq.format.record import MIN_SIZE
from cometmq.kernels.arrays import PAGE_SIZE, Bytes, Longs
from cometmq.kernels.compiling.buffers import copy_bytes, int_at, long_at
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
from cometmq.kernels.pulls.rows import AnswerStop, LogBytes
from cometmq.kernels.queries import frames
from cometmq.kernels.queries import rows as r
from cometmq.kernels.queries.rows import IndexBytes, QueryConstants, QueryRows, QueryState
from cometmq.kernels.records.index import slot_at
from cometmq.kernels.records.walk import BODY_CRC, GOOD, has_key, walk
from cometmq.kernels.text.answers import put_around

__all__ = ["answer", "find", "read"]

_read: Any = frames.read  # to Numba the bytes that sockets give are no array
_STOPS: Final = tuple(AnswerStop)
_LOOKING: Final = int(QueryState.LOOKING)
_MISSING: Final = int(QueryState.MISSING)
_FOUND: Final = int(QueryState.FOUND)
_ANSWERED: Final = int(QueryState.ANSWERED)
_NOTHING: Final = int(QueryState.NOTHING)
_LEFT: Final = int(QueryState.LEFT)
_STOP_DONE: Final = int(AnswerStop.DONE)
_STOP_ELSEWHERE: Final = int(AnswerStop.ELSEWHERE)
_STOP_FULL: Final = int(AnswerStop.FULL)
_STOP_MISSING: Final = int(AnswerStop.MISSING)


@inlined
def _lacks(query: Any, resident: Bytes, begin: int, end: int) -> bool:
    """Check whether bytes are not known to be in memory; if so, mark the query as MISSING them."""
    for page in range(begin // PAGE_SIZE, (end - 1) // PAGE_SIZE + 1):
        if not resident[page]:
            query.state, query.place, query.place_end = _MISSING, begin, end
            return True
    return False


@inlined
def _follow(
    image: Bytes,
    is_held: bool,
    file: Bytes,
    resident: Bytes,
    tail: Bytes,
    numbers: tuple[int, ...],
    most: int,
    hops_max: int,
    query: Any,
    offsets: Longs,
) -> Any:
    """Follow the chain of a query's slot; return the new number of records, unless its state changed."""
    count = query.count
    slot = slot_at(query.key_hash, (len(image) - HEADER_SIZE) // SLOT_SIZE)
    if not is_held and _lacks(query, resident, slot, slot + SLOT_SIZE):
        return count
    number = int64(int_at(image, slot))
    written = min(numbers[r.WRITTEN], (len(file) - numbers[r.ENTRIES_AT]) // ENTRY_SIZE)
    last = min(numbers[r.NEXT_ENTRY], written + len(tail) // ENTRY_SIZE)
    for _ in range(hops_max):
        if not NO_ENTRY < number < last or count >= most:
            return count
        if number < written:
            at = numbers[r.ENTRIES_AT] + number * ENTRY_SIZE
            if _lacks(query, resident, at, at + ENTRY_SIZE):
                return count
            entry = file[at : at + ENTRY_SIZE]
        else:
            at = (number - written) * ENTRY_SIZE
            entry = tail[at : at + ENTRY_SIZE]
        time_diff = int_at(entry, 12)
        if time_diff < 0:
            return count
        store_time = numbers[r.FILE_BEGIN_TIME] + time_diff * int64(1000)
        if int_at(entry, 0) == query.key_hash and query.begin_time <= store_time <= query.end_time:
            offsets[count] = long_at(entry, 4)
            count += 1
        if store_time < query.begin_time:
            return count
        last = number  # a sound chain only goes back in the file; a damaged one could be endless
        number = int64(int_at(entry, 16))
    query.state = _LEFT
    return count


@kernel(
    long(
        bytes_in,
        types.boolean,
        bytes_in,
        bytes_in,
        bytes_in,
        types.UniTuple(long, 5),
        long,
        long,
        long,
        records_out(r.QUERY),
        rows_out,
    )
)
def find_keys(
    image: Bytes,
    is_held: bool,
    file: Bytes,
    resident: Bytes,
    tail: Bytes,
    numbers: tuple[int, ...],
    number: int,
    max_count: int,
    hops_max: int,
    queries: Any,
    offsets: Any,
) -> Any:
    """Look up keys in an index file: see ``find``."""
    missing = 0
    for i in range(len(queries)):
        query = queries[i]
        if query.state != _LOOKING or query.files != number:
            continue
        most = min(query.max_count, max_count)
        if not 0 < most <= offsets.shape[1]:
            query.state = _LEFT
            continue
        count = query.count
        if numbers[r.FILE_BEGIN_TIME] <= query.end_time and numbers[r.FILE_END_TIME] >= query.begin_time:
            count = _follow(
                image,
                is_held,
                file,
                resident,
                tail,
                numbers,
                most,
                hops_max,
                query,
                offsets[i],
            )
        if query.state == _LOOKING:
            query.count = count
            query.files += 1
            if numbers[r.FILE_BEGIN_TIME] < query.begin_time or count >= most:
                query.state = _FOUND
        elif query.state == _MISSING:
            missing += 1
    return missing


@inlined
def _check(
    query: Any,
    offsets: Longs,
    texts: Bytes,
    texts_at: int,
    file: Bytes,
    resident: Bytes,
    begin: int,
    end: int,
) -> Any:
    """Check all records of a query; return their total size in bytes, or 0 with its state saying why."""
    total = int64(0)
    for i in range(query.count):
        offset = offsets[i]
        at = offset - begin
        query.state = _LEFT
        if not begin <= offset <= end - MIN_SIZE or (i and offset >= offsets[i - 1]):
            return int64(0)
        if _lacks(query, resident, at, at + MIN_SIZE):
            return int64(0)
        size = int64(int_at(file, at))
        if not MIN_SIZE <= size <= end - offset:
            return int64(0)
        if _lacks(query, resident, at, at + size):
            return int64(0)
        parts = walk(file, at, at + size, offset, BODY_CRC)
        if parts.stop != GOOD:
            return int64(0)
        if query.is_by_key and not has_key(
            file, parts, texts, texts_at, query.topic_size, query.key_size, query.is_unique
        ):
            return int64(0)
        total += size
    query.state = _FOUND
    return total


@kernel(
    types.UniTuple(long, 3)(
        bytes_in,
        longs_in,
        bytes_out,
        records_out(r.QUERY),
        rows_out,
        bytes_in,
        types.UniTuple(long, 3),
        bytes_in,
        bytes_in,
        long,
        long,
    )
)
def answer_queries(
    constants: Bytes,
    bounds: Longs,
    answers: Bytes,
    queries: Any,
    offsets: Any,
    texts: Bytes,
    limits: tuple[int, int, int],
    file: Bytes,
    resident: Bytes,
    first: int,
    at: int,
) -> Any:
    """Write the responses to queries: see ``answer``.

    Args:
        limits: the confirm offset, and where the file begins and ends in the CommitLog.
    """
    at = int64(at)
    confirm_offset, begin, end = limits
    for i in range(first, len(queries)):
        query, found = queries[i], offsets[i]
        query.answer_end = at
        if query.state != _FOUND and query.state != _LOOKING:
            continue
        if query.count == 0 or (not query.is_by_key and found[0] >= confirm_offset):
            query.state = _NOTHING
            continue
        if not begin <= found[0] < end:
            return int64(i), at, int64(_STOP_ELSEWHERE)
        size = _check(query, found, texts, i * r.TEXTS_SIZE, file, resident, begin, end)
        if query.state == _MISSING:
            return int64(i), at, int64(_STOP_MISSING)
        if query.state == _LEFT:
            continue
        if at + size + len(constants) + r.ANSWER_SIZE_MAX > len(answers):
            return int64(i), at, int64(_STOP_FULL)
        piece = (r.BY_KEY_PIECES if query.is_by_key else 0) + (r.BINARY_PIECES if query.is_binary else 0)
        at = put_around(query.opaque, query.is_binary, size, constants, bounds, piece, answers, at)
        for n in range(query.count):  # the oldest first, which was found last
            place = found[query.count - 1 - n] - begin
            at = copy_bytes(file, place, place + int64(int_at(file, place)), answers, at)
        query.state, query.answer_end = _ANSWERED, at
    return int64(len(queries)), at, int64(_STOP_DONE)


def read(frames: Frames, first: int, last: int, queries: QueryRows, /) -> int:
    """Read queries: see ``rows.QueryOps.read``."""
    count: int = _read(
        frames.data,
        frames.table.numbers,
        first,
        last,
        queries.count,
        queries.array,
        queries.offsets,
        queries.texts,
    )
    queries.count += count
    return count


def find(file: IndexBytes, number: int, max_count: int, hops_max: int, queries: QueryRows, /) -> int:
    """Look up keys: see ``rows.QueryOps.find``."""
    missing: int = find_keys(
        *file, number, max_count, hops_max, queries.array[: queries.count], queries.offsets
    )
    return missing


def answer(
    queries: QueryRows,
    constants: QueryConstants,
    answers: Bytes,
    file: LogBytes,
    confirm_offset: int,
    first: int,
    at: int,
    /,
) -> tuple[int, int, AnswerStop]:
    """Respond to queries: see ``rows.QueryOps.answer``."""
    row, end, stop = answer_queries(
        constants.data,
        constants.bounds,
        answers,
        queries.array[: queries.count],
        queries.offsets,
        queries.texts,
        (confirm_offset, file.begin, file.end),
        file.data,
        file.resident,
        first,
        at,
    )
    return row, end, _STOPS[stop]
