"""Things that the loop does again and again."""

import asyncio
from collections.abc import Callable


class Periodic:
    """Calls functions at intervals; one that raises is reported by the loop and called again all the same."""

    def __init__(self) -> None:
        self._timers: dict[Callable[[], int], asyncio.TimerHandle] = {}

    def every(self, interval_ms: int, action: Callable[[], None]) -> None:
        """Call ``action`` each ``interval_ms`` from now on."""

        def act() -> int:
            action()
            return interval_ms

        self.follow(interval_ms, act)

    def follow(self, interval_ms: int, action: Callable[[], int]) -> None:
        """Call ``action`` after ``interval_ms``, and again and again after as many ms as it says."""

        def fire() -> None:
            next_ms = interval_ms
            try:
                next_ms = action()
            finally:
                if action in self._timers:
                    self._timers[action] = loop.call_later(next_ms / 1000, fire)

        loop = asyncio.get_running_loop()
        self._timers[action] = loop.call_later(interval_ms / 1000, fire)

    def stop(self) -> None:
        """Call nothing any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
