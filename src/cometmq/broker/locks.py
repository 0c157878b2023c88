"""Queue locks of orderly consumers: one client of a group may consume a queue at a time.

In memory only: a client takes its locks anew every 20 s. (RocketMQ: RebalanceLockManager.java.)
"""

from collections.abc import Iterable
from typing import NamedTuple

from cometmq.io.clock import Clock
from cometmq.message import MessageQueue

LOCK_LIFETIME_MS = 60_000
"""A lock that its owner has not taken again for so long is free."""


class _Lock(NamedTuple):
    client_id: str
    taken_ms: int


class QueueLocks:
    """Who holds which queue, by consumer group."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Lock or re-lock each of ``queues`` that is free, expired or the client's own; give these."""
        now = self._clock.monotonic_ms()
        locks = self._groups.setdefault(group, {})
        granted = [queue for queue in queues if self._free(locks.get(queue), client_id, now)]
        locks.update((queue, _Lock(client_id, now)) for queue in granted)
        return granted

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Free each of ``queues`` that the client holds."""
        locks = self._groups.get(group, {})
        for queue in queues:
            if queue in locks and locks[queue].client_id == client_id:
                del locks[queue]
        if not locks:
            self._groups.pop(group, None)

    def is_orderly(self, group: str) -> bool:
        """Tell whether any client of ``group`` holds a live lock: it consumes in order then."""
        now = self._clock.monotonic_ms()
        return any(not self._expired(lock, now) for lock in self._groups.get(group, {}).values())

    def _free(self, lock: _Lock | None, client_id: str, now: int) -> bool:
        return lock is None or lock.client_id == client_id or self._expired(lock, now)

    @staticmethod
    def _expired(lock: _Lock, now: int) -> bool:
        return now - lock.taken_ms > LOCK_LIFETIME_MS
