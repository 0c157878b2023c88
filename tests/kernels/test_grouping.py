import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.format.queue_entry import SIZE, QueueEntry, unpack_many
from cometmq.kernels.ops import Longs, Ops

LONG = st.integers(-(2**63), 2**63 - 1)


def rows_of(*rows: tuple[int, int, int, int, int]) -> Longs:
    return np.array(rows, np.int64).reshape(-1, 5)


def test_each_queue_gets_its_entries_in_order(ops: Ops) -> None:
    grouped = ops.group_entries(
        rows_of((7, 40, 1000, 100, -1), (2, 5, 1100, 90, 3), (7, 41, 1190, 80, 2**40), (2, 6, 1270, 10, 0))
    )
    assert grouped.runs.tolist() == [[2, 5, 0, 2 * SIZE, 1280], [7, 40, 2 * SIZE, 4 * SIZE, 1270]]
    assert list(unpack_many(grouped.entries)) == [
        QueueEntry(1100, 90, 3),
        QueueEntry(1270, 10, 0),
        QueueEntry(1000, 100, -1),
        QueueEntry(1190, 80, 2**40),
    ]


def test_no_entries_are_of_no_queue(ops: Ops) -> None:
    runs, entries = ops.group_entries(rows_of())
    assert (runs.tolist(), entries) == ([], b"")


@given(st.lists(st.tuples(st.integers(0, 5), LONG, st.integers(0, 2**50), st.integers(0, 2**31 - 1), LONG)))
def test_what_is_grouped_is_all_there_is(ops: Ops, rows: list[tuple[int, int, int, int, int]]) -> None:
    runs, data = ops.group_entries(rows_of(*rows))
    found = list(unpack_many(data))
    ends = [0, *runs[:, 3].tolist()]
    for (number, queue_offset, begin, end, physical_end), before in zip(runs.tolist(), ends, strict=False):
        expected = [row for row in rows if row[0] == number]
        assert begin == before
        assert found[begin // SIZE : end // SIZE] == [QueueEntry(*row[2:]) for row in expected]
        assert (queue_offset, physical_end) == (expected[0][1], expected[-1][2] + expected[-1][3])
    assert runs[:, 0].tolist() == sorted({row[0] for row in rows})
    assert ends[-1] == len(data)


@pytest.mark.parametrize("count", [1, 1000])
def test_queues_may_be_many_and_their_numbers_large(ops: Ops, count: int) -> None:
    numbers = [100_000 - 7 * at for at in range(count)]
    grouped = ops.group_entries(rows_of(*((number, 0, number, 1, 0) for number in numbers)))
    assert grouped.runs[:, 0].tolist() == numbers[::-1]
