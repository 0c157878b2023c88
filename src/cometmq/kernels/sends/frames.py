"""Parsing sends inside kernels: from a frame's bytes to the fields of ``SEND``."""

from typing import Any, Final

from cometmq.format.record import TOPIC_MAX_LENGTH_V1
from cometmq.format.sys_flag import TRANSACTION_MASK
from cometmq.kernels.compiling.jit import Bytes, Longs, byte_at, inlined, int64, int_at, uint32
from cometmq.kernels.headers.compiled import HEADER_LENGTH_MASK, PREFIX_SIZE, int_field, long_field
from cometmq.kernels.headers.places import CODE, FLAG, NOT_A_NUMBER, OPAQUE
from cometmq.kernels.records.text import hash_on
from cometmq.kernels.sends import header
from cometmq.kernels.sends.batches import batch_count
from cometmq.kernels.sends.properties import is_utf8, read_properties
from cometmq.kernels.sends.rows import BATCH_COUNT_MAX, BODY_LENGTH_MAX, PROPERTIES_LENGTH_MAX
from cometmq.kernels.sends.topic_table import CELLS_AT, MIX, NAME_AT, NAME_LENGTH, NO_NAME, QUEUE_COUNT
from cometmq.wire import frame
from cometmq.wire.codes import RequestCode

_SEND_CODE: Final = int(RequestCode.SEND_MESSAGE_V2)
_BATCH_CODE: Final = int(RequestCode.SEND_BATCH_MESSAGE)
_ONEWAY_FLAG: Final = frame.ONEWAY_FLAG
_WORD_MAX: Final = 8
_TRUE: Final = int.from_bytes(b"true", "big")
_FALSE: Final = int.from_bytes(b"false", "big")


@inlined
def _find_topic(data: Bytes, begin: int, end: int, names: Bytes, slots: Any) -> Any:
    """Return a topic's slot in the ``TopicHashTable``, -1 if it has none."""
    value = uint32(0)
    for i in range(begin, end):
        value = hash_on(value, byte_at(data, i))
    slot = int64(uint32(value * uint32(MIX)) >> uint32(8)) & (len(slots) - 1)
    while slots[slot, NAME_AT] != NO_NAME:
        if slots[slot, NAME_LENGTH] == end - begin:
            at, same = slots[slot, NAME_AT], True
            for i in range(end - begin):
                if names[at + i] != byte_at(data, begin + i):
                    same = False
                    break
            if same:
                return slot
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
def _is_usual_header(data: Bytes, places: Longs) -> bool:
    """Check what a header says besides where its message goes and what that holds."""
    if places[CODE] != _SEND_CODE and places[CODE] != _BATCH_CODE:
        return False
    if places[FLAG] != NOT_A_NUMBER and places[FLAG] & ~_ONEWAY_FLAG:
        return False
    for field in range(header.REQUIRED):
        if places[2 * field] == NOT_A_NUMBER:
            return False
    return bool(
        int_field(data, places, header.QUEUE_COUNT, 0) != NOT_A_NUMBER
        and int_field(data, places, header.RECONSUME_TIMES_MAX, 0) != NOT_A_NUMBER
        and _bool_field(data, places, header.UNIT_MODE) >= 0
        and _bool_field(data, places, header.BATCH) >= 0
    )


@inlined
def _read_target(
    data: Bytes,
    places: Longs,
    send: Any,
    names: Bytes,
    slots: Any,
    cells: Longs,
    next_offsets: Longs,
) -> bool:
    """Find where a send goes; return False if its topic or queue is not known."""
    begin, end = places[2 * header.TOPIC], places[2 * header.TOPIC + 1]
    send.topic_at, send.topic_length = begin, end - begin
    send.queue_id = int_field(data, places, header.QUEUE_ID, 0)
    slot = _find_topic(data, begin, end, names, slots)
    if slot < 0 or send.topic_length > TOPIC_MAX_LENGTH_V1:
        return False
    if send.queue_id < 0 or send.queue_id >= slots[slot, QUEUE_COUNT]:
        return False
    send.queue = cells[slots[slot, CELLS_AT] + send.queue_id]
    return bool(send.queue >= 0 and next_offsets[send.queue] >= 0)


@inlined
def read_send(
    data: Bytes,
    position: int,
    end: int,
    send: Any,
    texts: Bytes,
    places: Longs,
    names: Bytes,
    slots: Any,
    cells: Longs,
    next_offsets: Longs,
    numbers: Longs,
) -> bool:
    """Parse the frame from ``position`` to ``end`` into ``send``; return False if it is not a usual send.

    Args:
        texts: uint8[], gets the unescaped properties.
        places: int64[PLACES_SIZE], gets the positions of the header's fields.
        names, slots, cells: the arrays of a ``TopicHashTable``.
        numbers: those of a ``SendBatch``.
    """
    word = int64(int_at(data, position + 4))
    begin = position + PREFIX_SIZE
    body = begin + (word & HEADER_LENGTH_MASK)
    if end == body or end - body > numbers[BODY_LENGTH_MAX]:
        return False
    places[:] = NOT_A_NUMBER
    send.is_binary = word >> 24
    if send.is_binary:
        is_read = header.read_binary(data, begin, body, places, texts)
    else:
        is_read = header.read_json(data, begin, body, places, texts)
    if not is_read or not _is_usual_header(data, places):
        return False

    send.frame_end = end
    send.opaque = int64(0) if places[OPAQUE] == NOT_A_NUMBER else places[OPAQUE]
    send.is_oneway = int64(0) if places[FLAG] == NOT_A_NUMBER else places[FLAG]
    send.body_at, send.body_length = body, end - body
    send.sys_flag = int_field(data, places, header.SYS_FLAG, 0)
    send.born_time = long_field(data, places, header.BORN_TIME, 0)
    send.flag = int_field(data, places, header.FLAG, 0)
    send.reconsume_times = int_field(data, places, header.RECONSUME_TIMES, 0)
    if (
        send.sys_flag == NOT_A_NUMBER
        or send.sys_flag & TRANSACTION_MASK
        or send.born_time == NOT_A_NUMBER
        or send.flag == NOT_A_NUMBER
        or send.reconsume_times == NOT_A_NUMBER
        or not _read_target(data, places, send, names, slots, cells, next_offsets)
    ):
        return False

    begin, properties_end = places[2 * header.PROPERTIES], places[2 * header.PROPERTIES + 1]
    send.properties_at, send.properties_length = begin, properties_end - begin
    if send.properties_length > numbers[PROPERTIES_LENGTH_MAX]:
        return False
    if not read_properties(texts, begin, properties_end, send):
        return False
    if send.is_binary and not is_utf8(texts, begin, properties_end):
        return False  # in JSON, ``unescape`` has checked that
    send.is_batch = _bool_field(data, places, header.BATCH) or places[CODE] == _BATCH_CODE
    send.message_count = batch_count(data, body, end) if send.is_batch else 1
    return bool(0 < send.message_count <= BATCH_COUNT_MAX)
