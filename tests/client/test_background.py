"""Background tasks that fail say so, even if nobody waits for them."""

import asyncio

import pytest

from cometmq.client.background import start_task


async def test_a_failed_task_is_logged_and_a_cancelled_one_is_not(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    async def wait() -> None:
        await asyncio.Event().wait()

    failing, waiting = start_task(fail(), "heartbeat of me"), start_task(wait(), "commits")
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(ZeroDivisionError):
        await failing
    await asyncio.gather(waiting, return_exceptions=True)
    (logged,) = caplog.records
    assert logged.getMessage() == "the heartbeat of me has failed and stands still from now on"
