"""The kernel that parses queries: from the bytes of a socket read to their numbers and key hashes."""

from typing import Any, Final

import numpy as np

from cometmq.kernels.compiling.jit import (
    Bytes,
    Longs,
    byte_at,
    bytes_object,
    bytes_out,
    copy_bytes,
    inlined,
    int32,
    int64,
    int_at,
    kernel,
    long,
    longs_out,
    queries_out,
    rows_out,
    types,
)
from cometmq.kernels.headers.compiled import (
    HEADER_LENGTH_MASK,
    PREFIX_SIZE,
    frame_end,
    int_field,
    long_field,
    readers_of,
)
from cometmq.kernels.headers.places import CODE, FLAG, NOT_A_NUMBER, OPAQUE
from cometmq.kernels.queries.rows import (
    TEXTS_SIZE,
    UNIQUE_COUNT,
    QueryState,
)
from cometmq.kernels.records.keys import topic_seed
from cometmq.kernels.records.text import hash_text
from cometmq.wire.codes import RequestCode

BY_KEY_CODE: Final = int(RequestCode.QUERY_MESSAGE)
BY_ID_CODE: Final = int(RequestCode.VIEW_MESSAGE_BY_ID)
NAMES: Final = (
    b"topic",
    b"key",
    b"maxNum",
    b"beginTimestamp",
    b"endTimestamp",
    b"_UNIQUE_KEY_QUERY",
    b"offset",
)
TOPIC, KEY, COUNT_FIELD, BEGIN, END, UNIQUE_FIELD, OFFSET = range(len(NAMES))

_LOOKING: Final = int(QueryState.LOOKING)
_FOUND: Final = int(QueryState.FOUND)
_LONG_MAX: Final = 2**63 - 1
_LONG_MAX_TEXT: Final = np.frombuffer(str(_LONG_MAX).encode(), np.uint8)
_TRUE: Final = np.frombuffer(b"true", np.uint8)
_FALSE: Final = np.frombuffer(b"false", np.uint8)

read_json, read_binary = readers_of(NAMES)


@inlined
def _is_text(data: Bytes, places: Longs, field: int, text: Bytes) -> bool:
    begin = places[2 * field]
    if begin == NOT_A_NUMBER or places[2 * field + 1] - begin != len(text):
        return False
    for i in range(len(text)):
        if byte_at(data, begin + i) != text[i]:
            return False
    return True


@inlined
def _time_field(data: Bytes, places: Longs, field: int) -> Any:
    """Read a time in ms; the latest one of Java has more digits than ``long_field`` reads."""
    if _is_text(data, places, field, _LONG_MAX_TEXT):
        return int64(_LONG_MAX)
    return long_field(data, places, field, NOT_A_NUMBER)


@inlined
def _key_hash(data: Bytes, places: Longs) -> Any:
    """Compute ``java_hash.index_key_hash`` of a query's topic and key."""
    seed = topic_seed(data, places[2 * TOPIC], places[2 * TOPIC + 1])
    value = int32(hash_text(seed, data, places[2 * KEY], places[2 * KEY + 1]))
    return int64(0) if value == int32(-(2**31)) else abs(int64(value))


@inlined
def _read_by_key(data: Bytes, places: Longs, row: Any, texts: Bytes, texts_at: int) -> bool:
    """Parse the fields of a query by key; return False if it is unusual."""
    if places[2 * TOPIC] == NOT_A_NUMBER or places[2 * KEY] == NOT_A_NUMBER:
        return False
    row.max_count = int_field(data, places, COUNT_FIELD, NOT_A_NUMBER)
    row.begin_time = _time_field(data, places, BEGIN)
    row.end_time = _time_field(data, places, END)
    if NOT_A_NUMBER in (row.max_count, row.begin_time, row.end_time):
        return False
    row.is_unique = _is_text(data, places, UNIQUE_FIELD, _TRUE)
    if row.is_unique:
        row.max_count = UNIQUE_COUNT
    elif places[2 * UNIQUE_FIELD] != NOT_A_NUMBER and not _is_text(data, places, UNIQUE_FIELD, _FALSE):
        return False
    row.topic_size = places[2 * TOPIC + 1] - places[2 * TOPIC]
    row.key_size = places[2 * KEY + 1] - places[2 * KEY]
    if row.topic_size + row.key_size > TEXTS_SIZE:
        return False
    at = copy_bytes(data, places[2 * TOPIC], places[2 * TOPIC + 1], texts, texts_at)
    copy_bytes(data, places[2 * KEY], places[2 * KEY + 1], texts, at)
    row.key_hash = _key_hash(data, places)
    return True


@inlined
def _read_query(
    data: Bytes,
    position: int,
    end: int,
    row: Any,
    offsets: Longs,
    places: Longs,
    texts: Bytes,
    texts_at: int,
) -> bool:
    """Parse the frame from ``position`` to ``end``; return False if it is not a usual query."""
    word = int64(int_at(data, position + 4))
    begin = position + PREFIX_SIZE
    if begin + (word & HEADER_LENGTH_MASK) != end:
        return False
    places[:] = NOT_A_NUMBER
    is_binary = word >> 24
    if is_binary:
        is_read = read_binary(data, begin, end, places, texts)
    else:
        is_read = read_json(data, begin, end, places, texts)
    if not is_read or (places[FLAG] != NOT_A_NUMBER and places[FLAG]):
        return False
    row.frame_at, row.frame_end = position, end
    row.is_binary = is_binary
    row.opaque = int64(0) if places[OPAQUE] == NOT_A_NUMBER else places[OPAQUE]
    row.is_by_key = places[CODE] == BY_KEY_CODE
    row.files = row.place = row.place_end = row.answer_end = 0
    if row.is_by_key:
        row.state, row.count = _LOOKING, 0
        return _read_by_key(data, places, row, texts, texts_at)
    row.state, row.count = _FOUND, 1
    row.is_unique = row.key_hash = row.topic_size = row.key_size = 0
    row.max_count = row.begin_time = row.end_time = 0
    offsets[0] = long_field(data, places, OFFSET, NOT_A_NUMBER)
    return bool(places[CODE] == BY_ID_CODE and offsets[0] != NOT_A_NUMBER)


@kernel(
    types.UniTuple(long, 3)(bytes_object, long, long, long, queries_out, rows_out, bytes_out, longs_out),
)
def read(
    data: Bytes,
    start: int,
    data_end: int,
    first: int,
    queries: Any,
    offsets: Any,
    texts: Bytes,
    places: Longs,
) -> Any:
    """Parse the queries of a socket read, into rows from ``first`` on: see ``rows.QueryOps.read``."""
    position = queries_end = int64(start)
    count = int64(first)
    while position < data_end and count < len(queries):
        end = frame_end(data, position)
        if end < 0 or end > data_end:
            return count - first, queries_end, int64(data_end)
        if not _read_query(
            *(data, position, end, queries[count], offsets[count], places),
            *(texts, count * TEXTS_SIZE),
        ):
            position = end
            continue
        if position > queries_end:  # other frames lie between
            return count - first, queries_end, position
        count += 1
        position = queries_end = end
    return count - first, queries_end, position
