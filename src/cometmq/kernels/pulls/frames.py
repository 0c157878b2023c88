"""The kernel that parses pulls: from the bytes of a socket read to their numbers and their targets."""

from typing import Any, Final

from cometmq.kernels.compiling.jit import (
    Bytes,
    Longs,
    bytes_in,
    bytes_object,
    bytes_out,
    copy_bytes,
    inlined,
    int64,
    int_at,
    kernel,
    long,
    longs_in,
    longs_out,
    put_int,
    put_long,
    put_word,
    rows_out,
    types,
    uint64,
    word_at,
)
from cometmq.kernels.headers.compiled import HEADER_LENGTH_MASK, PREFIX_SIZE, frame_end, int_field, long_field
from cometmq.kernels.headers.places import CODE, FLAG, NOT_A_NUMBER, OPAQUE
from cometmq.kernels.pulls import header
from cometmq.kernels.pulls.pull_table import KEY_AT, KEY_SIZE, KEY_SIZE_MAX, MIX, NO_TARGET, ROW_SIZE
from cometmq.kernels.pulls.rows import (
    COMMIT_OFFSET,
    FRAME_AT,
    FRAME_END,
    HASH,
    IS_BINARY,
    MAX_BYTES,
    MAX_COUNT,
    NO_LIMIT,
    NOTHING_TO_COMMIT,
    NUMBER,
    QUEUE_OFFSET,
    STATE,
    SUSPEND_MS,
    SYS_FLAG,
    TARGET,
    UNKNOWN_AT,
    UNKNOWN_END,
    PullState,
)
from cometmq.wire.codes import RequestCode
from cometmq.wire.headers import PullFlag

PULL_CODE: Final = int(RequestCode.PULL_MESSAGE)
LITE_PULL_CODE: Final = int(RequestCode.LITE_PULL_MESSAGE)
_WITH_COMMIT: Final = PullFlag.COMMIT_OFFSET
_WITH_SUBSCRIPTION: Final = PullFlag.SUBSCRIPTION

_KEY_NUMBERS_SIZE: Final = 32
_ABSENT: Final = -1
_ASKED: Final = int(PullState.ASKED)


@inlined
def _length(places: Longs, field: int) -> Any:
    """Return the length of a field's text in bytes, ``_ABSENT`` if the header lacks the field."""
    begin = places[2 * field]
    return int64(_ABSENT) if begin == NOT_A_NUMBER else places[2 * field + 1] - begin


@inlined
def _put_text(data: Bytes, places: Longs, field: int, out: Bytes, at: int) -> Any:
    begin = places[2 * field]
    return at if begin == NOT_A_NUMBER else copy_bytes(data, begin, places[2 * field + 1], out, at)


@inlined
def _put_key(data: Bytes, places: Longs, row: Longs, out: Bytes, at: int) -> Any:
    """Write the key of a pull's target in the ``PullTable``; return its end, -1 if it is too long.

    The key is made of the request code, queue, group and topic, and of the filter that the pull carries, or
    else the version of the group's subscription. It is padded with zeros to whole words of 8 bytes.
    """
    group, topic = _length(places, header.GROUP), _length(places, header.TOPIC)
    filter_length, type_length = int64(_ABSENT), int64(_ABSENT)
    is_sent_along = row[SYS_FLAG] & _WITH_SUBSCRIPTION
    if is_sent_along:
        filter_length = _length(places, header.SUBSCRIPTION)
        type_length = _length(places, header.EXPRESSION_TYPE)
    if group + topic + max(filter_length, 0) + max(type_length, 0) + _KEY_NUMBERS_SIZE + 8 > KEY_SIZE_MAX:
        return int64(-1)
    put_int(out, at, int64(places[CODE]) << 8 | is_sent_along)
    put_int(out, at + 4, int_field(data, places, header.QUEUE_ID, 0))
    put_long(out, at + 8, 0 if is_sent_along else long_field(data, places, header.VERSION, 0))
    put_int(out, at + 16, group)
    put_int(out, at + 20, topic)
    put_int(out, at + 24, filter_length)
    put_int(out, at + 28, type_length)
    end = _put_text(data, places, header.GROUP, out, at + _KEY_NUMBERS_SIZE)
    end = _put_text(data, places, header.TOPIC, out, end)
    if is_sent_along:
        end = _put_text(data, places, header.SUBSCRIPTION, out, end)
        end = _put_text(data, places, header.EXPRESSION_TYPE, out, end)
    put_word(out, end, uint64(0))
    return at + (end - at + 7) // 8 * 8


@inlined
def _hash(data: Bytes, begin: int, end: int) -> Any:
    value = uint64(0)
    for at in range(begin, end, 8):
        value = (value ^ word_at(data, at)) * uint64(MIX)
        value ^= value >> uint64(29)
    return int64(value)


@inlined
def _find(data: Bytes, begin: int, end: int, value: int, keys: Bytes, rows: Longs, slots: Longs) -> Any:
    """Return the row of a key in the ``PullTable``, NO_TARGET if it has none."""
    mask = len(slots) - 1
    slot = value & mask
    while slots[slot] >= 0:
        row = slots[slot]
        if rows[row * ROW_SIZE + KEY_SIZE] == end - begin:
            at, same = rows[row * ROW_SIZE + KEY_AT], True
            for i in range(0, end - begin, 8):
                if word_at(keys, at + i) != word_at(data, begin + i):
                    same = False
                    break
            if same:
                return row
        slot = slot + 1 & mask
    return int64(NO_TARGET)


@inlined
def _read_pull(data: Bytes, position: int, end: int, row: Longs, places: Longs, scratch: Bytes) -> bool:
    """Parse the frame from ``position`` to ``end``, except its target; return False if it is unusual."""
    word = int64(int_at(data, position + 4))
    begin = position + PREFIX_SIZE
    if begin + (word & HEADER_LENGTH_MASK) != end:
        return False
    places[:] = NOT_A_NUMBER
    is_binary = word >> 24
    if is_binary:
        is_read = header.read_binary(data, begin, end, places, scratch)
    else:
        is_read = header.read_json(data, begin, end, places, scratch)
    if not is_read or (places[CODE] != PULL_CODE and places[CODE] != LITE_PULL_CODE):
        return False
    if places[FLAG] != NOT_A_NUMBER and places[FLAG]:
        return False
    for field in range(header.REQUIRED):
        if places[2 * field] == NOT_A_NUMBER:
            return False
    row[FRAME_AT], row[FRAME_END] = position, end
    row[IS_BINARY] = is_binary
    row[NUMBER] = int64(0) if places[OPAQUE] == NOT_A_NUMBER else places[OPAQUE]
    row[QUEUE_OFFSET] = long_field(data, places, header.QUEUE_OFFSET, 0)
    row[MAX_COUNT] = int_field(data, places, header.COUNT, 0)
    row[MAX_BYTES] = int_field(data, places, header.BYTES, NO_LIMIT)
    row[SYS_FLAG] = int_field(data, places, header.SYS_FLAG, 0)
    row[COMMIT_OFFSET] = long_field(data, places, header.COMMIT_OFFSET, 0)
    row[SUSPEND_MS] = long_field(data, places, header.SUSPEND_MS, 0)
    row[STATE] = _ASKED
    is_read = (
        row[QUEUE_OFFSET] != NOT_A_NUMBER
        and row[MAX_COUNT] != NOT_A_NUMBER
        and row[MAX_BYTES] != NOT_A_NUMBER
        and row[SYS_FLAG] != NOT_A_NUMBER
        and row[COMMIT_OFFSET] != NOT_A_NUMBER
        and row[SUSPEND_MS] != NOT_A_NUMBER
        and int_field(data, places, header.QUEUE_ID, 0) != NOT_A_NUMBER
        and long_field(data, places, header.VERSION, 0) != NOT_A_NUMBER
    )
    if not row[SYS_FLAG] & _WITH_COMMIT:
        row[COMMIT_OFFSET] = NOTHING_TO_COMMIT
    return bool(is_read)


@kernel(
    types.UniTuple(long, 3)(
        bytes_object,
        *(long, long),
        *(rows_out, longs_out, bytes_out),
        *(bytes_in, longs_in, longs_in),
    )
)
def read(
    data: Bytes,
    start: int,
    data_end: int,
    pulls: Any,
    places: Longs,
    unknown: Bytes,
    keys: Bytes,
    rows: Longs,
    slots: Longs,
) -> Any:
    """Parse the pulls of a socket read: see ``pulls.PullOps.read``."""
    position = pulls_end = int64(start)
    count, unknown_end = int64(0), int64(0)
    while position < data_end and count < len(pulls):
        end = frame_end(data, position)
        if end < 0 or end > data_end:
            return count, pulls_end, int64(data_end)
        row = pulls[count]
        key_end = int64(-1)
        if _read_pull(data, position, end, row, places, unknown):
            key_end = _put_key(data, places, row, unknown, unknown_end)
        if key_end < 0:
            position = end
            continue
        if position > pulls_end:  # other frames lie between
            return count, pulls_end, position
        value = _hash(unknown, unknown_end, key_end)
        row[HASH] = value
        row[UNKNOWN_AT], row[UNKNOWN_END] = unknown_end, key_end
        row[TARGET] = _find(unknown, unknown_end, key_end, value, keys, rows, slots)
        if row[TARGET] == NO_TARGET:
            unknown_end = key_end
        count += 1
        position = pulls_end = end
    return count, pulls_end, position
