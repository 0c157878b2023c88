"""Frames of queries, and what they are looked up in: what the tests of the operations on queries share."""

from typing import Any, Final

from tests.kernels.reading import end_of, frames_in, others_end, stretch

from cometmq.kernels.arrays import PAGE_SIZE, Bytes
from cometmq.kernels.frames.fields import FrameKind
from cometmq.kernels.ops import Ops
from cometmq.kernels.queries.rows import QueryRows
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, SerializeType, encode

BY_KEY: Final = {
    "topic": "T",
    "key": "k1",
    "maxNum": "32",
    "beginTimestamp": "5",
    "endTimestamp": "9223372036854775807",
    "_UNIQUE_KEY_QUERY": "false",
}
BY_ID: Final = {"offset": "1234"}
ROOM: Final = 8


def by_key(fields: dict[str, str] | None = None, opaque: int = 5, *, binary: bool = False) -> bytes:
    """Write a QUERY_MESSAGE."""
    return frame(RequestCode.QUERY_MESSAGE, BY_KEY | (fields or {}), opaque, binary=binary)


def by_id(offset: object = 1234, opaque: int = 5, *, binary: bool = False) -> bytes:
    """Write a VIEW_MESSAGE_BY_ID."""
    return frame(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(offset)}, opaque, binary=binary)


def frame(
    code: int,
    fields: dict[str, str],
    opaque: int = 5,
    *,
    binary: bool = False,
    flag: int = 0,
    body: bytes = b"",
) -> bytes:
    """Write any frame."""
    kind = SerializeType.ROCKETMQ if binary else SerializeType.JSON
    return encode(Command(code, opaque, flag, ext_fields=fields, body=body, serialize_type=kind))


class Reader:
    """Reads queries.

    Attributes:
        queries: what was read last.
    """

    def __init__(self, ops: Ops) -> None:
        self._ops = ops
        self.queries = new_rows()

    def read(self, data: bytes, start: int = 0, end: int | None = None) -> tuple[int, int]:
        """Read frames: gives where the queries end, and where the others after them do."""
        self.queries, other = new_rows(), QueryRows(1)
        frames = frames_in(self._ops, data, start, end)
        read = self._ops.queries.read
        count = read(frames, 0, stretch(frames, FrameKind.QUERY), self.queries)
        assert count == self.queries.count

        def is_taken(row: int) -> bool:
            other.count = 0
            is_query = frames.rows[row].kind == FrameKind.QUERY
            return is_query and read(frames, row, row + 1, other) == 1

        return end_of(frames, count, start), others_end(frames, count, is_taken)

    def reads(self, data: bytes) -> bool:
        """Return whether the one frame is read as a query."""
        return self.read(data)[0] == len(data)

    def row(self, *columns: Any) -> list[int]:
        """Return numbers of the first that was read."""
        return [getattr(self.queries.rows[0], column) for column in columns]


def new_rows(room: int = ROOM) -> QueryRows:
    """Allocate rows whose content is always the same."""
    queries = QueryRows(room)
    queries.offsets[:], queries.texts[:] = 0, 0
    return queries


def all_of(data: bytes | Bytes) -> bytearray:
    """Return for each page that it is in memory."""
    return bytearray(b"\1" * -(-len(data) // PAGE_SIZE))
