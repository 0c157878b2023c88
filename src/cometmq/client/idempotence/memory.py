"""Marks in memory, for tests and where a duplicate after a restart does no harm."""

from typing import Final

from cometmq.cluster.claims import Claimed, ClaimState, Mark, claim
from cometmq.io.clock import Clock, SystemClock

KEYS_MAX: Final = 100_000


class MemoryClaims:
    """Keeps the marks of one process.

    Args:
        limit: of the number of keys; above it the keys that have been done longest are evicted.
        clock: measures leases and marks by its monotonic time.
    """

    def __init__(self, limit: int = KEYS_MAX, *, clock: Clock | None = None) -> None:
        self._limit = limit
        self._now_ms = (clock or SystemClock()).monotonic_ms
        self._marks: dict[str, Mark] = {}
        """In the order of their last change."""

    def __len__(self) -> int:
        return len(self._marks)

    async def claim(self, key: str, lease_ms: int) -> Claimed:
        """Claim a key."""
        now_ms = self._now_ms()
        claimed = claim(self._marks.get(key), now_ms, lease_ms)
        if claimed.ours:
            self._put(key, claimed.mark)
            self._evict(now_ms)
        return claimed

    async def finish(self, key: str, keep_ms: int) -> None:
        """Mark a key as done."""
        self._put(key, Mark(ClaimState.DONE, self._now_ms() + keep_ms))

    async def renew(self, key: str, mark: Mark, lease_ms: int) -> Mark | None:
        """Extend a claim, if its mark is still there; return its new mark."""
        if self._marks.get(key) != mark:
            return None
        renewed = mark._replace(until_ms=self._now_ms() + lease_ms)
        self._put(key, renewed)
        return renewed

    async def release(self, key: str, mark: Mark) -> None:
        """Remove the mark of a claim, if it is still there."""
        if self._marks.get(key) == mark:
            del self._marks[key]

    def close(self) -> None:
        """Delete all marks."""
        self._marks.clear()

    def _put(self, key: str, mark: Mark) -> None:
        self._marks.pop(key, None)
        self._marks[key] = mark

    def _evict(self, now_ms: int) -> None:
        """Delete one mark above the limit; keys in progress stay, as their messages are being handled."""
        if len(self._marks) <= self._limit:
            return
        for key, mark in self._marks.items():
            if mark.state is ClaimState.DONE or not mark.counts(now_ms):
                del self._marks[key]
                return
