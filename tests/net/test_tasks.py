import asyncio

import pytest

from cometmq.net.tasks import bounded_map, until_one_ends


async def nothing() -> None:
    pass


async def test_the_others_are_cancelled_when_one_ends() -> None:
    ended: list[str] = []

    async def goes_on() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    await until_one_ends(goes_on(), nothing())
    assert ended == ["cancelled"]


async def test_what_one_raises_is_raised() -> None:
    async def fails() -> None:
        raise ValueError("as it must")

    with pytest.raises(ValueError, match="as it must"):
        await until_one_ends(asyncio.Event().wait(), fails())  # type: ignore[arg-type]  # its result is not used


async def test_answers_come_in_the_order_of_the_items_however_long_each_takes() -> None:
    second_is_answered = asyncio.Event()

    async def ask(number: int) -> int:
        if number == 1:
            await second_is_answered.wait()
        else:
            second_is_answered.set()
        return 10 * number

    assert await bounded_map(ask, [1, 2, 2], 2) == [10, 20, 20]
    assert await bounded_map(ask, [], 2) == []


async def test_no_more_are_under_way_than_the_limit() -> None:
    under_way, most = 0, 0

    async def ask(_: int) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1

    await bounded_map(ask, range(20), 3)
    assert most == 3


async def test_the_first_error_is_raised_and_cancels_the_others() -> None:
    ended = []

    async def ask(number: int) -> None:
        try:
            if number == 1:
                raise LookupError("one")
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    with pytest.raises(LookupError, match="one"):
        await bounded_map(ask, range(9), 3)
    assert sorted(ended) == [0, 1, 2]
