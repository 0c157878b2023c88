"""File descriptors: their division among files and connections, and some spare ones for files.

A process has a limited number of them (``ulimit -n``), and each connection takes one. Yet a store must be
able to open files for as long as it serves, or acknowledged messages do not reach the disk. So the number is
divided::

    descriptors of the process   ├── files ──┼── connections ──┼─ reserve ─┤

The reserve is for everything else: listening sockets, the few connections of metrics and health checks,
directories while they are synced, files that threads read. When even the reserve is used up, as by other
parts of a program that embeds a broker, ``SPARES.open`` closes one of a few spare descriptors, which were
opened in advance.
"""

import errno
import os
import resource
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final

FILES_MAX: Final = 8_192
"""Most files that are kept open: each takes a kilobyte of memory, and more once it is mapped."""
RESERVE_MIN: Final = 48
CONNECTIONS_MIN: Final = 16
UNLIMITED: Final = 1 << 20
"""Number of descriptors assumed for a process without a limit."""
SPARE_COUNT: Final = 8

NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE})
SCARCE: Final = NO_DESCRIPTOR | {errno.ENOMEM, errno.EINTR, errno.EAGAIN}
"""Errors of a temporary shortage: the same call may succeed soon."""


class SyncFailed(OSError):
    """A failed sync: the data to be synced may be lost, whatever ``errno`` says."""


def is_scarce(error: OSError) -> bool:
    """Check whether an operation did nothing because of a temporary shortage, so that it can be retried."""
    return error.errno in SCARCE and not isinstance(error, SyncFailed)


def limit() -> int:
    """Return the number of descriptors that this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNLIMITED if soft == resource.RLIM_INFINITY else soft


def raise_limit() -> None:
    """Raise this process's limit of descriptors to the highest that the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # refused if the hard limit is above the kernel's own
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def files_max(limit: int) -> int:
    """Return how many files may be kept open if the process may open ``limit`` descriptors."""
    return min(limit // 2, FILES_MAX)


def connections_max(limit: int) -> int:
    """Return how many connections may be accepted if the process may open ``limit`` descriptors."""
    return max(limit - files_max(limit) - max(limit // 16, RESERVE_MIN), CONNECTIONS_MIN)


class SpareDescriptors:
    """Spare descriptors, closed to open files when the process has no other ones. Safe from any thread."""

    def __init__(self, count: int = SPARE_COUNT) -> None:
        self._count = count
        self._spares: list[int] = []
        self._lock = Lock()

    def open(self, path: Path | str, flags: int, mode: int = 0o644) -> int:
        """Open a file; if no descriptor is free, close a spare one and retry. Raises OSError."""
        self.refill()
        while True:
            try:
                return os.open(path, flags | os.O_CLOEXEC, mode)
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR or not self._give_up_one():
                    raise

    def close(self, fd: int) -> None:
        """Close a file; its descriptor becomes a spare one if some are missing."""
        os.close(fd)
        self.refill()

    def refill(self) -> None:
        """Open the missing spare descriptors, as far as the system allows."""
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
"""The spare descriptors of this process."""
