"""Responses that wait for the disk or for slaves, without blocking the loop.

Under SYNC_FLUSH one sync releases all responses that wait for its bytes: the store calls back in the loop
when a sync is over, and a waiting response costs nothing until then. An acknowledgement of a slave does the
same for those that wait for slaves.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from cometmq.replication.acks import AcksOfSlaves
from cometmq.store.store import MessageStore

Done = Callable[[str | None], None]
"""Called with None once the bytes are where they must be, else with the reason why that is not sure."""


class _OffsetWait(NamedTuple):
    """A response that waits until the log up to ``offset`` is where it must be."""

    offset: int
    deadline_s: float
    sends: int
    done: Done


class OffsetWaits:
    """Responses that wait until the log is somewhere up to an offset, oldest first.

    Args:
        reached_offset: returns the offset up to which the log is there.
        timeout_ms: how long a response waits at most.
        late: the reason for those that have waited so long.
        failed: returns why nobody needs to wait any more; None as long as there is no such reason.

    Attributes:
        count: the number of sends that wait.
    """

    def __init__(
        self,
        store: MessageStore,
        reached_offset: Callable[[], int],
        timeout_ms: int,
        late: str,
        failed: Callable[[], object] = lambda: None,
    ) -> None:
        self.count = 0
        self._store = store
        self._reached_offset = reached_offset
        self._timeout_ms = timeout_ms
        self._late = late
        self._failed = failed
        self._waiting: deque[_OffsetWait] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, done: Done, count: int = 1) -> None:
        """Call ``done`` once the bytes written by now are there or time out; ``count`` sends wait."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._timeout_ms / 1000
        self.count += count
        self._waiting.append(_OffsetWait(self._store.written_offset, deadline_s, count, done))
        if self._timer is None:
            self._timer = loop.call_at(deadline_s, self._expire)
        if self._waiting[0].offset <= self._reached_offset():
            self.release()

    def release(self) -> None:
        """Call ``done`` of those whose bytes are there; of all if waiting is of no use any more."""
        if not self._waiting:
            return
        reached_offset, failed = self._reached_offset(), self._failed()
        while self._waiting and (self._waiting[0].offset <= reached_offset or failed):
            waiting = self._next()
            waiting.done(None if waiting.offset <= reached_offset else str(failed))

    def _expire(self) -> None:
        """Call ``done`` of those that have timed out, and set the timer for the next one."""
        loop = asyncio.get_running_loop()
        while self._waiting and self._waiting[0].deadline_s <= loop.time():
            self._next().done(self._late)
        next_s = self._waiting[0].deadline_s if self._waiting else None
        self._timer = None if next_s is None else loop.call_at(next_s, self._expire)

    def _next(self) -> _OffsetWait:
        """Remove and return the one that has waited longest."""
        waiting = self._waiting.popleft()
        self.count -= waiting.sends
        return waiting


class DiskWaits(OffsetWaits):
    """Responses that wait for the disk.

    Args:
        store: one that was opened with ``run_soon``; its ``on_synced`` calls this.
    """

    def __init__(self, store: MessageStore) -> None:
        timeout_ms = store.settings.sync_flush_timeout
        late = f"stored, but not yet on the disk after {timeout_ms} ms (syncFlushTimeout)"
        flusher = store.flusher
        super().__init__(store, lambda: flusher.flushed_offset, timeout_ms, late, lambda: flusher.failed)
        store.on_synced.append(self.release)


class SlaveWaits(OffsetWaits):
    """Responses that wait for acknowledgements of slaves; the ``on_change`` of ``acks`` is set here."""

    def __init__(self, store: MessageStore, acks: AcksOfSlaves, timeout_ms: int) -> None:
        late = f"stored, but not yet at enough slaves after {timeout_ms} ms (slaveTimeout)"
        super().__init__(store, lambda: acks.replicated_offset, timeout_ms, late)
        acks.on_change.append(self.release)
