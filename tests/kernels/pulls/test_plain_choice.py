"""The choice of a read's records: what is chosen, what is left to a reading, and what is not touched."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.chosen_records import BEGIN, LONG, Chosen, file_of, record_of

from cometmq.format.consume_queue_ext import ADDRESS_MAX
from cometmq.kernels.arrays import PAGE_SIZE
from cometmq.kernels.pulls.rows import (
    Choice,
    PullOps,
    ReadOutcome,
)

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
