from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from cometmq.client.merging import merged
from cometmq.errors import NetworkError


class Walks:
    """Starts iterations, and counts what is taken of them and which are closed."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.closed = 0

    async def of(self, *numbers: int) -> AsyncGenerator[int]:
        try:
            for number in numbers:
                self.taken.append(number)
                yield number
        finally:
            self.closed += 1


async def test_items_come_in_their_common_order() -> None:
    walks = Walks()
    found = merged([walks.of(1, 4, 4), walks.of(), walks.of(2, 3, 5)], int)
    assert [one async for one in found] == [1, 2, 3, 4, 4, 5]
    assert [one async for one in merged([walks.of(3, 1), walks.of(2)], lambda one: -one)] == [3, 2, 1]
    assert [one async for one in merged([], int)] == []


async def test_no_more_than_the_next_of_each_is_taken_and_all_are_closed() -> None:
    walks = Walks()
    async with aclosing(merged([walks.of(1, 2, 3), walks.of(10, 11)], int)) as found:
        assert await anext(found) == 1 and await anext(found) == 2
        assert sorted(walks.taken) == [1, 2, 10]
    assert walks.closed == 2


async def test_an_error_of_one_ends_it_and_closes_the_others() -> None:
    async def broken() -> AsyncGenerator[int]:
        yield 1
        raise NetworkError("gone")

    walks = Walks()
    found = merged([walks.of(2, 3), broken()], int)
    assert await anext(found) == 1
    with pytest.raises(NetworkError, match="gone"):
        await anext(found)
    assert walks.closed == 1
