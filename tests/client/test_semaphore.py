"""The semaphore of a producer: tasks that wait enter in order, and a cancelled one loses no place."""

import asyncio

import pytest

from cometmq.client.semaphore import LightSemaphore


def test_as_many_tasks_enter_as_there_are_places() -> None:
    semaphore = LightSemaphore(2)
    assert [semaphore.try_acquire() for _ in range(3)] == [True, True, False]
    semaphore.release()
    assert [semaphore.try_acquire() for _ in range(2)] == [True, False]


async def test_waiting_tasks_enter_in_order_and_before_all_others() -> None:
    semaphore, order = LightSemaphore(1), list[int]()
    assert semaphore.try_acquire()

    async def enter(number: int) -> None:
        await semaphore.wait_and_acquire()
        order.append(number)

    waiting = [asyncio.create_task(enter(number)) for number in range(3)]
    await asyncio.sleep(0)
    for task in waiting:
        semaphore.release()
        assert not semaphore.try_acquire()
        await task
    assert order == [0, 1, 2]
    semaphore.release()
    assert semaphore.try_acquire()


@pytest.mark.parametrize("is_given", [False, True])
async def test_a_cancelled_task_leaves_its_place_to_the_next(is_given: bool) -> None:
    semaphore = LightSemaphore(1)
    assert semaphore.try_acquire()
    first, second = (asyncio.create_task(semaphore.wait_and_acquire()) for _ in range(2))
    await asyncio.sleep(0)
    if is_given:
        semaphore.release()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    if not is_given:
        semaphore.release()
    await second
    assert not semaphore.try_acquire()
    semaphore.release()
    assert semaphore.try_acquire()
