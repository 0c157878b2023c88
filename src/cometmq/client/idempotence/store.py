"""What a deduplicator needs of a store: one in a shared database, for example, is these few methods."""

from typing import Protocol

from cometmq.cluster.claims import Claimed, Mark


class ClaimStore(Protocol):
    """Keeps marks by key. What becomes of a mark is said in ``cluster.claims``; each method is atomic."""

    async def claim(self, key: str, now_ms: int, lease_ms: int) -> Claimed:
        """Claim a key, as ``cluster.claims.claim`` says."""
        ...

    async def finish(self, key: str, until_ms: int) -> None:
        """Mark a key as done, whatever its mark: its message has been handled."""
        ...

    async def renew(self, key: str, mark: Mark, until_ms: int) -> bool:
        """Let a claim last until ``until_ms``, if its mark is still there; tell whether it was."""
        ...

    async def release(self, key: str, mark: Mark) -> None:
        """Take the mark of a claim away, if it is still there."""
        ...

    def close(self) -> None:
        """Let go of what it holds."""
        ...
