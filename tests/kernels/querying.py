"""Frames of queries, and what the kernel reads of them: what the tests of the kernels of queries share."""

from typing import Any, Final

import numpy as np

from cometmq.kernels.ops import Bytes, Longs, Ops
from cometmq.kernels.queries.rows import FOUND_MAX, QUERY_SIZE, TEXTS_SIZE, QueryOps
from cometmq.kernels.sends.rows import PLACES_SIZE
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
UNIQUE_COUNT: Final = 7


def ops_of(ops: Ops) -> QueryOps:
    assert ops.queries is not None
    return ops.queries


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
        rows: what was read last; ``offsets`` belong to them.
    """

    def __init__(self, ops: QueryOps) -> None:
        self._ops = ops
        self.rows: Longs = np.empty((0, QUERY_SIZE), np.int64)
        self.offsets: Longs = np.empty((0, FOUND_MAX), np.int64)
        self.texts: Bytes = np.zeros(ROOM * TEXTS_SIZE, np.uint8)

    def read(self, data: bytes, start: int = 0, end: int | None = None) -> tuple[int, int]:
        """Read frames: gives where the queries end, and where the others after them do."""
        rows, offsets = np.zeros((ROOM, QUERY_SIZE), np.int64), np.zeros((ROOM, FOUND_MAX), np.int64)
        count, queries_end, others_end = self._ops.read(
            *(data, start, len(data) if end is None else end, UNIQUE_COUNT),
            *(rows, offsets, self.texts, np.empty(PLACES_SIZE, np.int64)),
        )
        self.rows, self.offsets = rows[:count], offsets[:count]
        return queries_end, others_end

    def reads(self, data: bytes) -> bool:
        """Tell whether the one frame is read as a query."""
        return self.read(data)[0] == len(data)

    def row(self, *columns: Any) -> list[int]:
        """Give numbers of the first that was read."""
        return [int(self.rows[0, column]) for column in columns]
