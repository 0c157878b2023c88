"""What a store and the kernels of queries pass each other."""

import pytest

from cometmq.kernels import plain
from cometmq.kernels.queries import rows as queries
from cometmq.kernels.queries.rows import constants_of


def test_columns_states_and_reasons_are_told_apart() -> None:
    assert len({queries.LOOKING, queries.MISSING, queries.FOUND, queries.ANSWERED, queries.UNUSUAL}) == 5
    assert len({queries.DONE, queries.ELSEWHERE, queries.FULL, queries.STUCK}) == 4
    assert queries.ANSWER_END == queries.QUERY_SIZE - 1


def test_without_kernels_queries_go_the_long_way() -> None:
    assert plain.queries is None


def test_constants_lie_side_by_side() -> None:
    data, bounds = constants_of([b"a", b"bb", b"", b"c"], [b"ddd", b"e", b"f", b"g"])
    assert data.tobytes() == b"abbcdddefg"
    assert bounds.tolist() == [0, 1, 3, 3, 4, 7, 8, 9, 10]
    with pytest.raises(AssertionError):
        constants_of([b"a"], [b"b"])
