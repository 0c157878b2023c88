"""The kernel that reads pulls: from the places of a frame's fields to their numbers and their targets."""

from typing import Any, Final

from cometmq.kernels.arrays import Bytes, Longs
from cometmq.kernels.compiling.buffers import array_of, bytes_of, copy_bytes, put_int, put_long
from cometmq.kernels.compiling.jit import inlined, int64, kernel
from cometmq.kernels.compiling.signatures import bytes_object, long, longs_in, record_of
from cometmq.kernels.frames.compiled import int_field, long_field, places_of, rows_of
from cometmq.kernels.frames.fields import ABSENT, columns
from cometmq.kernels.frames.rows import PLACES, ROWS
from cometmq.kernels.pulls.rows import (
    KEY_SIZE_MAX,
    NEW_KEYS,
    NO_LIMIT,
    NOTHING_TO_COMMIT,
    PULL,
    PULLS,
    PullState,
)
from cometmq.kernels.text.json_text import NOT_A_NUMBER
from cometmq.kernels.text.key_search import find_key, keys_of
from cometmq.kernels.text.key_table import NO_ROW
from cometmq.wire.headers import PullFlag

_REQUIRED: Final = columns(
    "consumerGroup",
    "topic",
    "queueId",
    "queueOffset",
    "maxMsgNums",
    "sysFlag",
    "commitOffset",
    "suspendTimeoutMillis",
)
_GROUP, _TOPIC, _QUEUE_ID, _QUEUE_OFFSET, _COUNT, _SYS_FLAG, _COMMIT_OFFSET, _SUSPEND_MS = _REQUIRED
_SUBSCRIPTION, _VERSION, _TYPE, _BYTES = columns(
    "subscription", "subVersion", "expressionType", "maxMsgBytes"
)
_WITH_COMMIT: Final = PullFlag.COMMIT_OFFSET
_WITH_SUBSCRIPTION: Final = PullFlag.SUBSCRIPTION

_KEY_NUMBERS_SIZE: Final = 32
_ABSENT: Final = -1
_ASKED: Final = int(PullState.ASKED)


@inlined
def _length(places: Any, column: int) -> Any:
    """Return the length of a field's text in bytes, ``_ABSENT`` if the header lacks the field."""
    begin = places[2 * column]
    return int64(_ABSENT) if begin == ABSENT else int64(places[2 * column + 1] - begin)


@inlined
def _put_text(data: Bytes, places: Any, column: int, out: Bytes, at: int) -> Any:
    begin = int64(places[2 * column])
    return at if begin == ABSENT else copy_bytes(data, begin, int64(places[2 * column + 1]), out, at)


@inlined
def _put_key(data: Bytes, frame: Any, places: Any, pull: Any, out: Bytes, at: int) -> Any:
    """Write the key of a pull's target; return its end, -1 if it is too long.

    The key is made of the request code, queue, group and topic, and of the filter that the pull carries, or
    else the version of the group's subscription.
    """
    group, topic = _length(places, _GROUP), _length(places, _TOPIC)
    filter_length, type_length = int64(_ABSENT), int64(_ABSENT)
    is_sent_along = pull.sys_flag & _WITH_SUBSCRIPTION
    if is_sent_along:
        filter_length = _length(places, _SUBSCRIPTION)
        type_length = _length(places, _TYPE)
    if group + topic + max(filter_length, 0) + max(type_length, 0) + _KEY_NUMBERS_SIZE + 8 > KEY_SIZE_MAX:
        return int64(-1)
    put_int(out, at, frame.code << 8 | is_sent_along)
    put_int(out, at + 4, int_field(data, places, _QUEUE_ID, 0))
    put_long(out, at + 8, 0 if is_sent_along else long_field(data, places, _VERSION, 0))
    put_int(out, at + 16, group)
    put_int(out, at + 20, topic)
    put_int(out, at + 24, filter_length)
    put_int(out, at + 28, type_length)
    end = _put_text(data, places, _GROUP, out, at + _KEY_NUMBERS_SIZE)
    end = _put_text(data, places, _TOPIC, out, end)
    if is_sent_along:
        end = _put_text(data, places, _SUBSCRIPTION, out, end)
        end = _put_text(data, places, _TYPE, out, end)
    return end


@inlined
def _read_pull(data: Bytes, number: int, frame: Any, places: Any, pull: Any) -> bool:
    """Read the pull of a frame, except its target; return False if it is unusual."""
    for column in _REQUIRED:
        if places[2 * column] == ABSENT:
            return False
    pull.frame, pull.opaque, pull.is_binary = number, frame.opaque, frame.is_binary
    pull.queue_offset = long_field(data, places, _QUEUE_OFFSET, 0)
    pull.max_count = int_field(data, places, _COUNT, 0)
    pull.max_bytes = int_field(data, places, _BYTES, NO_LIMIT)
    pull.sys_flag = int_field(data, places, _SYS_FLAG, 0)
    pull.commit_offset = long_field(data, places, _COMMIT_OFFSET, 0)
    pull.suspend_ms = long_field(data, places, _SUSPEND_MS, 0)
    pull.state = _ASKED
    is_read = (
        pull.queue_offset != NOT_A_NUMBER
        and pull.max_count != NOT_A_NUMBER
        and pull.max_bytes != NOT_A_NUMBER
        and pull.sys_flag != NOT_A_NUMBER
        and pull.commit_offset != NOT_A_NUMBER
        and pull.suspend_ms != NOT_A_NUMBER
        and int_field(data, places, _QUEUE_ID, 0) != NOT_A_NUMBER
        and long_field(data, places, _VERSION, 0) != NOT_A_NUMBER
    )
    if not pull.sys_flag & _WITH_COMMIT:
        pull.commit_offset = NOTHING_TO_COMMIT
    return bool(is_read)


pulls_of = array_of(record_of(PULL))


@kernel(long(bytes_object, longs_in, long, long, longs_in, longs_in))
def read(data: Bytes, frames: Longs, first: int, last: int, into: Longs, table: Longs) -> Any:
    """Read the pulls of some frames: see ``rows.PullOps.read``."""
    frame_rows, places = rows_of(frames, ROWS), places_of(frames, PLACES)
    pulls, unknown = pulls_of(into, PULLS), bytes_of(into, NEW_KEYS)
    keys, unknown_end = keys_of(table), int64(0)
    for i in range(first, last):
        pull = pulls[i - first]
        if not _read_pull(data, i, frame_rows[i], places[i], pull):
            return int64(i - first)
        key_end = _put_key(data, frame_rows[i], places[i], pull, unknown, unknown_end)
        if key_end < 0:
            return int64(i - first)
        pull.key_at, pull.key_end = unknown_end, key_end
        pull.target = find_key(unknown, unknown_end, key_end, keys)
        if pull.target == NO_ROW:
            unknown_end = key_end
    return int64(last - first)
