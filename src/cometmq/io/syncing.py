"""Wait until data is on the disk: of one file or directory, or of many."""

import ctypes
import os
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from cometmq.io.descriptors import SPARES, SyncFailed

MANY_FILES: Final = 128
"""From this number of files on, whole file systems are synced (Linux's syncfs(2)): syncing one by one costs a
write of the disk's journal each. syncfs also waits for others' writes, so few files are synced one by one."""

_libc: Final = ctypes.CDLL(None, use_errno=True)


def sync_file(path: Path) -> None:
    """Wait until the file or directory at ``path`` is on the disk. Raises OSError."""
    fd = SPARES.open(path, os.O_RDONLY)
    try:
        sync_data(fd, path)
    finally:
        SPARES.close(fd)


def sync_data(fd: int, path: Path) -> None:
    """Wait until the bytes of an open file or directory are on the disk. Raises SyncFailed."""
    try:
        os.fdatasync(fd)
    except OSError as error:
        raise SyncFailed(error.errno, error.strerror, str(path)) from error


def sync_directory(path: Path) -> None:
    """Wait until the names in the directory at ``path`` are on the disk. Raises OSError."""
    fd = SPARES.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        SPARES.close(fd)


def sync_files(paths: Iterable[Path]) -> None:
    """Wait until files and directories are on the disk; missing ones are ignored.

    Raises OSError, which names the path.
    """
    paths = list(paths)
    if len(paths) >= MANY_FILES and (sync_all := getattr(_libc, "syncfs", None)) is not None:
        with ExitStack() as opened:
            for fd, path in _one_of_each_file_system(paths, opened):
                if sync_all(fd):
                    raise SyncFailed(number := ctypes.get_errno(), os.strerror(number), str(path))
        return
    for path in paths:
        with suppress(FileNotFoundError):
            sync_file(path)


def _one_of_each_file_system(paths: list[Path], opened: ExitStack) -> Iterable[tuple[int, Path]]:
    """Open, for each file system of ``paths``, one path that still exists."""
    found: dict[int, tuple[int, Path]] = {}
    for path in paths:
        with suppress(FileNotFoundError):
            device = os.stat(path).st_dev
            if device not in found:
                fd = SPARES.open(path, os.O_RDONLY)
                opened.callback(SPARES.close, fd)
                found[device] = fd, path
    return found.values()
