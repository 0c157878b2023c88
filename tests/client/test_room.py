"""Room for some at a time: who finds none waits, and comes in by turns."""

import asyncio

import pytest

from cometmq.client.room import Room


def test_as_many_come_in_as_there_is_room_for() -> None:
    room = Room(2)
    assert [room.take() for _ in range(3)] == [True, True, False]
    room.leave()
    assert [room.take() for _ in range(2)] == [True, False]


async def test_those_who_wait_come_in_by_turns_and_before_all_others() -> None:
    room, order = Room(1), list[int]()
    assert room.take()

    async def enter(number: int) -> None:
        await room.taken()
        order.append(number)

    waiting = [asyncio.create_task(enter(number)) for number in range(3)]
    await asyncio.sleep(0)
    for task in waiting:
        room.leave()
        assert not room.take()
        await task
    assert order == [0, 1, 2]
    room.leave()
    assert room.take()


@pytest.mark.parametrize("is_given", [False, True])
async def test_who_gives_up_waiting_leaves_the_place_to_the_next(is_given: bool) -> None:
    room = Room(1)
    assert room.take()
    first, second = (asyncio.create_task(room.taken()) for _ in range(2))
    await asyncio.sleep(0)
    if is_given:
        room.leave()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    if not is_given:
        room.leave()
    await second
    assert not room.take()
    room.leave()
    assert room.take()
