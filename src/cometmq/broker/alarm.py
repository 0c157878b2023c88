"""An action that is called when its time comes, or earlier when it is rung."""

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
