"""Waiting for an event, or for servers that come later, but not for ever unless that is wanted."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

from cometmq.errors import CometMQError

ASK_AGAIN_S: Final = 0.5
"""How soon servers are asked again that were not there."""

AnswerT = TypeVar("AnswerT")


async def wait_within(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, at most so long.

    Not by ``asyncio.wait_for``: before Python 3.12 that loses a cancellation which comes with the event.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


async def ask_until_answered(
    ask: Callable[[], Awaitable[AnswerT]],
    may_come: Callable[[CometMQError], Awaitable[bool]],
    timeout_ms: int | None,
) -> AnswerT:
    """Ask again and again while what is missing may come, and return the answer.

    Args:
        may_come: decides by the error whether asking again may help.
        timeout_ms: after so long no new attempt is made; None for no end.

    Raises what the last attempt raised.
    """
    now = asyncio.get_running_loop().time
    end = math.inf if timeout_ms is None else now() + timeout_ms / 1000
    while True:
        try:
            return await ask()
        except CometMQError as error:
            if now() >= end or not await may_come(error):
                raise
        await asyncio.sleep(min(ASK_AGAIN_S, max(end - now(), 0)))
