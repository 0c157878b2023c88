"""Frames of acknowledgements, and what the leaf operation reads of them: what its tests share."""

import json
from itertools import pairwise
from typing import Any, Final, NamedTuple

from tests.kernels.reading import framed, frames_in, java_header, stretch

from cometmq.kernels.acks.rows import AckPoint, AckRows
from cometmq.kernels.frames.fields import FrameKind
from cometmq.kernels.ops import Ops
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


def read_rows(ops: Ops, data: bytes, begin: int = 0, into: AckRows | None = None) -> list[Row]:
    """Read acknowledgements, and return them with their texts; check the responses."""
    into = into or AckRows()
    frames = frames_in(ops, data, begin)
    count = ops.acks.read(frames, 0, stretch(frames, FrameKind.ACK), into)
    found: list[Row] = []
    answer_at = 0
    for point in map(AckPoint._make, into.points[:count].tolist()):
        bounds = point.texts_at, point.group_end, point.topic_end, point.handle_end
        texts = [into.texts[at:end].tobytes().decode() for at, end in pairwise(bounds)]
        for offset, answer_end in into.acks[len(found) : point.acks_end].tolist():
            answer = into.answers[answer_at:answer_end].tobytes()
            number = decode(answer).opaque
            assert answer == encode(response(Command(200051, number)))
            frame = frames.rows[len(found)]
            where = frame.begin, frame.end
            found.append(Row(where, number, point.queue_id, offset, point.texts_at, *texts))
            answer_at = answer_end
    return found
