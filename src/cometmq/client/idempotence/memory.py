"""Marks in memory: for tests, and where a duplicate after a restart does no harm."""

from typing import Final

from cometmq.cluster.claims import Claimed, ClaimState, Mark, claim

KEYS_MAX: Final = 100_000


class MemoryClaims:
    """Keeps the marks of one process.

    Args:
        limit: of how many keys; above it those are forgotten that have been done for the longest time.
    """

    def __init__(self, limit: int = KEYS_MAX) -> None:
        self._limit = limit
        self._marks: dict[str, Mark] = {}
        """The longest untouched first."""

    def __len__(self) -> int:
        return len(self._marks)

    async def claim(self, key: str, now_ms: int, lease_ms: int) -> Claimed:
        """Claim a key."""
        claimed = claim(self._marks.get(key), now_ms, lease_ms)
        if claimed.ours:
            self._put(key, claimed.mark)
            self._forget(now_ms)
        return claimed

    async def finish(self, key: str, until_ms: int) -> None:
        """Mark a key as done."""
        self._put(key, Mark(ClaimState.DONE, until_ms))

    async def renew(self, key: str, mark: Mark, until_ms: int) -> bool:
        """Let a claim last longer, if its mark is still there."""
        is_there = self._marks.get(key) == mark
        if is_there:
            self._put(key, mark._replace(until_ms=until_ms))
        return is_there

    async def release(self, key: str, mark: Mark) -> None:
        """Take the mark of a claim away, if it is still there."""
        if self._marks.get(key) == mark:
            del self._marks[key]

    def close(self) -> None:
        """Forget all."""
        self._marks.clear()

    def _put(self, key: str, mark: Mark) -> None:
        self._marks.pop(key, None)
        self._marks[key] = mark

    def _forget(self, now_ms: int) -> None:
        """Make room for a key that came: what is in progress stays, as its message is being handled."""
        if len(self._marks) <= self._limit:
            return
        for key, mark in self._marks.items():
            if mark.state is ClaimState.DONE or not mark.counts(now_ms):
                del self._marks[key]
                return
