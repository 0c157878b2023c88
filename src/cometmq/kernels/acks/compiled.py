"""The operation on acknowledgements compiled by Numba: ``plain`` says in Python what it does."""

from typing import Any, Final

from cometmq.kernels.acks.rows import (
    FRAME_AT,
    FRAME_END,
    GROUP_END,
    HANDLE_END,
    NUMBER,
    OFFSET,
    POINT_AT,
    QUEUE_ID,
    ROW_SIZE,
    TEXT_MAX,
    TOPIC_END,
    AckRows,
)
from cometmq.kernels.compiling.jit import (
    Bytes,
    Longs,
    byte_at,
    bytes_object,
    bytes_out,
    copy_bytes,
    inlined,
    int64,
    int_at,
    kernel,
    long,
    longs_out,
    rows_out,
)
from cometmq.kernels.headers.compiled import (
    HEADER_LENGTH_MASK,
    PREFIX_SIZE,
    frame_end,
    int_field,
    long_field,
    readers_of,
)
from cometmq.kernels.headers.json_text import number_between
from cometmq.kernels.headers.places import CODE, FLAG, NOT_A_NUMBER, OPAQUE

__all__ = ["body", "read"]

body: Final = "compiled"

ACK_CODE: Final = 200_051
"""The request code of ACK_MESSAGE, which only a JSON header can hold."""
NAMES: Final = (b"consumerGroup", b"topic", b"extraInfo", b"queueId", b"offset")
_GROUP, _TOPIC, _HANDLE, _QUEUE_ID, _OFFSET = range(len(NAMES))
_BLANK: Final = ord(" ")

_read_json, _ = readers_of(NAMES)


@inlined
def _read_ack(data: Bytes, position: int, end: int, row: Longs, places: Longs, texts: Bytes) -> Any:
    """Parse the frame from ``position`` to ``end``, except its texts.

    Returns where in ``data`` the handle's last number begins, -1 if the frame is left.
    """
    word = int64(int_at(data, position + 4))
    begin = position + PREFIX_SIZE
    if word >> 24 or begin + (word & HEADER_LENGTH_MASK) != end:
        return int64(-1)
    places[:] = NOT_A_NUMBER
    if not _read_json(data, begin, end, places, texts) or places[CODE] != ACK_CODE:
        return int64(-1)
    if places[FLAG] != NOT_A_NUMBER and places[FLAG]:
        return int64(-1)
    for field in range(len(NAMES)):
        if places[2 * field] == NOT_A_NUMBER:
            return int64(-1)
    row[FRAME_AT], row[FRAME_END] = position, end
    row[NUMBER] = int64(0) if places[OPAQUE] == NOT_A_NUMBER else places[OPAQUE]
    row[QUEUE_ID] = int_field(data, places, _QUEUE_ID, 0)
    row[OFFSET] = long_field(data, places, _OFFSET, 0)
    if row[QUEUE_ID] == NOT_A_NUMBER or row[OFFSET] == NOT_A_NUMBER:
        return int64(-1)
    handle, handle_end = places[2 * _HANDLE], places[2 * _HANDLE + 1]
    last = handle_end
    while last > handle and byte_at(data, last - 1) != _BLANK:
        last -= 1
    is_split = last > handle + 1 and number_between(data, last, handle_end) >= 0
    return last if is_split else int64(-1)


@inlined
def _is_same(data: Bytes, begin: int, end: int, texts: Bytes, at: int, texts_end: int) -> bool:
    """Check whether a part of ``data`` is a part of ``texts``."""
    if end - begin != texts_end - at:
        return False
    for i in range(end - begin):
        if byte_at(data, begin + i) != byte_at(texts, at + i):
            return False
    return True


@kernel(long(bytes_object, long, rows_out, bytes_out, longs_out))
def read_acks(data: Bytes, start: int, acks: Any, texts: Bytes, places: Longs) -> Any:
    """Parse the acknowledgements of a socket read: see ``rows.AckOps.read``."""
    position, texts_end, point_end = int64(start), int64(0), int64(0)
    for count in range(len(acks)):
        end = frame_end(data, position)
        if end < 0:
            return int64(count)
        row, known = acks[count], acks[max(count - 1, 0)]
        last = _read_ack(data, position, end, row, places, texts)
        if last < 0:
            return int64(count)
        group, group_end = places[2 * _GROUP], places[2 * _GROUP + 1]
        topic, topic_end = places[2 * _TOPIC], places[2 * _TOPIC + 1]
        handle, handle_end = places[2 * _HANDLE], places[2 * _HANDLE + 1]
        if (
            count
            and row[QUEUE_ID] == known[QUEUE_ID]
            and _is_same(data, group, group_end, texts, known[POINT_AT], known[GROUP_END])
            and _is_same(data, topic, topic_end, texts, known[GROUP_END], known[TOPIC_END])
            and _is_same(data, handle, last, texts, known[TOPIC_END], point_end)
        ):
            for column in range(POINT_AT, ROW_SIZE):
                row[column] = known[column]
        else:
            size = group_end - group + topic_end - topic + handle_end - handle
            if size > min(TEXT_MAX, len(texts) - texts_end):
                return int64(count)
            row[POINT_AT] = texts_end
            row[GROUP_END] = copy_bytes(data, group, group_end, texts, texts_end)
            row[TOPIC_END] = copy_bytes(data, topic, topic_end, texts, row[GROUP_END])
            texts_end = copy_bytes(data, handle, handle_end, texts, row[TOPIC_END])
            row[HANDLE_END] = texts_end
            point_end = row[TOPIC_END] + last - handle
        position = end
    return int64(len(acks))


def read(data: bytes, begin: int, into: AckRows, /) -> int:
    """Read acknowledgements: see ``rows.AckOps.read``."""
    count: int = _read(data, begin, into.rows, into.texts, into.places)
    return count


_read: Any = read_acks  # to Numba the bytes that sockets give are no array
