"""A semaphore for one event loop, at a quarter of the cost of ``asyncio.Semaphore`` while places are free."""

import asyncio
from collections import deque


class LightSemaphore:
    """Limits how many tasks do something at a time; tasks that wait enter in order.

    ::

        if not semaphore.try_acquire():
            await semaphore.wait_and_acquire()
        try:
            ...
        finally:
            semaphore.release()
    """

    def __init__(self, size: int) -> None:
        self._free = size
        self._waiting: deque[asyncio.Future[None]] = deque()

    def try_acquire(self) -> bool:
        """Acquire a place if one is free, without waiting; return whether that was so."""
        if self._free == 0:
            return False
        self._free -= 1
        return True

    async def wait_and_acquire(self) -> None:
        """Wait for a place and acquire it."""
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():  # it was acquired in the same turn of the loop
                self.release()
            raise

    def release(self) -> None:
        """Release a place to the task that has waited longest, or as a free one."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():  # else the waiting task was cancelled
                place.set_result(None)
                return
        self._free += 1
