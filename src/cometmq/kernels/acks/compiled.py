"""The operation on acknowledgements compiled by Numba: ``plain`` says in Python what it does."""

from typing import Any, Final

from cometmq.kernels.acks.rows import (
    ANSWER_END,
    FRAME_END,
    GROUP_END,
    HANDLE_END,
    OFFSET,
    QUEUE_ID,
    ROWS_END,
    TEXT_MAX,
    TEXTS_AT,
    TOPIC_END,
    AckRows,
)
from cometmq.kernels.compiling.jit import (
    Bytes,
    Longs,
    byte_at,
    bytes_in,
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
from cometmq.kernels.sends.answers import put_decimal, put_prefix

__all__ = ["body", "read"]

body: Final = "compiled"

ACK_CODE: Final = 200_051
"""The request code of ACK_MESSAGE, which only a JSON header can hold."""
NAMES: Final = (b"consumerGroup", b"topic", b"extraInfo", b"queueId", b"offset")
_GROUP, _TOPIC, _HANDLE, _QUEUE_ID, _OFFSET = range(len(NAMES))
_BLANK: Final = ord(" ")

_read_json, _ = readers_of(NAMES)


@inlined
def _read_ack(
    data: Bytes, position: int, end: int, row: Longs, point: Longs, places: Longs, texts: Bytes
) -> Any:
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
    row[FRAME_END] = end
    row[OFFSET] = long_field(data, places, _OFFSET, 0)
    point[QUEUE_ID] = int_field(data, places, _QUEUE_ID, 0)
    if point[QUEUE_ID] == NOT_A_NUMBER or row[OFFSET] == NOT_A_NUMBER:
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


@inlined
def _put_answer(number: int, before: Bytes, behind: Bytes, out: Bytes, begin: int) -> Any:
    """Write the response to an acknowledgement to ``out[begin:]``; return where it ends."""
    at = copy_bytes(before, 0, len(before), out, begin + PREFIX_SIZE)
    end = copy_bytes(behind, 0, len(behind), out, put_decimal(out, at, number))
    put_prefix(out, begin, end, 0, 0)
    return end


@kernel(
    long(
        *(bytes_object, long, rows_out, rows_out, bytes_out, longs_out),
        *(bytes_out, bytes_in, bytes_in),
    )
)
def read_acks(
    data: Bytes,
    start: int,
    acks: Any,
    points: Any,
    texts: Bytes,
    places: Longs,
    answers: Bytes,
    before: Bytes,
    behind: Bytes,
) -> Any:
    """Parse the acknowledgements of a socket read: see ``rows.AckOps.read``."""
    position, texts_end, point_end = int64(start), int64(0), int64(0)
    count, answers_end = int64(0), int64(0)
    for i in range(len(acks)):
        end = frame_end(data, position)
        if end < 0:
            return count
        row, point, known = acks[i], points[count], points[max(count - 1, 0)]
        last = _read_ack(data, position, end, row, point, places, texts)
        if last < 0:
            return count
        group, group_end = places[2 * _GROUP], places[2 * _GROUP + 1]
        topic, topic_end = places[2 * _TOPIC], places[2 * _TOPIC + 1]
        handle, handle_end = places[2 * _HANDLE], places[2 * _HANDLE + 1]
        if not (
            count
            and point[QUEUE_ID] == known[QUEUE_ID]
            and _is_same(data, group, group_end, texts, known[TEXTS_AT], known[GROUP_END])
            and _is_same(data, topic, topic_end, texts, known[GROUP_END], known[TOPIC_END])
            and _is_same(data, handle, last, texts, known[TOPIC_END], point_end)
        ):
            size = group_end - group + topic_end - topic + handle_end - handle
            if size > min(TEXT_MAX, len(texts) - texts_end):
                return count
            point[TEXTS_AT] = texts_end
            point[GROUP_END] = copy_bytes(data, group, group_end, texts, texts_end)
            point[TOPIC_END] = copy_bytes(data, topic, topic_end, texts, point[GROUP_END])
            texts_end = copy_bytes(data, handle, handle_end, texts, point[TOPIC_END])
            point[HANDLE_END] = texts_end
            point_end = point[TOPIC_END] + last - handle
            count += 1
        number = int64(0) if places[OPAQUE] == NOT_A_NUMBER else places[OPAQUE]
        answers_end = _put_answer(number, before, behind, answers, answers_end)
        row[ANSWER_END] = answers_end
        points[count - 1, ROWS_END] = i + 1
        position = end
    return count


def read(data: bytes, begin: int, into: AckRows, /) -> int:
    """Read acknowledgements: see ``rows.AckOps.read``."""
    count: int = _read(
        data,
        begin,
        into.rows,
        into.points,
        into.texts,
        into.places,
        into.answers,
        into.before,
        into.behind,
    )
    return count


_read: Any = read_acks  # to Numba the bytes that sockets give are no array
