"""The kernels that look up keys in index files, and write query responses with records of the log.

``store.index.index`` and ``store.read.query`` define the result of a query. These kernels serve the usual
case: what they read is in memory, and the records are sound and in one file of the log.
"""

from typing import Any, Final

from cometmq.format.index import ENTRY_SIZE, HEADER_SIZE, NO_ENTRY, SLOT_SIZE
from cometmq.format.record import MIN_SIZE
from cometmq.kernels.compiling.jit import (
    Bytes,
    Longs,
    bytes_in,
    bytes_out,
    copy_bytes,
    inlined,
    int64,
    int_at,
    kernel,
    long,
    long_at,
    longs_in,
    put_int,
    rows_out,
    types,
)
from cometmq.kernels.ops import PAGE_SIZE
from cometmq.kernels.queries.frames import read
from cometmq.kernels.queries.rows import (
    ANSWER_END,
    ANSWER_SIZE_MAX,
    ANSWERED,
    BEGIN_TIME,
    BINARY_PIECES,
    COUNT,
    DONE,
    ELSEWHERE,
    END_TIME,
    FILES,
    FOUND,
    FOUND_MAX,
    FULL,
    HOPS_MAX,
    IS_BINARY,
    IS_BY_KEY,
    IS_UNIQUE,
    KEY_HASH,
    KEY_SIZE,
    LOOKING,
    MAX_COUNT,
    MISSING,
    NUMBER,
    PIECES,
    PLACE,
    PLACE_END,
    STATE,
    STUCK,
    TEXTS_SIZE,
    TOPIC_SIZE,
    UNUSUAL,
)
from cometmq.kernels.records.index import slot_at
from cometmq.kernels.records.walk import BODY_CRC, GOOD, has_key, walk
from cometmq.kernels.sends.answers import put_decimal

__all__ = ["answer", "find", "read"]

_PREFIX_SIZE: Final = 8


@inlined
def _lacks(query: Longs, resident: Bytes, begin: int, end: int) -> bool:
    """Return whether bytes are not known to be in memory; if so, mark the query as MISSING them."""
    for page in range(begin // PAGE_SIZE, (end - 1) // PAGE_SIZE + 1):
        if not resident[page]:
            query[STATE], query[PLACE], query[PLACE_END] = MISSING, begin, end
            return True
    return False


@inlined
def _follow(
    image: Bytes,
    file: Bytes,
    resident: Bytes,
    is_held: bool,
    tail: Bytes,
    written: int,
    begin_time: int,
    next_entry: int,
    max_count: int,
    query: Longs,
    offsets: Longs,
) -> Any:
    """Follow the chain of a query's slot; return the new number of records, unless its state changed."""
    count = query[COUNT]
    slot = slot_at(query[KEY_HASH], (len(image) - HEADER_SIZE) // SLOT_SIZE)
    if not is_held and _lacks(query, resident, slot, slot + SLOT_SIZE):
        return count
    number = int64(int_at(image, slot))
    written = min(written, (len(file) - len(image)) // ENTRY_SIZE)
    last = min(next_entry, written + len(tail) // ENTRY_SIZE)
    for _ in range(HOPS_MAX):
        if not NO_ENTRY < number < last or count >= max_count:
            return count
        if number < written:
            at = len(image) + number * ENTRY_SIZE
            if _lacks(query, resident, at, at + ENTRY_SIZE):
                return count
            entry = file[at : at + ENTRY_SIZE]
        else:
            at = (number - written) * ENTRY_SIZE
            entry = tail[at : at + ENTRY_SIZE]
        time_diff = int_at(entry, 12)
        if time_diff < 0:
            return count
        store_time = begin_time + time_diff * int64(1000)
        if int_at(entry, 0) == query[KEY_HASH] and query[BEGIN_TIME] <= store_time <= query[END_TIME]:
            offsets[count] = long_at(entry, 4)
            count += 1
        if store_time < query[BEGIN_TIME]:
            return count
        last = number  # a sound chain only goes back in the file; a damaged one could be endless
        number = int64(int_at(entry, 16))
    query[STATE] = UNUSUAL
    return count


@kernel(
    long(
        *(bytes_in, bytes_in, bytes_in, types.boolean, bytes_in),
        *(long, long, long, long, long, long),
        *(rows_out, rows_out),
    )
)
def find(
    image: Bytes,
    file: Bytes,
    resident: Bytes,
    is_held: bool,
    tail: Bytes,
    written: int,
    begin_time: int,
    end_time: int,
    next_entry: int,
    number: int,
    max_count: int,
    queries: Any,
    offsets: Any,
) -> Any:
    """Look up keys in an index file: see ``queries.QueryOps.find``."""
    missing = 0
    for i in range(len(queries)):
        query = queries[i]
        if query[STATE] != LOOKING or query[FILES] != number:
            continue
        most = min(query[MAX_COUNT], max_count)
        if not 0 < most <= FOUND_MAX:
            query[STATE] = UNUSUAL
            continue
        count = query[COUNT]
        if begin_time <= query[END_TIME] and end_time >= query[BEGIN_TIME]:
            count = _follow(
                image,
                file,
                resident,
                is_held,
                tail,
                written,
                begin_time,
                next_entry,
                most,
                query,
                offsets[i],
            )
        if query[STATE] == LOOKING:
            query[COUNT] = count
            query[FILES] += 1
            if begin_time < query[BEGIN_TIME] or count >= most:
                query[STATE] = FOUND
        elif query[STATE] == MISSING:
            missing += 1
    return missing


@inlined
def _check(
    query: Longs,
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
    for i in range(query[COUNT]):
        offset = offsets[i]
        at = offset - begin
        query[STATE] = UNUSUAL
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
        if query[IS_BY_KEY] and not has_key(
            file, parts, texts, texts_at, query[TOPIC_SIZE], query[KEY_SIZE], query[IS_UNIQUE]
        ):
            return int64(0)
        total += size
    query[STATE] = FOUND
    return total


@inlined
def _put_header(query: Longs, body_size: int, constants: Bytes, bounds: Longs, out: Bytes, begin: int) -> Any:
    """Write the response's header to ``out[begin:]``; return the position for its body."""
    piece = (PIECES if query[IS_BY_KEY] else 0) + (BINARY_PIECES if query[IS_BINARY] else 0)
    at = copy_bytes(constants, bounds[piece], bounds[piece + 1], out, begin + _PREFIX_SIZE)
    if query[IS_BINARY]:
        put_int(out, at, query[NUMBER])
        at += 4
    else:
        at = put_decimal(out, at, query[NUMBER])
    at = copy_bytes(constants, bounds[piece + 1], bounds[piece + 2], out, at)
    header_size = at - begin - _PREFIX_SIZE
    put_int(out, begin, 4 + header_size + body_size)
    put_int(out, begin + 4, query[IS_BINARY] << 24 | header_size)
    return at


@kernel(
    types.UniTuple(long, 3)(
        *(bytes_in, longs_in, bytes_out, rows_out, rows_out, bytes_in, long),
        *(bytes_in, bytes_in, long, long),
        *(long, long),
    )
)
def answer(
    constants: Bytes,
    bounds: Longs,
    answers: Bytes,
    queries: Any,
    offsets: Any,
    texts: Bytes,
    confirm_offset: int,
    file: Bytes,
    resident: Bytes,
    begin: int,
    end: int,
    first: int,
    at: int,
) -> Any:
    """Write the responses to queries: see ``queries.QueryOps.answer``."""
    at = int64(at)
    for i in range(first, len(queries)):
        query, found = queries[i], offsets[i]
        query[ANSWER_END] = at
        if query[STATE] != FOUND:
            continue
        if query[COUNT] == 0 or (not query[IS_BY_KEY] and found[0] >= confirm_offset):
            query[STATE] = UNUSUAL
            continue
        if not begin <= found[0] < end:
            return int64(i), at, int64(ELSEWHERE)
        size = _check(query, found, texts, i * TEXTS_SIZE, file, resident, begin, end)
        if query[STATE] == MISSING:
            return int64(i), at, int64(STUCK)
        if query[STATE] == UNUSUAL:
            continue
        if at + size + len(constants) + ANSWER_SIZE_MAX > len(answers):
            return int64(i), at, int64(FULL)
        at = _put_header(query, size, constants, bounds, answers, at)
        for n in range(query[COUNT]):  # the oldest first, which was found last
            place = found[query[COUNT] - 1 - n] - begin
            at = copy_bytes(file, place, place + int64(int_at(file, place)), answers, at)
        query[STATE], query[ANSWER_END] = ANSWERED, at
    return int64(len(queries)), at, int64(DONE)
