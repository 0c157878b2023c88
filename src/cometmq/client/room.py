"""A bound on what is under way: like ``asyncio.Semaphore``, at a quarter of its cost while there is room."""

import asyncio
from collections import deque


class Room:
    """Room for some things at a time. Who finds none waits, and those who wait come in by their turns.

    ::

        if not room.take():
            await room.taken()
        try:
            ...
        finally:
            room.leave()
    """

    def __init__(self, size: int) -> None:
        self._free = size
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Take a place, if one is free that nobody waits for."""
        if self._free == 0:
            return False
        self._free -= 1
        return True

    async def taken(self) -> None:
        """Wait for a place, and take it."""
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():  # it was given in the same turn of the loop
                self.leave()
            raise

    def leave(self) -> None:
        """Give a place to who has waited longest for one, if anybody does."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():  # else who waited was cancelled
                place.set_result(None)
                return
        self._free += 1
