"""Reading sends inside kernels: from the places of a frame's fields to the numbers of ``SEND``."""

from typing import Any, Final

from cometmq.format.record import TOPIC_MAX_LENGTH_V1
from cometmq.format.sys_flag import TRANSACTION_MASK
from cometmq.kernels.arrays import Bytes, Longs
from cometmq.kernels.compiling.buffers import byte_at, copy_bytes, longs_of
from cometmq.kernels.compiling.jit import inlined, int64
from cometmq.kernels.frames.compiled import int_field, long_field
from cometmq.kernels.frames.fields import ABSENT, columns
from cometmq.kernels.sends.batches import batch_count
from cometmq.kernels.sends.properties import read_properties
from cometmq.kernels.sends.rows import BATCH_COUNT_MAX, BODY_LENGTH_MAX, PROPERTIES_LENGTH_MAX
from cometmq.kernels.sends.send_topics import CELLS, CELLS_AT, QUEUE_COUNT
from cometmq.kernels.text.json_text import NOT_A_NUMBER, unescape
from cometmq.kernels.text.key_search import find_key, keys_of
from cometmq.kernels.text.key_table import NO_ROW
from cometmq.kernels.text.utf8 import is_utf8
from cometmq.wire.codes import RequestCode

_BATCH_CODE: Final = int(RequestCode.SEND_BATCH_MESSAGE)
_REQUIRED: Final = columns(*"abcdefghi")
(
    _GROUP,
    _TOPIC,
    _DEFAULT_TOPIC,
    _QUEUE_COUNT,
    _QUEUE_ID,
    _SYS_FLAG,
    _BORN_TIME,
    _FLAG,
    _PROPERTIES,
) = _REQUIRED
_RECONSUME_TIMES, _UNIT_MODE, _RECONSUME_TIMES_MAX, _BATCH = columns(*"jklm")
_WORD_MAX: Final = 8
_TRUE: Final = int.from_bytes(b"true", "big")
_FALSE: Final = int.from_bytes(b"false", "big")


@inlined
def _bool_field(data: Bytes, places: Any, column: int) -> Any:
    """Read a boolean field: 1 for true, 0 for false or a missing field, -1 for anything else."""
    begin, end = int64(places[2 * column]), int64(places[2 * column + 1])
    if begin == ABSENT:
        return 0
    if end - begin > _WORD_MAX:
        return -1
    code = int64(0)
    for i in range(begin, end):
        code = code << 8 | byte_at(data, i)
    if code == _TRUE:
        return 1
    return 0 if code == _FALSE else -1


@inlined
def _is_usual_header(data: Bytes, places: Any) -> bool:
    """Check what a header says besides where its message goes and what that holds."""
    for column in _REQUIRED:
        if places[2 * column] == ABSENT:
            return False
    return bool(
        int_field(data, places, _QUEUE_COUNT, 0) != NOT_A_NUMBER
        and int_field(data, places, _RECONSUME_TIMES_MAX, 0) != NOT_A_NUMBER
        and _bool_field(data, places, _UNIT_MODE) >= 0
        and _bool_field(data, places, _BATCH) >= 0
    )


@inlined
def topics_of(table: Longs) -> Any:
    """Return the arrays of a ``SendTopics``."""
    return keys_of(table), longs_of(table, CELLS)


@inlined
def _read_target(data: Bytes, places: Any, send: Any, topics: Any, next_offsets: Longs) -> bool:
    """Find where a send goes; return False if its topic or queue is not known."""
    begin, end = int64(places[2 * _TOPIC]), int64(places[2 * _TOPIC + 1])
    send.topic_at, send.topic_length = begin, end - begin
    send.queue_id = int_field(data, places, _QUEUE_ID, 0)
    if send.topic_length > TOPIC_MAX_LENGTH_V1:
        return False
    keys, cells = topics
    number = find_key(data, begin, end, keys)
    if number == NO_ROW:
        return False
    row = keys[1][number]
    if send.queue_id < 0 or send.queue_id >= row[QUEUE_COUNT]:
        return False
    send.queue = cells[row[CELLS_AT] + send.queue_id]
    return bool(send.queue >= 0 and next_offsets[send.queue] >= 0)


@inlined
def read_send(
    data: Bytes,
    row: Any,
    places: Any,
    send: Any,
    texts: Bytes,
    topics: Any,
    next_offsets: Longs,
    numbers: Longs,
) -> bool:
    """Read the send of a row into ``send``; return False if it is not a usual one.

    Args:
        row: a ``Frame``.
        places: the places of its fields.
        texts: uint8[], gets the unescaped properties.
        topics: see ``topics_of``.
        numbers: those of a ``SendBatch``.
    """
    if row.end - row.body_at > numbers[BODY_LENGTH_MAX] or not _is_usual_header(data, places):
        return False
    send.is_binary, send.opaque, send.is_oneway = row.is_binary, row.opaque, row.flag
    send.body_at, send.body_length = row.body_at, row.end - row.body_at
    send.sys_flag = int_field(data, places, _SYS_FLAG, 0)
    send.born_time = long_field(data, places, _BORN_TIME, 0)
    send.flag = int_field(data, places, _FLAG, 0)
    send.reconsume_times = int_field(data, places, _RECONSUME_TIMES, 0)
    if (
        send.sys_flag == NOT_A_NUMBER
        or send.sys_flag & TRANSACTION_MASK
        or send.born_time == NOT_A_NUMBER
        or send.flag == NOT_A_NUMBER
        or send.reconsume_times == NOT_A_NUMBER
        or not _read_target(data, places, send, topics, next_offsets)
    ):
        return False

    begin, end = int64(places[2 * _PROPERTIES]), int64(places[2 * _PROPERTIES + 1])
    if row.is_binary:
        properties_end = copy_bytes(data, begin, end, texts, int64(0))
    else:
        read_end, properties_end = unescape(data, begin, end + 1, texts, int64(0))
        if read_end != end:
            return False
    send.properties_at, send.properties_length = int64(0), properties_end
    if send.properties_length > numbers[PROPERTIES_LENGTH_MAX]:
        return False
    if not read_properties(texts, int64(0), properties_end, send):
        return False
    if row.is_binary and not is_utf8(texts, int64(0), properties_end):
        return False  # in JSON, ``unescape`` has checked that
    send.is_batch = _bool_field(data, places, _BATCH) or row.code == _BATCH_CODE
    send.message_count = batch_count(data, row.body_at, row.end) if send.is_batch else 1
    return bool(0 < send.message_count <= BATCH_COUNT_MAX)
