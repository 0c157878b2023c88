"""Tasks that belong together: when one ends, the others have no reason to go on."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def until_one_ends(*work: Coroutine[Any, Any, None]) -> None:
    """Run all at once until one ends, or this is cancelled; then cancel the others, and wait for them.

    Raises what the first one of them raises that fails.
    """
    tasks = [asyncio.create_task(one) for one in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result
