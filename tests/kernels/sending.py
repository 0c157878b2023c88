"""Frames of sends, and a batch that reads them: what the tests of the kernels of sends share."""

import json
import struct
from itertools import accumulate
from typing import Any, Final

import numpy as np

from cometmq.kernels.ops import Ops
from cometmq.kernels.sends import Answers, SendBatch
from cometmq.kernels.topic_table import TopicTable

ADDED: Final = b"CLUSTER\x01c\x02"
PIECES: Final = [b"{%d}" % number for number in range(13)]
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
    """A batch whose table knows queues 0 to 3 of topic ``T`` by the numbers 0 to 3."""

    def __init__(self, ops: Ops) -> None:
        table = TopicTable()
        for queue_id in range(4):
            table.put("T", 4, queue_id, queue_id)
        bounds = np.array([0, *accumulate(map(len, PIECES))])
        host_id = np.frombuffer(b"7F00000100002A9F", np.uint8)
        answers = Answers(np.frombuffer(b"".join(PIECES), np.uint8), bounds, host_id)
        assert ops.sends is not None
        self.next_offsets = np.array([0, 10, 20, 30])
        self.batch = SendBatch(ops.sends, table, ADDED, answers)

    def read(self, data: bytes, start: int = 0) -> tuple[int, int]:
        """Read frames: gives where the sends end, and where the others after them do."""
        array = np.frombuffer(data, np.uint8)
        return self.batch.read(array, start, self.next_offsets, 1000, 1000)

    def takes(self, data: bytes) -> bool:
        """Tell whether the one frame is taken."""
        end, _ = self.read(data)
        return end == len(data)

    def send(self, number: int = 0) -> dict[str, int]:
        """Give a send's numbers by name."""
        row = self.batch.sends[number]
        return {name: int(row[name]) for name in row.dtype.names}

    def text(self, at: str, length: str) -> bytes:
        """Give a text of the first send."""
        send = self.send()
        return bytes(self.batch._texts[send[at] : send[at] + send[length]])


def header(fields: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Give a JSON header as the Java client writes it."""
    return {
        "code": 310,
        "extFields": USUAL | (fields or {}),
        "flag": 0,
        "language": "JAVA",
        "opaque": 17,
        "serializeTypeCurrentRPC": "JSON",
        "version": 479,
    } | changes


def json_frame(fields: dict[str, Any] | None = None, body: bytes = b"body", **changes: Any) -> bytes:
    """Write a frame as the Java client does."""
    return framed(json.dumps(header(fields, **changes), separators=(",", ":")).encode(), body)


def binary_frame(
    fields: dict[str, str] | None = None, body: bytes = b"body", *, code: int = 310, flag: int = 0
) -> bytes:
    """Write a frame with a ROCKETMQ header."""
    parts = b"".join(
        struct.pack(f">h{len(name)}si", len(name), name.encode(), len(value.encode())) + value.encode()
        for name, value in (USUAL | (fields or {})).items()
    )
    return framed(struct.pack(">hBhiiii", code, 0, 479, 17, flag, 0, len(parts)) + parts, body, 1)


def framed(data: bytes, body: bytes = b"body", serialize_type: int = 0) -> bytes:
    """Put a header and a body into a frame."""
    return struct.pack(">iI", 4 + len(data) + len(body), serialize_type << 24 | len(data)) + data + body
