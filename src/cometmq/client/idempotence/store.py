"""What a deduplicator needs of a store: one in a shared database, for example, is these few methods."""

from typing import Protocol

from cometmq.cluster.claims import Claimed, Mark


class ClaimStore(Protocol):
    """Keeps marks by key. What becomes of a mark is said in ``cluster.claims``; each method is atomic.

    Times are durations: by which clock they are measured is the store's own matter. It must be one clock for
    all who share the keys, and should be one that nobody sets.
    """

    async def claim(self, key: str, lease_ms: int) -> Claimed:
        """Claim a key, as ``cluster.claims.claim`` says."""
        ...

    async def finish(self, key: str, keep_ms: int) -> None:
        """Mark a key as done, whatever its mark: its message has been handled."""
        ...

    async def renew(self, key: str, mark: Mark, lease_ms: int) -> Mark | None:
        """Extend a claim to ``lease_ms`` from now; return its new mark, or None if the old one is gone."""
        ...

    async def release(self, key: str, mark: Mark) -> None:
        """Remove the mark of a claim, if it is still there."""
        ...

    def close(self) -> None:
        """Release what it holds."""
        ...
