from collections import defaultdict
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cometmq.format.queue_entry import SIZE, QueueEntry, unpack_many
from cometmq.kernels.arrays import Longs
from cometmq.kernels.ops import Ops, Runs

LENGTH = 5
LONG = st.integers(-(2**63), 2**63 - 1)
ROW = st.tuples(
    st.integers(0, 5), st.integers(0, 2**60), st.integers(0, 2**50), st.integers(0, 2**31 - 1), LONG
)
STEPS = st.lists(st.tuples(ROW, st.integers(1, 2 * LENGTH), st.sampled_from([0, 0, 0, 1, 4])))
"""The first entry of a stretch of a queue's, how many it has, and how many runs are then taken out."""


def rows_of(*rows: tuple[int, int, int, int, int]) -> Longs:
    return np.array(rows, np.int64).reshape(-1, 5)


def taken(runs: Runs, count: int | None = None) -> list[tuple[int, int, list[QueueEntry], int]]:
    """Remove the oldest runs; return of each the queue's number, first queue offset, entries and end."""
    first, end = runs.window.tolist()
    end = end if count is None else min(end, first + count)
    found = []
    for run in range(first, end):
        place = run % len(runs.rows)
        number, queue_offset, length, physical_end, _ = runs.rows[place].tolist()
        begin = place * LENGTH * SIZE
        data = runs.entries[begin : begin + length * SIZE].tobytes()
        found.append((number, queue_offset, list(unpack_many(data)), physical_end))
    runs.window[0] = end
    return found


def test_each_queue_gets_its_entries_in_order(ops: Ops) -> None:
    runs = Runs.empty(4, LENGTH, 8)
    rows = rows_of((7, 40, 1000, 100, -1), (2, 5, 1100, 90, 3), (7, 41, 1190, 80, 2**40), (2, 6, 1270, 10, 0))
    assert ops.group_entries(rows, runs) == 4
    assert taken(runs) == [
        (7, 40, [QueueEntry(1000, 100, -1), QueueEntry(1190, 80, 2**40)], 1270),
        (2, 5, [QueueEntry(1100, 90, 3), QueueEntry(1270, 10, 0)], 1280),
    ]


def test_no_entries_begin_no_run(ops: Ops) -> None:
    runs = Runs.empty(4, LENGTH, 0)
    assert ops.group_entries(rows_of(), runs) == 0
    assert taken(runs) == []


def test_what_comes_later_is_added_to_a_run_until_that_is_taken_out(ops: Ops) -> None:
    runs = Runs.empty(4, LENGTH, 1)
    assert ops.group_entries(rows_of((0, 0, 0, 10, 0)), runs) == 1
    assert ops.group_entries(rows_of((0, 1, 10, 10, 0)), runs) == 1
    assert [(first, len(entries), end) for _, first, entries, end in taken(runs)] == [(0, 2, 20)]
    assert ops.group_entries(rows_of((0, 2, 20, 10, 0)), runs) == 1
    assert [(first, len(entries), end) for _, first, entries, end in taken(runs)] == [(2, 1, 30)]


def test_a_full_run_and_a_gap_end_a_run(ops: Ops) -> None:
    runs = Runs.empty(4, LENGTH, 1)
    offsets = [*range(LENGTH + 1), 100, 101]
    assert ops.group_entries(rows_of(*((0, at, at, 1, 0) for at in offsets)), runs) == len(offsets)
    assert [(first, len(entries)) for _, first, entries, _ in taken(runs)] == [
        (0, LENGTH),
        (LENGTH, 1),
        (100, 2),
    ]


def test_a_run_knows_the_one_that_its_queue_began_before(ops: Ops) -> None:
    runs = Runs.empty(4, LENGTH, 2)
    rows = rows_of(*((0, at, at, 1, 0) for at in range(LENGTH)), (1, 0, 5, 1, 0), (0, LENGTH, 6, 1, 0))
    assert ops.group_entries(rows, runs) == len(rows)
    assert [(number, previous) for number, *_, previous in runs.rows[:3].tolist()] == [
        (0, -1),
        (1, -1),
        (0, 0),
    ]
    assert runs.newest.tolist() == [2, 1]


def test_without_a_place_for_a_run_the_rest_waits(ops: Ops) -> None:
    runs = Runs.empty(2, LENGTH, 3)
    rows = rows_of((0, 0, 0, 1, 0), (1, 0, 1, 1, 0), (0, 1, 2, 1, 0), (2, 0, 3, 1, 0), (0, 2, 4, 1, 0))
    assert ops.group_entries(rows, runs) == 3
    assert ops.group_entries(rows[3:], runs) == 0
    assert [number for number, *_ in taken(runs, 1)] == [0]
    assert ops.group_entries(rows[3:], runs) == 1  # the run of queue 0 is no longer there, and no place
    assert [number for number, *_ in taken(runs, 1)] == [1]
    assert ops.group_entries(rows[4:], runs) == 1
    assert [(number, first) for number, first, *_ in taken(runs)] == [(2, 0), (0, 2)]


def test_a_queue_with_too_high_a_number_waits(ops: Ops) -> None:
    runs = Runs.empty(2, LENGTH, 1)
    assert ops.group_entries(rows_of((0, 0, 0, 1, 0), (1, 0, 1, 1, 0)), runs) == 1
    assert [number for number, *_ in taken(runs)] == [0]


@given(STEPS)
def test_what_is_grouped_is_all_there_is(ops: Ops, steps: list[tuple[Any, int, int]]) -> None:
    runs, found = Runs.empty(4, LENGTH, 6), []
    expected: dict[int, list[tuple[int, QueueEntry]]] = defaultdict(list)
    for (number, queue_offset, physical_offset, size, tags_code), count, out in steps:
        rows = rows_of(
            *((number, queue_offset + at, physical_offset + at, size, tags_code) for at in range(count))
        )
        expected[number] += [(row[1], QueueEntry(*row[2:])) for row in rows.tolist()]
        while len(rows):
            rows = rows[ops.group_entries(rows, runs) :]
            found += taken(runs, 1) if len(rows) else []
        found += taken(runs, out)
    found += taken(runs)
    by_queue: dict[int, list[tuple[int, QueueEntry]]] = defaultdict(list)
    for number, first, entries, end in found:
        assert 0 < len(entries) <= LENGTH
        assert end == entries[-1].physical_offset + entries[-1].size
        by_queue[number] += list(enumerate(entries, first))
    assert by_queue == expected
