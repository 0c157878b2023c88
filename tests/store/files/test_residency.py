"""What leaf operations need is asked about: records that lie close together, others one by one."""

import numpy as np
import pytest

from cometmq.kernels.queries.rows import QueryRow, QueryState
from cometmq.store.files.residency import DENSE, are_ready, settle

PAGE = 4096


class FakeMapped:
    """A mapped file of which some pages are in memory; notes what is asked."""

    def __init__(self, *cold: int) -> None:
        self.view = memoryview(bytes(1000 * PAGE))
        self.resident = bytearray(1000)
        self.asked: list[tuple[int, int]] = []
        self._cold = cold

    def ready(self, begin: int, end: int) -> memoryview | None:
        self.asked.append((begin, end))
        is_cold = any(begin < (page + 1) * PAGE and end > page * PAGE for page in self._cold)
        return None if is_cold else self.view[begin:end]


def longs(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(numbers, np.int64)


def test_those_that_lie_close_are_one_question() -> None:
    mapped = FakeMapped()
    assert are_ready(mapped, longs(0, 5000, 9000), longs(1000, 1000, 1000))
    assert mapped.asked == [(0, 10_000)]


def test_those_that_lie_far_apart_are_asked_about_one_by_one() -> None:
    mapped = FakeMapped()
    far = DENSE * 3000
    assert are_ready(mapped, longs(0, 5000, far), longs(1000, 1000, 1000))
    assert mapped.asked == [(0, 1000), (5000, 6000), (far, far + 1000)]


@pytest.mark.parametrize(("cold", "ready"), [(1, False), (2, True)])
def test_a_page_between_them_need_not_be_there(cold: int, ready: bool) -> None:
    mapped = FakeMapped(cold)
    assert are_ready(mapped, longs(0, PAGE, 3 * PAGE), longs(1000, 1000, 1000)) is ready


@pytest.mark.parametrize(("cold", "state"), [(1, QueryState.LEFT), (2, QueryState.FOUND)])
def test_a_query_that_misses_bytes_goes_on_if_they_are_in_memory(cold: int, state: QueryState) -> None:
    mapped, query = FakeMapped(cold), QueryRow()
    query.place, query.place_end, query.state = 100, PAGE + 1, QueryState.MISSING
    settle(mapped, query, QueryState.FOUND)
    assert query.state == state and mapped.asked == [(100, PAGE + 1)]
