"""Claims: who handles the message of a key, and whether it has been handled.

Theory of operation: a key without a mark is free. Whoever wants to handle its message *claims* it, which
leaves a mark **in progress** with the end of a lease; when the message is handled, the mark becomes **done**,
with the end of the time for which that is remembered. A mark whose time is over is **expired**: it counts as
none. So a key that a dead process claimed is free again after its lease, and what is done is forgotten.
While its message is being handled, a claim is *renewed*: so a lease may be shorter than a handler takes.

A claim is given back only if its mark is still the one that it left: the lease may have expired, and the key
be somebody else's. No token is needed for that, as a lease that follows an expired one ends later.

Pure: no clock, no store; marks and times come in.
"""

from enum import IntEnum
from typing import NamedTuple


class State(IntEnum):
    """What a mark says; the numbers are what stores hold."""

    IN_PROGRESS = 0
    DONE = 1


class Mark(NamedTuple):
    """What is known of a key, and until when it counts, ms since the epoch."""

    state: State
    until_ms: int

    def counts(self, now_ms: int) -> bool:
        """Tell whether it has not expired."""
        return now_ms < self.until_ms


class Claimed(NamedTuple):
    """The answer to a claim.

    Attributes:
        ours: whether the one who asked may handle the message now.
        mark: the one that is there now: the new one, or the one that is in the way.
    """

    ours: bool
    mark: Mark


def claim(found: Mark | None, now_ms: int, lease_ms: int) -> Claimed:
    """Claim a key whose mark is ``found``."""
    if found is not None and found.counts(now_ms):
        return Claimed(False, found)
    return Claimed(True, Mark(State.IN_PROGRESS, now_ms + lease_ms))


def is_done(found: Mark | None, now_ms: int) -> bool:
    """Tell whether the message of a key with this mark has been handled."""
    return found is not None and found.state is State.DONE and found.counts(now_ms)
