"""Frames of pulls, and what the kernel reads of them: what the tests of the kernels of pulls share."""

import json
import struct
from typing import Any, Final

from tests.kernels.frames import framed, java_header

from cometmq.kernels.pulls.pull_table import PullTable
from cometmq.kernels.pulls.rows import HASH, UNKNOWN_AT, UNKNOWN_END, PullOps, PullRows

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

    def __init__(self, ops: PullOps) -> None:
        self._read = ops.read
        self.rows: list[list[int]] = []
        self.table = PullTable()
        self._room = PullRows(ROOM)

    def read(self, data: bytes, start: int = 0, end: int | None = None) -> tuple[int, int]:
        """Read frames: gives where the pulls end, and where the others after them do."""
        end = len(data) if end is None else end
        count, pulls_end, others_end = self._read(data, start, end, self._room, self.table)
        self.rows = self._room.rows[:count].tolist()
        return pulls_end, others_end

    def reads(self, data: bytes) -> bool:
        """Return whether the one frame is read as a pull."""
        return self.read(data)[0] == len(data)

    def key(self, number: int = 0) -> bytes:
        """Return the key of one that was read and is not in the table."""
        row = self.rows[number]
        return self._room.keys[row[UNKNOWN_AT] : row[UNKNOWN_END]].tobytes()

    def learn(self, number: int = 0) -> int:
        """Add the key of one that was read to the table."""
        row = self.rows[number]
        return self.table.put(self._room.keys[row[UNKNOWN_AT] : row[UNKNOWN_END]], row[HASH])


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
