"""The operation on acknowledgements compiled by Numba: ``plain`` says in Python what it does."""

from typing import Any, Final

from cometmq.kernels.acks.rows import (
    ACK,
    ACK_POINT,
    ACKS,
    ANSWERS,
    BOUNDS,
    CONSTANTS,
    POINTS,
    TEXT_MAX,
    TEXTS,
    AckRows,
)
from cometmq.kernels.arrays import Bytes, Longs
from cometmq.kernels.compiling.buffers import array_of, byte_at, bytes_of, copy_bytes, longs_of
from cometmq.kernels.compiling.jit import inlined, int64, kernel
from cometmq.kernels.compiling.signatures import bytes_object, long, longs_in, record_of
from cometmq.kernels.frames.compiled import int_field, long_field, places_of, rows_of
from cometmq.kernels.frames.fields import ABSENT, columns
from cometmq.kernels.frames.rows import PLACES, ROWS, Frames
from cometmq.kernels.text.answers import put_around
from cometmq.kernels.text.json_text import NOT_A_NUMBER, number_between

__all__ = ["read"]

_COLUMNS: Final = columns("consumerGroup", "topic", "extraInfo", "queueId", "offset")
_GROUP, _TOPIC, _HANDLE, _QUEUE_ID, _OFFSET = _COLUMNS
_BLANK: Final = ord(" ")


@inlined
def _read_ack(data: Bytes, places: Any, ack: Any, point: Any) -> Any:
    """Read the acknowledgement of a frame, except its texts.

    Returns where in ``data`` the handle's last number begins, -1 if the frame is left.
    """
    for column in _COLUMNS:
        if places[2 * column] == ABSENT:
            return int64(-1)
    ack.offset = long_field(data, places, _OFFSET, 0)
    point.queue_id = int_field(data, places, _QUEUE_ID, 0)
    if point.queue_id == NOT_A_NUMBER or ack.offset == NOT_A_NUMBER:
        return int64(-1)
    handle, handle_end = int64(places[2 * _HANDLE]), int64(places[2 * _HANDLE + 1])
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


_acks_of = array_of(record_of(ACK))
_points_of = array_of(record_of(ACK_POINT))


@kernel(long(bytes_object, longs_in, long, long, longs_in))
def read_acks(data: Bytes, frames: Longs, first: int, last: int, into: Longs) -> Any:
    """Read the acknowledgements of some frames: see ``rows.AckOps.read``."""
    rows, all_places = rows_of(frames, ROWS), places_of(frames, PLACES)
    acks, points, texts = _acks_of(into, ACKS), _points_of(into, POINTS), bytes_of(into, TEXTS)
    answers, constants, bounds = bytes_of(into, ANSWERS), bytes_of(into, CONSTANTS), longs_of(into, BOUNDS)
    texts_end, point_end = int64(0), int64(0)
    count, answers_end = int64(0), int64(0)
    for i in range(min(last - first, len(acks))):
        places = all_places[first + i]
        ack, point, known = acks[i], points[count], points[max(count - 1, 0)]
        number_at = _read_ack(data, places, ack, point)
        if number_at < 0:
            return count
        group, group_end = int64(places[2 * _GROUP]), int64(places[2 * _GROUP + 1])
        topic, topic_end = int64(places[2 * _TOPIC]), int64(places[2 * _TOPIC + 1])
        handle, handle_end = int64(places[2 * _HANDLE]), int64(places[2 * _HANDLE + 1])
        if not (
            count
            and point.queue_id == known.queue_id
            and _is_same(data, group, group_end, texts, known.texts_at, known.group_end)
            and _is_same(data, topic, topic_end, texts, known.group_end, known.topic_end)
            and _is_same(data, handle, number_at, texts, known.topic_end, point_end)
        ):
            size = group_end - group + topic_end - topic + handle_end - handle
            if size > min(TEXT_MAX, len(texts) - texts_end):
                return count
            point.texts_at = texts_end
            point.group_end = copy_bytes(data, group, group_end, texts, texts_end)
            point.topic_end = copy_bytes(data, topic, topic_end, texts, point.group_end)
            texts_end = copy_bytes(data, handle, handle_end, texts, point.topic_end)
            point.handle_end = texts_end
            point_end = point.topic_end + number_at - handle
            count += 1
        opaque = rows[first + i].opaque
        answers_end = put_around(opaque, 0, 0, constants, bounds, 0, answers, answers_end)
        ack.answer_end = answers_end
        points[count - 1].acks_end = i + 1
    return count


def read(frames: Frames, first: int, last: int, into: AckRows, /) -> int:
    """Read acknowledgements: see ``rows.AckOps.read``."""
    count: int = _read(frames.data, frames.table.numbers, first, last, into.table.numbers)
    return count


_read: Any = read_acks  # to Numba the bytes that sockets give are no array
