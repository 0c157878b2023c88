"""The file layer: every byte that the store writes, and every name it makes or removes, passes here.

The store writes by position (``pwrite``), or stores into windows whose space is reserved (``Window``):
a full disk is then an error and not a SIGBUS, the process's resident memory stays small, and a test
layer that records these calls can rebuild any state that a crash could leave (``cometmq.testing`` and
``tests/`` do so). It reads through read-only maps. All of them go through the page cache, so each sees
what the others did.
"""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from cometmq.io import file_lock, syncing
from cometmq.io.descriptors import SPARES
from cometmq.io.disk_file import DiskFile, write_all
from cometmq.io.mapped import MappedPages
from cometmq.message import Buffer

TEMPORARY_SUFFIX = ".tmp"
BOOT_ID_PATH: Final = Path("/proc/sys/kernel/random/boot_id")


class Usage(NamedTuple):
    """How full a file system is, in bytes.

    Attributes:
        used: what is taken.
        usable: what this process can still take; what is kept for the system's own use is in neither.
    """

    used: int
    usable: int


class Window(Protocol):
    """A stretch of one file that takes stores without a system call.

    Its space on the disk is reserved before it opens, and its pages are made ready: a full disk is then an
    error here, never a SIGBUS at a store, and no store waits for a page. What is stored is like what was
    written and not synced. Small windows, opened ahead of the writer and closed behind it, keep the process
    small, for mapped pages count as its memory.
    """

    def store(self, position: int, data: Buffer) -> None:
        """Store ``data``, single bytes, at ``position`` of the file, all of it within the window."""
        ...

    def lock(self) -> bool:
        """Keep the window's pages in memory until it is closed; tell whether the system allows it."""
        ...

    def close(self) -> None:
        """Let it go. Safe from any thread once nobody stores."""
        ...


class Mapped(Protocol):
    """A whole file that is mapped for reading."""

    @property
    def view(self) -> memoryview:
        """All of it; shows later writes too."""
        ...

    @property
    def resident(self) -> bytearray:
        """A byte for each page, which is 1 if it is known to be in memory: reading it waits for nothing."""
        ...

    def ready(self, begin: int, end: int) -> Buffer | None:
        """Give a stretch of it if that is in memory, or None; ``resident`` says so from then on."""
        ...


class File(Protocol):
    """One open file of fixed length."""

    @property
    def path(self) -> Path:
        """Where it is."""
        ...

    @property
    def size(self) -> int:
        """Its length in bytes."""
        ...

    def write(self, position: int, data: Buffer) -> None:
        """Write all of ``data``, single bytes, at ``position``. Raises OSError (ENOSPC on a full disk)."""
        ...

    def reserve(self, position: int, size: int) -> None:
        """Have the disk's space for a stretch, so that no write to it finds the disk full. Raises OSError.

        What the stretch holds stays as it is; nobody may write to it meanwhile. Safe from any thread.
        """
        ...

    def window(self, position: int, size: int) -> Window:
        """Open a stretch for stores: its space is reserved, its pages are ready. Raises OSError.

        The window outlives the file's being closed. As for threads, see ``reserve``.
        """
        ...

    def read(self, position: int, size: int) -> bytes:
        """Read up to ``size`` bytes at ``position``; fewer only at the end of the file."""
        ...

    def read_ready(self, position: int, size: int) -> Buffer | None:
        """Read all of ``size`` bytes at ``position``, if none of them has to come from the disk; or None.

        Where the system cannot tell, None too.
        """
        ...

    def mapped(self) -> Mapped | None:
        """Give the file's map; None for an empty file, and where nothing is known of its pages."""
        ...

    def view(self) -> memoryview:
        """Give the whole file as a read-only view that shows later writes too."""
        ...

    def drop_pages(self) -> None:
        """Let go of the memory that reading through maps took; it comes back as it is read again."""
        ...

    def unused_pages(self) -> Callable[[], None] | None:
        """Give what lets go of the same, but for what was looked at since the last call. For any thread."""
        ...

    def data_end(self, position: int) -> int:
        """Give where the last data at or behind ``position`` ends; ``position`` if only holes follow."""
        ...

    def sync(self) -> None:
        """Wait until what was written to it is on the disk. Safe from any thread. Raises OSError.

        Other than ``FileLayer.sync`` it opens nothing, so it cannot fail for want of descriptors.
        """
        ...

    def close(self) -> None:
        """Let the file go; views given out must not be used after this."""
        ...


class FileLayer(Protocol):
    """Names and whole files."""

    def create(self, path: Path, size: int, *, durable: bool = True) -> File:
        """Make a sparse file of ``size`` zero bytes, so that it is there whole or not at all.

        Without ``durable`` the disk is not waited for: sync the file and its directory later.
        """
        ...

    def open(self, path: Path, *, writable: bool) -> File:
        """Open an existing file at the length it has."""
        ...

    def save(self, path: Path, data: bytes) -> None:
        """Replace the content of ``path``: after a crash the old or the new content is there, whole."""
        ...

    def load(self, path: Path) -> bytes:
        """Read a small file whole."""
        ...

    def sync(self, path: Path) -> None:
        """Wait until the file or directory at ``path`` is on the disk. Safe from any thread."""
        ...

    def sync_all(self, paths: Iterable[Path]) -> None:
        """As ``sync`` for each of them that is still there. Raises OSError, which names the path."""
        ...

    def size(self, path: Path) -> int:
        """Give the length of the file at ``path``."""
        ...

    def modified_ms(self, path: Path) -> int:
        """Give when the file at ``path`` was last written to, ms since the epoch."""
        ...

    def usage(self, path: Path) -> Usage:
        """Tell how full the file system is that holds ``path``."""
        ...

    def life(self, path: Path) -> str:
        """Name the run of the machine, and the file system that holds ``path``.

        As long as both are the same, all that was written is there, synced or not.
        """
        ...

    def exists(self, path: Path) -> bool:
        """Tell whether there is a file or directory at ``path``."""
        ...

    def names(self, directory: Path) -> list[str]:
        """List the names in ``directory``, sorted; none if it does not exist."""
        ...

    def is_directory(self, path: Path) -> bool:
        """Tell whether ``path`` is a directory."""
        ...

    def make_directory(self, path: Path, *, durable: bool = True) -> None:
        """Make ``path`` and its parents; no error if it is there. ``durable`` as in ``create``."""
        ...

    def rename(self, old: Path, new: Path) -> None:
        """Move ``old`` over ``new``, durably."""
        ...

    def remove(self, path: Path, *, durable: bool = True) -> None:
        """Remove a file; no error if it is not there. ``durable``: so that it does not come back."""
        ...

    def remove_directory(self, path: Path, *, durable: bool = True) -> None:
        """Remove an empty directory; no error if it is not there. ``durable`` as in ``remove``."""
        ...

    def lock(self, path: Path) -> int | None:
        """Take the exclusive lock on ``path``'s first byte: a token for ``unlock``; None if taken."""
        ...

    def unlock(self, token: int) -> None:
        """Give the lock back."""
        ...

    def lock_holder(self, path: Path) -> int | None:
        """Give the id of the process that holds the lock on ``path``; None if nobody does."""
        ...


class Disk:
    """The real file system."""

    def __init__(self) -> None:
        self._pages = MappedPages()

    def create(self, path: Path, size: int, *, durable: bool = True) -> File:
        """Make a sparse file of ``size`` zero bytes: under a temporary name first, then renamed."""
        temporary = f"{path}{TEMPORARY_SUFFIX}"
        fd = SPARES.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            os.ftruncate(fd, size)
            if durable:
                os.fsync(fd)
                self.rename(Path(temporary), path)
            else:
                os.replace(temporary, path)
            return DiskFile(path, fd, self._pages)
        except BaseException:
            SPARES.close(fd)
            with suppress(FileNotFoundError):
                os.unlink(temporary)
            raise

    def open(self, path: Path, *, writable: bool) -> File:
        """Open an existing file at the length it has."""
        fd = SPARES.open(path, os.O_RDWR if writable else os.O_RDONLY)
        return DiskFile(path, fd, self._pages)

    def save(self, path: Path, data: bytes) -> None:
        """Replace the content of ``path`` by write, sync, rename, sync of the directory."""
        temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
        try:
            fd = SPARES.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                write_all(fd, 0, data)
                os.fsync(fd)
            finally:
                SPARES.close(fd)
            self.rename(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def load(self, path: Path) -> bytes:
        """Read a small file whole."""
        fd = SPARES.open(path, os.O_RDONLY)
        try:
            with os.fdopen(fd, "rb", closefd=False) as file:
                return file.read()
        finally:
            SPARES.close(fd)

    def sync(self, path: Path) -> None:
        """Wait until the file or directory at ``path`` is on the disk."""
        syncing.sync_file(path)

    def sync_all(self, paths: Iterable[Path]) -> None:
        """Wait until all of these are on the disk, many in one go."""
        syncing.sync_files(paths)

    def size(self, path: Path) -> int:
        """Give the length of the file at ``path``."""
        return path.stat().st_size

    def modified_ms(self, path: Path) -> int:
        """Give when the file at ``path`` was last written to, ms since the epoch."""
        return path.stat().st_mtime_ns // 1_000_000

    def usage(self, path: Path) -> Usage:
        """Tell how full the file system is that holds ``path``."""
        stat = os.statvfs(path)
        return Usage((stat.f_blocks - stat.f_bfree) * stat.f_frsize, stat.f_bavail * stat.f_frsize)

    def life(self, path: Path) -> str:
        """Name the run of the machine, and the file system that holds ``path``."""
        return f"{BOOT_ID_PATH.read_text().strip()}/{path.stat().st_dev}" if BOOT_ID_PATH.exists() else ""

    def exists(self, path: Path) -> bool:
        """Tell whether there is a file or directory at ``path``."""
        return path.exists()

    def names(self, directory: Path) -> list[str]:
        """List the names in ``directory``, sorted; none if it does not exist."""
        try:
            return sorted(os.listdir(directory))
        except FileNotFoundError:
            return []

    def is_directory(self, path: Path) -> bool:
        """Tell whether ``path`` is a directory."""
        return path.is_dir()

    def make_directory(self, path: Path, *, durable: bool = True) -> None:
        """Make ``path`` and its parents."""
        try:
            os.mkdir(path)
        except FileExistsError:
            if not path.is_dir():
                raise
            return
        except FileNotFoundError:
            self.make_directory(path.parent, durable=durable)
            path.mkdir(exist_ok=True)
        if durable:
            syncing.sync_directory(path.parent)

    def rename(self, old: Path, new: Path) -> None:
        """Move ``old`` over ``new``, durably."""
        os.replace(old, new)
        syncing.sync_directory(new.parent)

    def remove(self, path: Path, *, durable: bool = True) -> None:
        """Remove a file."""
        with suppress(FileNotFoundError):
            path.unlink()
            if durable:
                syncing.sync_directory(path.parent)

    def remove_directory(self, path: Path, *, durable: bool = True) -> None:
        """Remove an empty directory."""
        with suppress(FileNotFoundError):
            path.rmdir()
            if durable:
                syncing.sync_directory(path.parent)

    def lock(self, path: Path) -> int | None:
        """Take the exclusive lock on ``path``'s first byte, as a Java broker does."""
        return file_lock.lock(path)

    def unlock(self, token: int) -> None:
        """Give the lock back."""
        file_lock.unlock(token)

    def lock_holder(self, path: Path) -> int | None:
        """Give the id of the process that holds the lock on ``path``; None if nobody does."""
        return file_lock.lock_holder(path)
