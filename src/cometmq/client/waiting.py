"""Waiting for an event, but not for ever."""

import asyncio
from contextlib import suppress


async def wait_within(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, at most so long.

    Not by ``asyncio.wait_for``: before Python 3.12 that loses a cancellation which comes with the event.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
