"""Frames of sends, and a batch that they are encoded into: what the tests of the operation on sends share."""

import json
import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from tests.kernels import reading
from tests.kernels.reading import end_of, frames_in, java_header, others_end, position_of, stretch

from cometmq.format.host import pack_host, sized_host
from cometmq.kernels.frames.fields import FrameKind
from cometmq.kernels.ops import Ops
from cometmq.kernels.sends.rows import (
    ANSWERS_SIZE_MAX,
    MESSAGES_MAX,
    RECORDS_SIZE_MAX,
    SEND,
    SendBatch,
    constants_of,
)
from cometmq.kernels.sends.send_topics import SendTopics
from cometmq.wire.template import ResponseTemplate

ADDED: Final = b"CLUSTER\x01c\x02"
HOST: Final = pack_host("127.0.0.1", 10911)
TEMPLATE: Final = ResponseTemplate(
    ("msgId", "queueId", "queueOffset", "transactionId"), {"MSG_REGION": "50 %", "TRACE_ON": "true"}
)
USUAL: Final = {
    "a": "group",
    "b": "T",
    "c": "TBW102",
    "d": "4",
    "e": "1",
    "f": "0",
    "g": "1795255006748",
    "h": "7",
    "i": "UNIQ_KEY\x01abc\x02TAGS\x01TagA\x02",
    "j": "0",
    "k": "false",
    "m": "false",
    "n": "broker-a",
}


class Reader:
    """Encodes sends of topic ``T``, whose queues 0 to 3 have the numbers 0 to 3.

    Attributes:
        entries: the rows of the queue entries.
        topics: may be added to.
    """

    def __init__(
        self,
        ops: Ops,
        *,
        born_host: bytes = HOST,
        store_host: bytes = HOST,
        next_offsets: Sequence[int] = (0, 10, 20, 30),
        body_length_max: int = 1000,
        records_max: int = RECORDS_SIZE_MAX,
        answers_max: int = ANSWERS_SIZE_MAX,
    ) -> None:
        self.topics = SendTopics[str]()
        self.topics.put_topic("T", "T", 4)
        for queue_id in range(4):
            self.topics.put_queue("T", queue_id, queue_id)
        self.next_offsets = np.array(next_offsets)
        self.entries = np.zeros((MESSAGES_MAX, 5), np.int64)
        constants = constants_of(TEMPLATE, ADDED, store_host)
        self.batch = SendBatch(self.topics, constants, body_length_max, records_max, answers_max)
        self._ops = ops
        self._born_host = born_host

    def read(
        self, data: bytes, start: int = 0, *, physical_offset: int = 0, room: int = 1 << 30, time: int = 0
    ) -> tuple[int, int]:
        """Encode frames: gives where the sends end, and where the others after them do."""
        self.batch.begin(self.next_offsets, self.entries, 0, physical_offset, room, time)
        return self.read_more(data, start)

    def read_more(self, data: bytes, start: int = 0) -> tuple[int, int]:
        """Encode the frames of another read into the same batch."""
        frames = frames_in(self._ops, data, start)
        last = stretch(frames, FrameKind.SEND)
        run = frames.runs[0]
        run.commands_end = 0
        self._ops.sends.encode(self.batch, frames, sized_host(self._born_host))
        if run.kind == FrameKind.SEND:
            assert self.batch.run_ends[0] == len(self.batch.answers())
        done, left = run.done, run.commands_end
        end = end_of(frames, done, start)
        if left < last:
            return end, position_of(frames, left)
        return end, others_end(frames, left, lambda row: frames.rows[row].kind == FrameKind.SEND)

    def takes(self, data: bytes) -> bool:
        """Return whether the one frame is encoded."""
        end, _ = self.read(data)
        return end == len(data)

    def send(self) -> dict[str, int]:
        """Return the numbers of the last send by name, as the compiled body has parsed it."""
        return {name: int(self.batch.send[0][name]) for name in SEND.names or ()}


def header(fields: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Return a JSON header as the Java client writes it."""
    return java_header(310, 17, USUAL | (fields or {}), **changes)


def json_frame(fields: dict[str, Any] | None = None, body: bytes = b"body", **changes: Any) -> bytes:
    """Write a frame as the Java client does."""
    return framed(json.dumps(header(fields, **changes), separators=(",", ":")).encode(), body)


def binary_frame(
    fields: dict[str, str] | None = None,
    body: bytes = b"body",
    *,
    code: int = 310,
    flag: int = 0,
    opaque: int = 17,
) -> bytes:
    """Write a frame with a ROCKETMQ header."""
    parts = b"".join(
        struct.pack(f">h{len(name)}si", len(name), name.encode(), len(value.encode())) + value.encode()
        for name, value in (USUAL | (fields or {})).items()
    )
    return framed(struct.pack(">hBhiiii", code, 0, 479, opaque, flag, 0, len(parts)) + parts, body, 1)


def framed(data: bytes, body: bytes = b"body", serialize_type: int = 0) -> bytes:
    """Frame a header and a body."""
    return reading.framed(data, body, serialize_type)
