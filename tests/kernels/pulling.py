"""Frames of pulls, and what the kernel reads of them: what the tests of the kernels of pulls share."""

import json
import struct
from typing import Any, Final

from tests.kernels.reading import end_of, framed, frames_in, java_header, others_end, stretch

from cometmq.kernels.frames.fields import FrameKind
from cometmq.kernels.ops import Ops
from cometmq.kernels.pulls.rows import Pull, PullRows
from cometmq.kernels.text.key_table import KeyTable

USUAL: Final = {
    "queueId": "3",
    "maxMsgNums": "32",
    "sysFlag": "3",
    "suspendTimeoutMillis": "15000",
    "bname": "broker-a",
    "queueOffset": "17",
    "commitOffset": "16",
    "requestSource": "0",
    "topic": "T",
    "subVersion": "1795255006748",
    "consumerGroup": "group",
    "maxMsgBytes": "262144",
    "expressionType": "TAG",
}
ROOM: Final = 8


class Reader:
    """Reads pulls with a table of its own.

    Attributes:
        rows: what was read last.
        table: has what ``learn`` was called for.
    """

    def __init__(self, ops: Ops) -> None:
        self._ops = ops
        self.rows: list[Pull] = []
        self.table = KeyTable()
        self._room = PullRows(ROOM)

    def read(self, data: bytes, start: int = 0, end: int | None = None) -> tuple[int, int]:
        """Read frames: gives where the pulls end, and where the others after them do."""
        frames, other = frames_in(self._ops, data, start, end), PullRows(1)
        read, last = self._ops.pulls.read, stretch(frames, FrameKind.PULL, ROOM)
        count = read(frames, 0, last, self._room, self.table)
        self.rows = [Pull._make(row) for row in self._room.array[:count].tolist()]

        def is_taken(row: int) -> bool:
            is_pull = frames.rows[row].kind == FrameKind.PULL
            return is_pull and read(frames, row, row + 1, other, self.table) == 1

        return end_of(frames, count, start), others_end(frames, count, is_taken)

    def reads(self, data: bytes) -> bool:
        """Return whether the one frame is read as a pull."""
        return self.read(data)[0] == len(data)

    def key(self, number: int = 0) -> bytes:
        """Return the key of one that was read and is not in the table."""
        row = self.rows[number]
        return self._room.keys[row.key_at : row.key_end].tobytes()

    def learn(self, number: int = 0) -> int:
        """Add the key of one that was read to the table."""
        return self.table.put(self.key(number))


def header(fields: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Return a JSON header as the Java client writes it."""
    return java_header(11, 5, USUAL | (fields or {}), **changes)


def json_frame(fields: dict[str, Any] | None = None, body: bytes = b"", **changes: Any) -> bytes:
    """Write a frame as the Java client does."""
    return framed(json.dumps(header(fields, **changes), separators=(",", ":")).encode(), body)


def binary_frame(
    fields: dict[str, str] | None = None, body: bytes = b"", *, code: int = 11, flag: int = 0, opaque: int = 5
) -> bytes:
    """Write a frame with a ROCKETMQ header."""
    parts = b"".join(
        struct.pack(f">h{len(name)}si", len(name), name.encode(), len(value.encode())) + value.encode()
        for name, value in (USUAL | (fields or {})).items()
    )
    return framed(struct.pack(">hBhiiii", code, 0, 479, opaque, flag, 0, len(parts)) + parts, body, 1)
