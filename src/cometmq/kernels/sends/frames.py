"""Parsing sends inside kernels: from a frame's bytes to the fields of ``SEND``."""

from typing import Any, Final

from cometmq.format.record import TOPIC_MAX_LENGTH_V1
from cometmq.format.sys_flag import TRANSACTION_MASK
from cometmq.kernels.compiling.jit import (
    Bytes,
    Longs,
    byte_at,
    inlined,
    int64,
    int_at,
    uint32,
)
from cometmq.kernels.headers.json_text import NOT_A_NUMBER
from cometmq.kernels.records.text import hash_on
from cometmq.kernels.sends.batches import batch_count
from cometmq.kernels.sends.header import (
    CODE,
    FIRST_FIELD,
    FLAG,
    OPAQUE,
    PROPERTIES,
    int_field,
    long_field,
    read_binary,
    read_json,
)
from cometmq.kernels.sends.properties import is_utf8, read_properties
from cometmq.kernels.sends.rows import BATCH_COUNT_MAX
from cometmq.kernels.sends.topic_table import CELLS_AT, MIX, NAME_AT, NAME_LENGTH, QUEUE_COUNT, ROW_SIZE

SEND_CODE: Final = 310
"""The request code of SEND_MESSAGE_V2."""
BATCH_CODE: Final = 320
"""The request code of SEND_BATCH_MESSAGE."""
FRAME_LENGTH_MAX: Final = 16 * 1024 * 1024
HEADER_LENGTH_MAX: Final = 512 * 1024
ONEWAY_FLAG: Final = 2

_PREFIX_SIZE: Final = 8
_TOPIC, _QUEUE_COUNT, _QUEUE_ID, _SYS_FLAG, _BORN_TIME, _FLAG = (ord(name) - FIRST_FIELD for name in "bdefgh")
_RECONSUME_TIMES, _UNIT_MODE, _RECONSUME_TIMES_MAX, _BATCH = (ord(name) - FIRST_FIELD for name in "jklm")
_REQUIRED: Final = 9
"""How many fields, from the first on, are required; the properties, with the unique key, come after them."""
_WORD_MAX: Final = 8
_TRUE: Final = int.from_bytes(b"true", "big")
_FALSE: Final = int.from_bytes(b"false", "big")


@inlined
def frame_end(data: Bytes, position: int) -> Any:
    """Return where the frame at ``position`` ends, -1 if it is cut off or malformed."""
    if position + _PREFIX_SIZE > len(data):
        return -1
    length = int64(int_at(data, position))
    if length < 4 or length > FRAME_LENGTH_MAX or position + 4 + length > len(data):
        return -1
    word = int64(int_at(data, position + 4))
    header_length = word & 0xFFFFFF
    if word < 0 or word >> 24 > 1 or header_length > length - 4 or header_length > HEADER_LENGTH_MAX:
        return -1
    return position + 4 + length


@inlined
def _find_topic(data: Bytes, begin: int, end: int, names: Bytes, rows: Longs, slots: Longs) -> Any:
    """Return a topic's row in the ``TopicHashTable``, -1 if it has none."""
    value = uint32(0)
    for i in range(begin, end):
        value = hash_on(value, byte_at(data, i))
    slot = int64(uint32(value * uint32(MIX)) >> uint32(8)) & (len(slots) - 1)
    while slots[slot] >= 0:
        row = slots[slot] * ROW_SIZE
        if rows[row + NAME_LENGTH] == end - begin:
            at, same = rows[row + NAME_AT], True
            for i in range(end - begin):
                if names[at + i] != byte_at(data, begin + i):
                    same = False
                    break
            if same:
                return slots[slot]
        slot = (slot + 1) & (len(slots) - 1)
    return int64(-1)


@inlined
def _bool_field(data: Bytes, places: Longs, field: int) -> Any:
    """Read a boolean field: 1 for true, 0 for false or a missing field, -1 for anything else."""
    begin, end = places[2 * field], places[2 * field + 1]
    if begin == NOT_A_NUMBER:
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
def read_send(
    data: Bytes,
    position: int,
    end: int,
    send: Any,
    texts: Bytes,
    names: Bytes,
    rows: Longs,
    slots: Longs,
    cells: Longs,
    next_offsets: Longs,
    body_length_max: int,
    properties_length_max: int,
    places: Longs,
) -> bool:
    """Parse the frame from ``position`` to ``end`` into ``send``; return False if it is not a usual send."""
    word = int64(int_at(data, position + 4))
    header, body = position + _PREFIX_SIZE, position + _PREFIX_SIZE + (word & 0xFFFFFF)
    if end == body or end - body > body_length_max:
        return False
    places[:] = NOT_A_NUMBER
    send.is_binary = word >> 24
    if send.is_binary:
        is_read = read_binary(data, header, body, places, texts, 0) >= 0
    else:
        is_read = read_json(data, header, body, places, texts, 0) >= 0
    if not is_read or (places[CODE] != SEND_CODE and places[CODE] != BATCH_CODE):
        return False
    flag = int64(0) if places[FLAG] == NOT_A_NUMBER else places[FLAG]
    if flag & ~ONEWAY_FLAG:
        return False
    for field in range(_REQUIRED):
        if places[2 * field] == NOT_A_NUMBER:
            return False

    send.frame_end = end
    send.opaque = int64(0) if places[OPAQUE] == NOT_A_NUMBER else places[OPAQUE]
    send.is_oneway = flag & ONEWAY_FLAG
    send.body_at, send.body_length = body, end - body
    send.queue_id = int_field(data, places, _QUEUE_ID, 0)
    send.sys_flag = int_field(data, places, _SYS_FLAG, 0)
    send.born_time = long_field(data, places, _BORN_TIME, 0)
    send.flag = int_field(data, places, _FLAG, 0)
    send.reconsume_times = int_field(data, places, _RECONSUME_TIMES, 0)
    is_batch = _bool_field(data, places, _BATCH)
    if (
        send.sys_flag == NOT_A_NUMBER
        or send.sys_flag & TRANSACTION_MASK
        or send.born_time == NOT_A_NUMBER
        or send.flag == NOT_A_NUMBER
        or send.reconsume_times == NOT_A_NUMBER
        or int_field(data, places, _QUEUE_COUNT, 0) == NOT_A_NUMBER
        or int_field(data, places, _RECONSUME_TIMES_MAX, 0) == NOT_A_NUMBER
        or _bool_field(data, places, _UNIT_MODE) < 0
        or is_batch < 0
    ):
        return False

    topic, topic_end = places[2 * _TOPIC], places[2 * _TOPIC + 1]
    send.topic_at, send.topic_length = topic, topic_end - topic
    row = _find_topic(data, topic, topic_end, names, rows, slots) * ROW_SIZE
    if row < 0 or send.topic_length > TOPIC_MAX_LENGTH_V1:
        return False
    if send.queue_id < 0 or send.queue_id >= rows[row + QUEUE_COUNT]:
        return False
    send.queue = cells[rows[row + CELLS_AT] + send.queue_id]
    if send.queue < 0 or next_offsets[send.queue] < 0:
        return False

    begin, properties_end = places[2 * PROPERTIES], places[2 * PROPERTIES + 1]
    send.properties_at, send.properties_length = begin, properties_end - begin
    if send.properties_length > properties_length_max:
        return False
    if not read_properties(texts, begin, properties_end, send):
        return False
    if send.is_binary and not is_utf8(texts, begin, properties_end):
        return False  # in JSON, ``unescape`` has checked that
    send.is_batch = is_batch or places[CODE] == BATCH_CODE
    send.message_count = batch_count(data, body, end) if send.is_batch else 1
    return bool(0 < send.message_count <= BATCH_COUNT_MAX)
