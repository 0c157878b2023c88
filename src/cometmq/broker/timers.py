"""Actions that the loop calls: at intervals, or when one is due."""

import asyncio
from collections.abc import Callable
from typing import Final

AGAIN_MS: Final = 1_000


class Alarm:
    """Calls an action when it is due or ``ring`` is called; otherwise nothing runs.

    Args:
        action: returns after how many ms to call it again, None for not before the next ``ring``. If it
            raises, the loop reports that, and it is called again after AGAIN_MS.
    """

    def __init__(self, action: Callable[[], int | None]) -> None:
        self._action = action
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle | None = None
        self._is_rung = False
        self._stopped = False

    def ring(self) -> None:
        """Call the action once in the loop's next turn, however often this is called before."""
        if self._is_rung or self._stopped:
            return
        self._cancel()
        self._is_rung = True
        self._timer = self._loop.call_soon(self._act)

    def stop(self) -> None:
        """Call nothing any more."""
        self._stopped = True
        self._cancel()

    def _act(self) -> None:
        self._is_rung, self._timer = False, None
        after_ms: int | None = AGAIN_MS
        try:
            after_ms = self._action()
        finally:
            if after_ms is not None and not self._is_rung and not self._stopped:
                self._timer = self._loop.call_later(after_ms / 1000, self._act)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


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
