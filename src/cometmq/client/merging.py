"""Several iterations as one, in their common order."""

import heapq
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Final, TypeVar

from cometmq.net.tasks import bounded_map

ItemT = TypeVar("ItemT")

BEGUN_AT_ONCE: Final = 64
"""Most iterations that wait for their first item at a time."""


async def merged(
    walks: Sequence[AsyncGenerator[ItemT]], order: Callable[[ItemT], Any]
) -> AsyncGenerator[ItemT]:
    """Iterate over the items of several iterations, each of which is in ``order``, in that order.

    No more than the next item of each is held. All are closed at the end.
    """

    async def following(place: int) -> ItemT | None:
        return await anext(walks[place], None)

    try:
        firsts = await bounded_map(following, range(len(walks)), BEGUN_AT_ONCE)
        waiting = [(order(item), place, item) for place, item in enumerate(firsts) if item is not None]
        heapq.heapify(waiting)
        while waiting:
            _, place, item = waiting[0]
            yield item
            if (after := await following(place)) is None:
                heapq.heappop(waiting)
            else:
                heapq.heapreplace(waiting, (order(after), place, after))
    finally:
        for walk in walks:
            await walk.aclose()
