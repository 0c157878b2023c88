"""Waiting for the disk without holding up the loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future


class DiskWait:
    """Calls ``done`` once, in the loop that made it, when a sync is over or has taken too long.

    Args:
        synced: done when the sync is; fails if it did.
        timeout_ms: how long to wait.
        done: gets None if the bytes are on the disk, else why that is not sure.
    """

    def __init__(self, synced: "Future[None]", timeout_ms: int, done: Callable[[str | None], None]) -> None:
        self._done = done
        self._over = False
        self._loop = asyncio.get_running_loop()
        late = f"stored, but not yet on the disk after {timeout_ms} ms (syncFlushTimeout)"
        self._timer = self._loop.call_later(timeout_ms / 1000, self._finish, late)
        synced.add_done_callback(self._in_flusher)

    def _in_flusher(self, synced: "Future[None]") -> None:
        error = synced.exception()
        self._loop.call_soon_threadsafe(self._finish, None if error is None else str(error))

    def _finish(self, unsafe: str | None) -> None:
        if not self._over:
            self._over = True
            self._timer.cancel()
            self._done(unsafe)
