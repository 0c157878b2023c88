"""The kernel that reads queries: from the places of a frame's fields to their numbers and key hashes."""

from typing import Any, Final

import numpy as np

from cometmq.kernels.arrays import Bytes, Longs
from cometmq.kernels.compiling.buffers import byte_at, copy_bytes
from cometmq.kernels.compiling.jit import inlined, int32, int64, kernel
from cometmq.kernels.compiling.signatures import (
    bytes_object,
    bytes_out,
    long,
    longs_in,
    records_out,
    rows_out,
)
from cometmq.kernels.frames.compiled import int_field, long_field, places_of, rows_of
from cometmq.kernels.frames.fields import ABSENT, columns
from cometmq.kernels.frames.rows import PLACES, ROWS
from cometmq.kernels.queries.rows import QUERY, TEXTS_SIZE, UNIQUE_COUNT, QueryState
from cometmq.kernels.records.keys import topic_seed
from cometmq.kernels.text.json_text import NOT_A_NUMBER
from cometmq.kernels.text.utf8 import hash_text
from cometmq.wire.codes import RequestCode

_TOPIC, _KEY, _COUNT, _BEGIN, _END, _UNIQUE, _OFFSET = columns(
    "topic", "key", "maxNum", "beginTimestamp", "endTimestamp", "_UNIQUE_KEY_QUERY", "offset"
)
_BY_KEY_CODE: Final = int(RequestCode.QUERY_MESSAGE)
_LOOKING: Final = int(QueryState.LOOKING)
_FOUND: Final = int(QueryState.FOUND)
_LONG_MAX: Final = 2**63 - 1
_LONG_MAX_TEXT: Final = np.frombuffer(str(_LONG_MAX).encode(), np.uint8)
_TRUE: Final = np.frombuffer(b"true", np.uint8)
_FALSE: Final = np.frombuffer(b"false", np.uint8)


@inlined
def _is_text(data: Bytes, places: Any, column: int, text: Bytes) -> bool:
    begin = int64(places[2 * column])
    if begin == ABSENT or places[2 * column + 1] - begin != len(text):
        return False
    for i in range(len(text)):
        if byte_at(data, begin + i) != text[i]:
            return False
    return True


@inlined
def _time_field(data: Bytes, places: Any, column: int) -> Any:
    """Read a time in ms; the latest one of Java has more digits than ``long_field`` reads."""
    if _is_text(data, places, column, _LONG_MAX_TEXT):
        return int64(_LONG_MAX)
    return long_field(data, places, column, NOT_A_NUMBER)


@inlined
def _key_hash(data: Bytes, places: Any) -> Any:
    """Compute ``java_hash.index_key_hash`` of a query's topic and key."""
    seed = topic_seed(data, int64(places[2 * _TOPIC]), int64(places[2 * _TOPIC + 1]))
    value = int32(hash_text(seed, data, int64(places[2 * _KEY]), int64(places[2 * _KEY + 1])))
    return int64(0) if value == int32(-(2**31)) else abs(int64(value))


@inlined
def _read_by_key(data: Bytes, places: Any, row: Any, texts: Bytes, texts_at: int) -> bool:
    """Parse the fields of a query by key; return False if it is unusual."""
    if places[2 * _TOPIC] == ABSENT or places[2 * _KEY] == ABSENT:
        return False
    row.max_count = int_field(data, places, _COUNT, NOT_A_NUMBER)
    row.begin_time = _time_field(data, places, _BEGIN)
    row.end_time = _time_field(data, places, _END)
    if NOT_A_NUMBER in (row.max_count, row.begin_time, row.end_time):
        return False
    row.is_unique = _is_text(data, places, _UNIQUE, _TRUE)
    if row.is_unique:
        row.max_count = UNIQUE_COUNT
    elif places[2 * _UNIQUE] != ABSENT and not _is_text(data, places, _UNIQUE, _FALSE):
        return False
    row.topic_size = int64(places[2 * _TOPIC + 1]) - int64(places[2 * _TOPIC])
    row.key_size = int64(places[2 * _KEY + 1]) - int64(places[2 * _KEY])
    if row.topic_size + row.key_size > TEXTS_SIZE:
        return False
    at = copy_bytes(data, int64(places[2 * _TOPIC]), int64(places[2 * _TOPIC + 1]), texts, texts_at)
    copy_bytes(data, int64(places[2 * _KEY]), int64(places[2 * _KEY + 1]), texts, at)
    row.key_hash = _key_hash(data, places)
    return True


@inlined
def _read_query(
    data: Bytes, frame: Any, places: Any, row: Any, offsets: Any, texts: Bytes, texts_at: int
) -> bool:
    """Read the query of a frame; return False if it is not a usual one."""
    row.is_binary, row.opaque = frame.is_binary, frame.opaque
    row.is_by_key = frame.code == _BY_KEY_CODE
    row.files = row.place = row.place_end = row.answer_end = 0
    if row.is_by_key:
        row.state, row.count = _LOOKING, 0
        return _read_by_key(data, places, row, texts, texts_at)
    row.state, row.count = _FOUND, 1
    row.is_unique = row.key_hash = row.topic_size = row.key_size = 0
    row.max_count = row.begin_time = row.end_time = 0
    offsets[0] = long_field(data, places, _OFFSET, NOT_A_NUMBER)
    return bool(offsets[0] != NOT_A_NUMBER)


@kernel(long(bytes_object, longs_in, long, long, long, records_out(QUERY), rows_out, bytes_out))
def read(
    data: Bytes,
    frames: Longs,
    first: int,
    last: int,
    begin: int,
    queries: Any,
    offsets: Any,
    texts: Bytes,
) -> Any:
    """Read the queries of some frames, into rows from ``begin`` on: see ``rows.QueryOps.read``."""
    rows, places = rows_of(frames, ROWS), places_of(frames, PLACES)
    for i in range(min(last - first, len(queries) - begin)):
        at = begin + i
        queries[at].frame = first + i
        if not _read_query(
            data,
            rows[first + i],
            places[first + i],
            queries[at],
            offsets[at],
            texts,
            at * TEXTS_SIZE,
        ):
            return int64(i)
    return int64(min(last - first, len(queries) - begin))
