"""Why a store accepts no messages now.

The reasons are set by the parts of the store that find them, when they fail and when they recover, so that an
append reads one attribute.
"""

import threading
from enum import IntEnum

from cometmq.errors import StoreNotWritable


class Cause(IntEnum):
    """A cause to refuse messages; of several the first one is named."""

    CLOSED = 0
    """The store is closed."""
    SYNC = 1
    """A sync of the CommitLog failed: for good."""
    COMMIT = 2
    """The last commit of the transient store pool failed."""
    DERIVED_FILES = 3
    """The last write of ConsumeQueues or Index failed."""
    DISK_SPACE = 4
    """A disk is too full."""
    SLAVE = 5
    """The broker is a slave: only its master's records are appended."""


class Refusals:
    """The reasons why a store accepts no messages. For any thread.

    Attributes:
        first: the error that appends raise; None while messages are accepted.
    """

    def __init__(self) -> None:
        self.first: StoreNotWritable | None = None
        self._errors: dict[Cause, StoreNotWritable] = {}
        self._lock = threading.Lock()

    def set(self, cause: Cause, error: StoreNotWritable | None) -> None:
        """Set the error of a cause, or remove it: None."""
        with self._lock:
            errors = self._errors.copy()  # others read it without the lock
            errors.pop(cause, None)
            if error is not None:
                errors[cause] = error
            self._errors = errors
            self.first = errors[min(errors)] if errors else None

    @property
    def of_disk(self) -> StoreNotWritable | None:
        """The error for records of a master, which a slave appends; None while they are accepted."""
        return None if self.first is self._errors.get(Cause.SLAVE) else self.first

    def of(self, cause: Cause) -> StoreNotWritable | None:
        """Return the error of a cause, or None."""
        return self._errors.get(cause)
