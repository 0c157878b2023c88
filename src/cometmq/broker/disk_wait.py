"""Answers that wait for the disk, without holding up the loop.

Under SYNC_FLUSH one sync answers all who wait for what it brought to the disk: the store says in the loop
that a sync is over, and nothing is done per waiting answer until then.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from cometmq.store.store import MessageStore

Done = Callable[[str | None], None]


class _DiskWait(NamedTuple):
    """One who waits."""

    offset: int
    deadline_s: float
    sends: int
    done: Done


class DiskWaits:
    """Who waits for the disk, oldest first.

    Args:
        store: one that was opened with ``run_soon``; its ``on_synced`` is taken.

    Attributes:
        count: how many sends wait.
    """

    def __init__(self, store: MessageStore) -> None:
        self.count = 0
        self._store = store
        self._timeout_ms = store.settings.sync_flush_timeout
        self._waiting: deque[_DiskWait] = deque()
        self._timer: asyncio.TimerHandle | None = None
        store.on_synced = self._release

    def add(self, done: Done, count: int = 1) -> None:
        """Call ``done``, for ``count`` sends, once all that is written now is on the disk, or takes too long.

        It gets None if the bytes are on the disk, else why that is not sure.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._timeout_ms / 1000
        self.count += count
        self._waiting.append(_DiskWait(self._store.written_offset, deadline_s, count, done))
        if self._timer is None:
            self._timer = loop.call_at(deadline_s, self._expire)
        if self._waiting[0].offset <= self._store.flushed_offset:
            self._release()

    def _release(self) -> None:
        """Answer those whose bytes are on the disk; all, if no sync will come any more."""
        flushed_offset, failed = self._store.flushed_offset, self._store.flusher.failed
        while self._waiting and (self._waiting[0].offset <= flushed_offset or failed):
            waiting = self._next()
            waiting.done(None if waiting.offset <= flushed_offset else str(failed))

    def _expire(self) -> None:
        """Answer those who have waited too long; look again when the next one has."""
        loop = asyncio.get_running_loop()
        late = f"stored, but not yet on the disk after {self._timeout_ms} ms (syncFlushTimeout)"
        while self._waiting and self._waiting[0].deadline_s <= loop.time():
            self._next().done(late)
        next_s = self._waiting[0].deadline_s if self._waiting else None
        self._timer = None if next_s is None else loop.call_at(next_s, self._expire)

    def _next(self) -> _DiskWait:
        """Take the one that has waited longest."""
        waiting = self._waiting.popleft()
        self.count -= waiting.sends
        return waiting
