"""Records of a log file, and which of them a pull chooses."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cometmq.format.queue_entry import pack
from cometmq.format.record import Record, encode
from cometmq.kernels.arrays import PAGE_SIZE
from cometmq.kernels.pulls.rows import (
    CHOSEN_SIZE,
    MISSING_AT,
    RECORD_SIZE,
    RUN_AT,
    RUN_SIZE,
    AnswerRoom,
    LogBytes,
    PullOps,
)

BEGIN = 1 << 30
ROOM = 8
LONG = 130  # a topic so long makes a record V2


def record_of(
    number: int, position: int, topic: str = "Orders", host: int = 8, body: bytes = b"body"
) -> bytes:
    return encode(
        Record(topic, body, b"A\1b\2", 0, number, BEGIN + position, 0, 0, 1, bytes(host), 2, bytes(host))
    )


def file_of(count: int, **kind: Any) -> tuple[bytes, list[tuple[int, int, int]]]:
    """Return a file with records side by side, and their queue entries."""
    data, entries = b"", []
    for number in range(count):
        one = record_of(number, len(data), **kind)
        entries.append((BEGIN + len(data), len(one), number % 2))
        data += one
    return data, entries


class Chosen:
    """What is chosen from entries."""

    def __init__(
        self,
        ops: PullOps,
        data: bytes,
        entries: Sequence[tuple[int, int, int]],
        *,
        codes: list[int] | None = None,
        resident: bytes | None = None,
        counts: tuple[int, int] = (ROOM, ROOM),
        sizes: tuple[int, int] = (1 << 20, 1 << 20),
        near_offset: int = 0,
        queue_offset: int = 0,
        records_room: int = 1 << 20,
    ) -> None:
        pages = np.frombuffer(resident or b"\1" * (len(data) // PAGE_SIZE + 1), np.uint8)
        file = LogBytes(np.frombuffer(data, np.uint8), pages, BEGIN, BEGIN + len(data))
        bounds = file.begin, file.end, near_offset, counts[0], sizes[0], counts[1], sizes[1]
        self.room = np.full((ROOM, CHOSEN_SIZE), -1, np.int64)
        self.records = np.zeros(records_room, np.uint8)
        self.choice = ops.choose(
            np.frombuffer(b"".join(pack(*entry) for entry in entries), np.uint8),
            None if codes is None else np.array(codes, np.int64),
            file,
            queue_offset,
            AnswerRoom(self.records, self.room, np.array(bounds, np.int64)),
        )
        self.outcome, self.count, self.looked_at, self.last, run_count, missing_count, size = self.choice
        self.sizes = self.room[: self.count, RECORD_SIZE].tolist()
        self.runs = list(map(tuple, self.room[:run_count, RUN_AT : RUN_SIZE + 1].tolist()))
        self.missing = list(map(tuple, self.room[:missing_count, MISSING_AT:].tolist()))
        assert size == sum(size for _, size in self.runs)
