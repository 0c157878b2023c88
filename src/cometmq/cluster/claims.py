"""Claims: which process handles the message of a key, and whether it has been handled.

Theory of operation: a key without a mark is free. A process that wants to handle its message *claims* it,
which sets a mark **in progress** with the end of a lease; when the message is handled, the mark becomes
**done**, with the end of the time for which that is kept. A mark whose time is over is **expired** and counts
as no mark. So a key that a dead process claimed is free again after its lease, and done marks are forgotten.
While its message is being handled, a claim is *renewed*, so a lease may be shorter than a handler runs.

A claim is released only if its mark is still the one that it set: the lease may have expired, and another
process may have claimed the key. No token is needed for that, as a lease that follows an expired one ends
later: each store measures time by a clock of its own that nobody sets back.

Pure: no clock, no storage; marks and times are arguments.
"""

from enum import IntEnum
from typing import NamedTuple


class ClaimState(IntEnum):
    """The state of a mark; stores hold these numbers."""

    IN_PROGRESS = 0
    DONE = 1


class Mark(NamedTuple):
    """The mark of a key: its state, and when it expires, in ms on the clock of its store."""

    state: ClaimState
    until_ms: int

    def counts(self, now_ms: int) -> bool:
        """Return whether the mark has not expired."""
        return now_ms < self.until_ms


class Claimed(NamedTuple):
    """The result of a claim.

    Attributes:
        ours: whether the claim succeeded, so that the claimant may handle the message.
        mark: the key's mark now: the new one, or the one that prevented the claim.
        left_ms: how long from now until that mark expires.
    """

    ours: bool
    mark: Mark
    left_ms: int


def claim(found: Mark | None, now_ms: int, lease_ms: int) -> Claimed:
    """Claim a key whose present mark is ``found``."""
    if found is not None and found.counts(now_ms):
        return Claimed(False, found, found.until_ms - now_ms)
    return Claimed(True, Mark(ClaimState.IN_PROGRESS, now_ms + lease_ms), lease_ms)


def is_done(found: Mark | None, now_ms: int) -> bool:
    """Check whether the message of a key with this mark has been handled."""
    return found is not None and found.state is ClaimState.DONE and found.counts(now_ms)
