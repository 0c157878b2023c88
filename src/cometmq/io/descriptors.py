"""File descriptors: how many there are for what, and some that are kept back for files.

A process has a limited number of them (``ulimit -n``), and whoever connects takes one. Yet a store must be
able to open files for as long as it serves, or what it acknowledged does not reach the disk. So the number is
shared out::

    all that the process may have   ├── files ──┼── connections ──┼─ reserve ─┤

The reserve is for what belongs to neither: sockets that listen, directories while they are synced, files that
threads read. Where even that is used up, as by other parts of a program that embeds a broker, ``SPARES.open``
gives up one of a few spare descriptors, which were opened in time.
"""

import errno
import os
import resource
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final

FILES_MAX: Final = 8_192
"""So many files are kept open at most: each takes a kilobyte of memory, and more once it is mapped."""
RESERVE_MIN: Final = 48
CONNECTIONS_MIN: Final = 16
UNLIMITED: Final = 1 << 20
"""What a process without a limit counts as."""
SPARE_COUNT: Final = 8

NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE})
SCARCE: Final = NO_DESCRIPTOR | {errno.ENOMEM, errno.EINTR, errno.EAGAIN}
"""Errors of a system that has too little of something now: the same call may succeed soon."""


class SyncFailed(OSError):
    """A sync that began and failed: what it was to bring to the disk may be lost, whatever ``errno`` says."""


def is_scarce(error: OSError) -> bool:
    """Return whether an operation did nothing, for want of something that the system may have soon."""
    return error.errno in SCARCE and not isinstance(error, SyncFailed)


def limit() -> int:
    """Return how many descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNLIMITED if soft == resource.RLIM_INFINITY else soft


def raise_limit() -> None:
    """Allow this process as many descriptors as the system lets it have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # refused where the hard limit is above the kernel's own
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def files_max(limit: int) -> int:
    """Return how many files may be kept open, of so many descriptors."""
    return min(limit // 2, FILES_MAX)


def connections_max(limit: int) -> int:
    """Return how many connections may be accepted, of so many descriptors."""
    return max(limit - files_max(limit) - max(limit // 16, RESERVE_MIN), CONNECTIONS_MIN)


class SpareDescriptors:
    """Descriptors of nothing, given up for files when the process has no others. Safe from any thread."""

    def __init__(self, count: int = SPARE_COUNT) -> None:
        self._count = count
        self._spares: list[int] = []
        self._lock = Lock()

    def open(self, path: Path | str, flags: int, mode: int = 0o644) -> int:
        """Open a file. Raises OSError."""
        self.refill()
        while True:
            try:
                return os.open(path, flags | os.O_CLOEXEC, mode)
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR or not self._give_up_one():
                    raise

    def close(self, fd: int) -> None:
        """Close a file; what it leaves is kept if spare descriptors are missing."""
        os.close(fd)
        self.refill()

    def refill(self) -> None:
        """Open as many spare descriptors as are missing and can be had."""
        if len(self._spares) >= self._count:
            return
        with self._lock, suppress(OSError):
            while len(self._spares) < self._count:
                self._spares.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def close_all(self) -> None:
        """Close the spare descriptors."""
        with self._lock:
            while self._spares:
                os.close(self._spares.pop())

    def _give_up_one(self) -> bool:
        with self._lock:
            if not self._spares:
                return False
            os.close(self._spares.pop())
            return True


SPARES: Final = SpareDescriptors()
"""Those of this process."""
