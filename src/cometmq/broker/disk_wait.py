"""Responses that wait for the disk, without blocking the loop.

Under SYNC_FLUSH one sync releases all responses that wait for its bytes: the store calls back in the loop
when a sync is over, and a waiting response costs nothing until then.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from cometmq.store.store import MessageStore

Done = Callable[[str | None], None]
"""Called with None once the bytes are on the disk, else with the reason why that is not sure."""


class _DiskWait(NamedTuple):
    """A response that waits until the log up to ``offset`` is on the disk."""

    offset: int
    deadline_s: float
    sends: int
    done: Done


class DiskWaits:
    """The responses that wait for the disk, oldest first.

    Args:
        store: one that was opened with ``run_soon``; its ``on_synced`` is set here.

    Attributes:
        count: the number of sends that wait.
    """

    def __init__(self, store: MessageStore) -> None:
        self.count = 0
        self._store = store
        self._timeout_ms = store.settings.sync_flush_timeout
        self._waiting: deque[_DiskWait] = deque()
        self._timer: asyncio.TimerHandle | None = None
        store.on_synced = self._release

    def add(self, done: Done, count: int = 1) -> None:
        """Call ``done`` once the bytes written by now are on the disk or time out; ``count`` sends wait."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._timeout_ms / 1000
        self.count += count
        self._waiting.append(_DiskWait(self._store.written_offset, deadline_s, count, done))
        if self._timer is None:
            self._timer = loop.call_at(deadline_s, self._expire)
        if self._waiting[0].offset <= self._store.flushed_offset:
            self._release()

    def _release(self) -> None:
        """Call ``done`` of those whose bytes are on the disk; of all if syncs have failed for good."""
        flushed_offset, failed = self._store.flushed_offset, self._store.flusher.failed
        while self._waiting and (self._waiting[0].offset <= flushed_offset or failed):
            waiting = self._next()
            waiting.done(None if waiting.offset <= flushed_offset else str(failed))

    def _expire(self) -> None:
        """Call ``done`` of those that have timed out, and set the timer for the next one."""
        loop = asyncio.get_running_loop()
        late = f"stored, but not yet on the disk after {self._timeout_ms} ms (syncFlushTimeout)"
        while self._waiting and self._waiting[0].deadline_s <= loop.time():
            self._next().done(late)
        next_s = self._waiting[0].deadline_s if self._waiting else None
        self._timer = None if next_s is None else loop.call_at(next_s, self._expire)

    def _next(self) -> _DiskWait:
        """Remove and return the one that has waited longest."""
        waiting = self._waiting.popleft()
        self.count -= waiting.sends
        return waiting
