"""Tasks that belong together: when one ends or fails, the others have no reason to go on."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

ItemT = TypeVar("ItemT")
AnswerT = TypeVar("AnswerT")


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


async def bounded_map(
    ask: Callable[[ItemT], Awaitable[AnswerT]], items: Iterable[ItemT], limit: int
) -> list[AnswerT]:
    """Call ``ask`` with each item; return the answers in the same order.

    The first error is raised, and cancels the other calls.

    Args:
        limit: most calls under way at a time.
    """
    places = list(enumerate(items))
    answers: dict[int, AnswerT] = {}
    left = iter(places)

    async def work() -> None:
        for place, item in left:
            answers[place] = await ask(item)

    workers = [asyncio.create_task(work()) for _ in places[:limit]]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return [answers[place] for place, _ in places]
