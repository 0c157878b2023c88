import pytest

from cometmq.testing.waiting import refuse_in_loop, until


async def test_it_is_looked_at_again_until_it_is_so() -> None:
    looks: list[int] = []
    assert await until(lambda: len(looks) == 3, 10, lambda: looks.append(0))
    assert not await until(lambda: False, 0.02)


def test_outside_of_a_loop_waiting_is_fine() -> None:
    refuse_in_loop("wait")


async def test_a_wait_that_would_block_the_loop_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"await asyncio\.to_thread\(rocketmq\.wait, …\)"):
        refuse_in_loop("wait")
