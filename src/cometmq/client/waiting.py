"""Wait for an event or for servers that are not there yet, with a timeout."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

from cometmq.errors import CometMQError

RETRY_INTERVAL_S: Final = 0.5

ResultT = TypeVar("ResultT")


async def wait_within(event: asyncio.Event, timeout_s: float) -> None:
    """Wait for an event until a timeout.

    Not by ``asyncio.wait_for``: before Python 3.12 that loses a cancellation which comes with the event.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()


async def retry_while(
    may_succeed: Callable[[CometMQError], Awaitable[bool]],
    attempt: Callable[[], Awaitable[ResultT]],
    timeout_ms: int | None,
) -> ResultT:
    """Call ``attempt`` until it succeeds, while ``may_succeed`` says so of its error; return the result.

    Args:
        timeout_ms: after it no new attempt is made; None for no limit.

    Raises what the last attempt raised.
    """
    now = asyncio.get_running_loop().time
    end = math.inf if timeout_ms is None else now() + timeout_ms / 1000
    while True:
        try:
            return await attempt()
        except CometMQError as error:
            if now() >= end or not await may_succeed(error):
                raise
        await asyncio.sleep(min(RETRY_INTERVAL_S, max(end - now(), 0)))
