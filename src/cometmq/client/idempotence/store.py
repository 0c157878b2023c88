"""The methods of a store of claims, such as one in a shared database."""

from typing import Protocol

from cometmq.cluster.claims import Claimed, Mark


class ClaimStore(Protocol):
    """Keeps marks by key, as :mod:`cometmq.cluster.claims` defines them; each method is atomic.

    Times are durations, measured by the store's clock. It must be the same for all processes that share the
    keys, and should be one that nobody sets.
    """

    async def claim(self, key: str, lease_ms: int) -> Claimed:
        """Claim a key, as ``cluster.claims.claim`` does."""
        ...

    async def finish(self, key: str, keep_ms: int) -> None:
        """Mark a key as done, whatever its mark."""
        ...

    async def renew(self, key: str, mark: Mark, lease_ms: int) -> Mark | None:
        """Extend a claim to ``lease_ms`` from now; return its new mark, or None if the old one is gone."""
        ...

    async def release(self, key: str, mark: Mark) -> None:
        """Remove the mark of a claim, if it is still there."""
        ...

    def close(self) -> None:
        """Close files and connections."""
        ...
