"""How the methods of an embedded broker wait."""

import asyncio
from collections.abc import Callable
from typing import Final

LOOK_AGAIN_S: Final = (0.005, 0.1)
"""Pauses between checks of a waiting method, in seconds: the first and the longest."""


async def until(
    is_so: Callable[[], bool], timeout_s: float, before_again: Callable[[], object] = lambda: None
) -> bool:
    """Wait until a condition is true; return whether it is."""
    pause_s, pause_s_max = LOOK_AGAIN_S
    try:
        async with asyncio.timeout(timeout_s):
            while not is_so():
                before_again()
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, pause_s_max)
    except TimeoutError:
        return is_so()
    return True


def refuse_in_loop(name: str) -> None:
    """Raise RuntimeError if called in an event loop, which the method would block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"{name} would block this event loop: await asyncio.to_thread(rocketmq.{name}, …)")
