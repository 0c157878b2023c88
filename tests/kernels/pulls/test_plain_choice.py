"""The choice of a read's records: what is chosen, what is left to a reading, and what is not touched."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.format.consume_queue_ext import ADDRESS_MAX
from cometmq.format.queue_entry import pack
from cometmq.format.record import Record, encode
from cometmq.kernels.ops import PAGE_SIZE
from cometmq.kernels.pulls.rows import (
    CHOSEN_SIZE,
    MISSING_AT,
    RECORD_SIZE,
    RUN_AT,
    RUN_SIZE,
    Choice,
    LogBytes,
    PullOps,
    ReadOutcome,
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
        self.room = np.full((CHOSEN_SIZE, ROOM), -1, np.int64)
        self.records = np.zeros(records_room, np.uint8)
        self.choice = ops.choose(
            np.frombuffer(b"".join(pack(*entry) for entry in entries), np.uint8),
            None if codes is None else np.array(codes, np.int64),
            file,
            np.array(bounds, np.int64),
            queue_offset,
            self.room,
            self.records,
        )
        self.outcome, self.count, self.looked_at, self.last, run_count, missing_count, size = self.choice
        self.sizes = self.room[RECORD_SIZE, : self.count].tolist()
        self.runs = list(zip(*self.room[RUN_AT : RUN_SIZE + 1, :run_count].tolist(), strict=True))
        self.missing = list(zip(*self.room[MISSING_AT:, :missing_count].tolist(), strict=True))
        assert size == sum(size for _, size in self.runs)


LEFT = Choice(ReadOutcome.LEFT)


@pytest.mark.parametrize("kind", [{}, {"topic": "t" * LONG}, {"host": 20}, {"body": b""}])
def test_sound_records_are_chosen_up_to_the_limits(pull_ops: PullOps, kind: dict[str, Any]) -> None:
    data, entries = file_of(4, **kind)
    size, end = len(data) // 4, BEGIN + len(data)
    chosen = Chosen(pull_ops, data, entries)
    assert (chosen.outcome, chosen.count, chosen.looked_at) == (ReadOutcome.FOUND, 4, 4)
    assert (chosen.runs, chosen.last, chosen.sizes) == ([(0, 4 * size)], entries[3][0], 4 * [size])
    assert Chosen(pull_ops, data, entries, counts=(2, 1)).count == 2
    assert Chosen(pull_ops, data, entries, counts=(2, 1), near_offset=end).count == 1
    assert Chosen(pull_ops, data, entries, sizes=(3 * size, 1)).count == 3
    assert Chosen(pull_ops, data, entries, sizes=(3 * size, 1), near_offset=end).count == 1


def test_only_wanted_tags_are_chosen(pull_ops: PullOps) -> None:
    data, entries = file_of(4)
    odd, none = Chosen(pull_ops, data, entries, codes=[7, 1]), Chosen(pull_ops, data, entries, codes=[])
    assert (odd.count, odd.looked_at) == (2, 4)
    assert odd.runs == [(entries[n][0] - BEGIN, entries[n][1]) for n in (1, 3)]
    assert none.choice == Choice(ReadOutcome.NONE_WANTED, 0, 4, entries[3][0])


def test_records_are_copied_if_there_is_room_for_all(pull_ops: PullOps) -> None:
    data, entries = file_of(4)
    size = len(data) // 4
    odd = Chosen(pull_ops, data, entries, codes=[7, 1], records_room=2 * size)
    assert odd.records.tobytes() == data[size : 2 * size] + data[3 * size :]
    none = Chosen(pull_ops, data, entries, codes=[7, 1], records_room=2 * size - 1)
    assert none.choice == odd.choice
    assert not none.records.any()


@pytest.mark.parametrize(
    "entry",
    [
        (0, 0x7FFF_FFFF, 0),
        (BEGIN, 10, 0),
        (BEGIN, -1, 0),
        (BEGIN - 1, 100, 0),
        (BEGIN + 1, 108, 0),
        (2**63 - 1, 100, 0),
        (-(2**63), 100, 0),
        (BEGIN, 109, ADDRESS_MAX),
    ],
)
def test_entries_that_point_to_no_record_of_the_file_are_left(
    pull_ops: PullOps, entry: tuple[int, int, int]
) -> None:
    data, entries = file_of(2)
    assert Chosen(pull_ops, data, [entry, *entries]).choice == LEFT


def test_a_queue_offset_that_is_another_is_left(pull_ops: PullOps) -> None:
    data, entries = file_of(2)
    assert Chosen(pull_ops, data, entries, queue_offset=1).choice == LEFT


def test_a_choice_ends_before_what_is_in_another_file(pull_ops: PullOps) -> None:
    data, entries = file_of(2)
    chosen = Chosen(pull_ops, data, [*entries, (BEGIN + (1 << 30), 100, 0)])
    assert (chosen.outcome, chosen.count, chosen.looked_at) == (ReadOutcome.FOUND, 2, 2)


def test_what_is_not_known_to_be_in_memory_is_named_and_not_touched(pull_ops: PullOps) -> None:
    data, entries = file_of(5, body=bytes(PAGE_SIZE // 2))
    pages = bytearray(b"\1" * (len(data) // PAGE_SIZE + 1))
    size = len(data) // 5
    pages[2 * size // PAGE_SIZE] = 0  # where the third begins
    missing = [
        n for n in range(5) if not all(pages[n * size // PAGE_SIZE : ((n + 1) * size - 1) // PAGE_SIZE + 1])
    ]
    damaged = bytearray(data)
    damaged[2 * size] ^= 1
    chosen = Chosen(pull_ops, bytes(damaged), entries, resident=bytes(pages))
    assert chosen.outcome is ReadOutcome.MISSING
    assert chosen.missing == [(n * size, size) for n in missing]


@settings(deadline=None)
@given(at=st.floats(0, 1, exclude_max=True), value=st.integers(0, 255), kind=st.sampled_from((8, 20)))
def test_whatever_is_in_a_record_no_other_byte_is_read(
    pull_ops: PullOps, at: float, value: int, kind: int
) -> None:
    data = bytearray(record_of(0, 0, host=kind))
    entry = (BEGIN, len(data), 0)
    data[int(at * len(data))] = value
    assert Chosen(pull_ops, bytes(data), [entry]).outcome in (ReadOutcome.FOUND, ReadOutcome.LEFT)
