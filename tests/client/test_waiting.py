import asyncio

import pytest

from cometmq.client.waiting import retry_while, wait_within
from cometmq.errors import CometMQError, NetworkError


async def test_it_waits_for_the_event_or_the_time() -> None:
    event = asyncio.Event()
    await wait_within(event, 0)
    waiting = asyncio.create_task(wait_within(event, 3_600))
    event.set()
    await waiting


async def test_a_cancellation_that_comes_with_the_event_is_not_lost() -> None:
    event = asyncio.Event()
    waiting = asyncio.create_task(wait_within(event, 3_600))
    await asyncio.sleep(0)
    event.set()
    waiting.cancel()
    await asyncio.wait((waiting,))
    assert waiting.cancelled()


async def test_attempts_go_on_until_one_succeeds_or_none_may_or_the_time_is_up() -> None:
    failures: list[CometMQError] = []

    async def attempt() -> int:
        if len(failures) < 2:
            failures.append(NetworkError(str(len(failures))))
            raise failures[-1]
        return 7

    async def may_succeed(error: CometMQError) -> bool:
        return error is failures[-1] and len(failures) <= hope

    hope = 2
    assert await retry_while(may_succeed, attempt, None) == 7
    failures.clear()
    with pytest.raises(NetworkError, match="0"):
        await retry_while(may_succeed, attempt, 0)
    failures.clear()
    hope = 1
    with pytest.raises(NetworkError, match="1"):
        await retry_while(may_succeed, attempt, None)
