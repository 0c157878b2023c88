"""Frames of acknowledgements, and what the leaf operation reads of them: what its tests share."""

import json
from itertools import pairwise
from typing import Any, Final, NamedTuple

from tests.kernels.frames import framed, java_header

from cometmq.kernels.acks.rows import (
    QUEUE_ID,
    ROWS_END,
    TEXTS_AT,
    AckOps,
    AckRows,
)
from cometmq.wire.frame import Command, decode, encode, response

USUAL: Final = {
    "queueId": "3",
    "extraInfo": "5 1795602262251 15000 2 0 broker-a 3 7",
    "topic": "T",
    "bname": "broker-a",
    "offset": "7",
    "consumerGroup": "group",
}


class Row(NamedTuple):
    """An acknowledgement that was read; ``point_at`` is the same in neighbours of one check point."""

    frame: tuple[int, int]
    number: int
    queue_id: int
    offset: int
    point_at: int
    group: str
    topic: str
    handle: str


def header(fields: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Return a JSON header as the Java client writes it."""
    return java_header(200051, 5, USUAL | (fields or {}), **changes)


def ack_frame(fields: dict[str, Any] | None = None, body: bytes = b"", **changes: Any) -> bytes:
    """Return a frame as the Java client writes it."""
    return framed(json.dumps(header(fields, **changes), separators=(",", ":")).encode(), body)


def read_rows(ops: AckOps, data: bytes, begin: int = 0, into: AckRows | None = None) -> list[Row]:
    """Read acknowledgements, and return them with their texts; check the responses."""
    into = into or AckRows()
    count = ops.read(data, begin, into)
    found: list[Row] = []
    answer_at = 0
    for point in into.points[:count].tolist():
        texts = [into.texts[at:end].tobytes().decode() for at, end in pairwise(point[TEXTS_AT:ROWS_END])]
        for frame_end, offset, answer_end in into.rows[len(found) : point[ROWS_END]].tolist():
            answer = into.answers[answer_at:answer_end].tobytes()
            number = decode(answer).opaque
            assert answer == encode(response(Command(200051, number)))
            found.append(Row((begin, frame_end), number, point[QUEUE_ID], offset, point[TEXTS_AT], *texts))
            begin, answer_at = frame_end, answer_end
    return found
