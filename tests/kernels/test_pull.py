"""The kernel that reads a queue's usual messages: what it lets by, and what it touches."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq import kernels
from cometmq.format.consume_queue_ext import ADDRESS_MAX
from cometmq.format.queue_entry import pack
from cometmq.format.record import Record, encode
from cometmq.kernels.pulls import LAST, LOOKED_AT, OUTCOME_SIZE, PAGE_SIZE, RUNS, UNUSUAL

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
    """Give a file with records side by side, and their queue entries."""
    data, entries = b"", []
    for number in range(count):
        one = record_of(number, len(data), **kind)
        entries.append((BEGIN + len(data), len(one), number % 2))
        data += one
    return data, entries


class Choice:
    """What the kernel chooses from entries."""

    def __init__(
        self,
        data: bytes,
        entries: list[tuple[int, int, int]],
        *,
        codes: list[int] | None = None,
        resident: bytes | None = None,
        counts: tuple[int, int] = (ROOM, ROOM),
        sizes: tuple[int, int] = (1 << 20, 1 << 20),
        near_offset: int = 0,
        queue_offset: int = 0,
    ) -> None:
        ops = kernels.load().pulls
        assert ops is not None
        places, found_sizes, run_sizes, outcome = np.full((4, ROOM), -1, np.int64)
        self.count = ops.choose(
            np.frombuffer(b"".join(pack(*entry) for entry in entries), np.uint8),
            np.array(codes or (), np.int64),
            codes is not None,
            np.frombuffer(data, np.uint8),
            np.frombuffer(resident or b"\1" * (len(data) // PAGE_SIZE + 1), np.uint8),
            BEGIN,
            BEGIN + len(data),
            queue_offset,
            near_offset,
            *(counts[0], sizes[0], counts[1], sizes[1]),
            places,
            found_sizes,
            run_sizes,
            outcome,
        )
        self.places, self.sizes, self.outcome = (
            places.tolist(),
            found_sizes.tolist(),
            outcome[:OUTCOME_SIZE].tolist(),
        )
        self.runs = list(zip(self.places, run_sizes.tolist(), strict=True))[: self.outcome[RUNS]]


@pytest.mark.parametrize("kind", [{}, {"topic": "t" * LONG}, {"host": 20}, {"body": b""}])
def test_sound_records_are_chosen_up_to_the_limits(kind: dict[str, Any]) -> None:
    data, entries = file_of(4, **kind)
    size = len(data) // 4
    chosen = Choice(data, entries)
    assert (chosen.count, chosen.outcome[LOOKED_AT], chosen.runs) == (4, 4, [(0, 4 * size)])
    assert chosen.outcome[LAST] == entries[3][0]
    assert chosen.sizes[:4] == 4 * [size]
    assert Choice(data, entries, counts=(2, 1)).count == 2
    assert Choice(data, entries, counts=(2, 1), near_offset=BEGIN + len(data)).count == 1
    assert Choice(data, entries, sizes=(3 * size, 1)).count == 3
    assert Choice(data, entries, sizes=(3 * size, 1), near_offset=BEGIN + len(data)).count == 1


def test_only_wanted_tags_are_chosen() -> None:
    data, entries = file_of(4)
    odd, none = Choice(data, entries, codes=[7, 1]), Choice(data, entries, codes=[])
    assert (odd.count, odd.outcome[LOOKED_AT]) == (2, 4)
    assert odd.runs == [(entries[n][0] - BEGIN, entries[n][1]) for n in (1, 3)]
    assert (none.count, none.outcome[LOOKED_AT], none.outcome[LAST]) == (0, 4, entries[3][0])


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
def test_entries_that_point_to_no_record_of_the_file_are_unusual(entry: tuple[int, int, int]) -> None:
    data, entries = file_of(2)
    assert Choice(data, [entry, *entries]).count == UNUSUAL


def test_a_queue_offset_that_is_another_is_unusual() -> None:
    data, entries = file_of(2)
    assert Choice(data, entries, queue_offset=1).count == UNUSUAL


def test_what_is_not_known_to_be_in_memory_is_told_and_not_touched() -> None:
    data, entries = file_of(5, body=bytes(PAGE_SIZE // 2))
    pages = bytearray(b"\1" * (len(data) // PAGE_SIZE + 1))
    size = len(data) // 5
    pages[2 * size // PAGE_SIZE] = 0  # where the third begins
    missing = [
        n for n in range(5) if not all(pages[n * size // PAGE_SIZE : ((n + 1) * size - 1) // PAGE_SIZE + 1])
    ]
    damaged = bytearray(data)
    damaged[2 * size] ^= 1
    chosen = Choice(bytes(damaged), entries, resident=bytes(pages))
    assert chosen.count == UNUSUAL - len(missing)
    assert chosen.places[: len(missing)] == [n * size for n in missing]
    assert set(chosen.sizes[: len(missing)]) == {size}


@settings(deadline=None)
@given(at=st.floats(0, 1, exclude_max=True), value=st.integers(0, 255), kind=st.sampled_from((8, 20)))
def test_whatever_is_in_a_record_no_other_byte_is_read(at: float, value: int, kind: int) -> None:
    data = bytearray(record_of(0, 0, host=kind))
    entry = (BEGIN, len(data), 0)
    data[int(at * len(data))] = value
    assert Choice(bytes(data), [entry]).count in (1, UNUSUAL)
