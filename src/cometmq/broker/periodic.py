"""Functions that the loop calls at intervals."""

import asyncio
from collections.abc import Callable


class Periodic:
    """Calls functions at intervals; the loop reports one that raises, and it is called again all the same."""

    def __init__(self) -> None:
        self._timers: dict[Callable[[], int | None], asyncio.TimerHandle] = {}

    def every(self, interval_ms: int, action: Callable[[], int | None]) -> None:
        """Call ``action`` every ``interval_ms``; if it returns another interval, the next time after that."""

        def fire() -> None:
            next_ms = interval_ms
            try:
                next_ms = action() or interval_ms
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
