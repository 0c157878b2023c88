"""The lock on a store directory's lock file: it excludes other processes, Java brokers among them.

Source: RocketMQ ``store/DefaultMessageStore.java`` (``lockFile``): an exclusive lock on the first byte.
"""

import fcntl
import os
import struct
from pathlib import Path
from typing import Final

from cometmq.io.regular import regular_stat

_LOCKED: Final[dict[int, tuple[int, int]]] = {}
"""Device and inode of the files that this process has locked, by descriptor."""
_FLOCK: Final = struct.Struct("hhqqi4x")
"""Linux's struct flock: kind, whence, start, length, process id."""


def lock(path: Path) -> int | None:
    """Lock the first byte of ``path`` exclusively; return a token for ``unlock``, or None if it is locked.

    Such a lock belongs to the whole process and is released when any descriptor of the file is closed: so
    this process must not open the file again while it holds the lock. Raises NotRegularFile, OSError.
    """
    if path.exists() and _identity(regular_stat(path)) in _LOCKED.values():
        return None
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        os.pwrite(fd, b"lock", 0)
    except (BlockingIOError, PermissionError):
        os.close(fd)
        return None
    except BaseException:
        os.close(fd)
        raise
    _LOCKED[fd] = _identity(os.fstat(fd))
    return fd


def unlock(token: int) -> None:
    """Release the lock."""
    del _LOCKED[token]
    os.close(token)


def lock_holder(path: Path) -> int | None:
    """Return the id of the process that holds the lock on ``path``; None if no process does.

    Raises NotRegularFile, OSError.
    """
    if not path.exists():
        return None
    if _identity(regular_stat(path)) in _LOCKED.values():
        return os.getpid()  # closing another descriptor of the file would release our lock
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        kind, *_, pid = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    finally:
        os.close(fd)
    return None if kind == fcntl.F_UNLCK else pid


def _identity(stat: os.stat_result) -> tuple[int, int]:
    """Return what identifies a file, whatever its path: device and inode."""
    return stat.st_dev, stat.st_ino
