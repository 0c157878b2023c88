"""The file layer: all of the store's writes, and all names that it creates or removes, pass through here.

The store writes by position (``pwrite``), or into mapped windows whose space is reserved (``WriteWindow``):
a full disk is then an error and not a SIGBUS, the process's resident memory stays small, and a test
layer that records these calls can rebuild any state that a crash could leave (``cometmq.testing`` and
``tests/`` do so). It reads through read-only maps. All of them go through the page cache, so each sees
the bytes that the others wrote.
"""

import fcntl
import os
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from cometmq.io import syncing
from cometmq.io.clock import boot_id
from cometmq.io.descriptors import SPARES
from cometmq.io.disk_file import DiskFile, MappedPages, write_all
from cometmq.io.regular import regular_stat
from cometmq.message import Buffer

TEMPORARY_SUFFIX = ".tmp"
PRIVATE_MODE: Final = 0o600

_LOCKED: Final[dict[int, tuple[int, int]]] = {}
"""Device and inode of the files that this process has locked, by descriptor."""
_FLOCK: Final = struct.Struct("hhqqi4x")
"""Linux's struct flock: kind, whence, start, length, process id."""


class Usage(NamedTuple):
    """The used and usable space of a file system, in bytes.

    Attributes:
        used: space in use.
        usable: space that this process can still use; the system's own reserve is in neither number.
    """

    used: int
    usable: int


class WriteWindow(Protocol):
    """A stretch of a file, mapped for writing without a system call.

    Its disk space is reserved before it opens, and its pages are mapped and ready: a full disk is then an
    error at opening, never a SIGBUS at a write, and no write waits for a page. Bytes written here are like
    those written by ``File.write`` and not synced. Small windows, opened ahead of the writer and closed
    after it, keep the process small, because mapped pages count as its memory.
    """

    def store(self, position: int, data: Buffer) -> None:
        """Write ``data``, bytes or a view of bytes, at ``position`` of the file, within the window."""
        ...

    def lock(self) -> bool:
        """Lock the window's pages in memory until it is closed; return whether the system allows it."""
        ...

    def close(self) -> None:
        """Close the window. Safe from any thread once nobody writes to it."""
        ...


class FileMap(Protocol):
    """A whole file, mapped for reading."""

    @property
    def view(self) -> memoryview:
        """The whole file; shows later writes too."""
        ...

    @property
    def resident(self) -> bytearray:
        """One byte per page: 1 if the page is known to be in memory, so that reading it does not block."""
        ...

    def ready(self, begin: int, end: int) -> Buffer | None:
        """Return the bytes ``begin`` to ``end`` if they are in memory, else None; updates ``resident``."""
        ...


class File(Protocol):
    """An open file of fixed length."""

    @property
    def path(self) -> Path:
        """The file's path."""
        ...

    @property
    def size(self) -> int:
        """The file's length in bytes."""
        ...

    def write(self, position: int, data: Buffer) -> None:
        """Write all of ``data``, bytes or a view of them, at ``position``. Raises OSError (ENOSPC: full)."""
        ...

    def reserve(self, position: int, size: int) -> None:
        """Reserve disk space for a stretch, so that no write to it finds the disk full. Raises OSError.

        The stretch keeps its content; nobody may write to it meanwhile. Safe from any thread.
        """
        ...

    def window(self, position: int, size: int) -> WriteWindow:
        """Map a stretch for writing: space reserved, pages ready. Raises OSError.

        The window stays usable after the file is closed. Safe from any thread, like ``reserve``.
        """
        ...

    def read(self, position: int, size: int) -> bytes:
        """Read up to ``size`` bytes at ``position``; fewer only at the end of the file."""
        ...

    def read_ready(self, position: int, size: int) -> Buffer | None:
        """Read ``size`` bytes at ``position`` if all are in memory; else, or if that is unknown, return None.

        It never waits for the disk.
        """
        ...

    def mapped(self) -> FileMap | None:
        """Return the file's map; None for an empty file, or in a layer that does not map files."""
        ...

    def view(self) -> memoryview:
        """Return the whole file as a read-only view that shows later writes too."""
        ...

    def drop_pages(self) -> None:
        """Unmap the pages that were read through maps; reading maps them again."""
        ...

    def unused_pages(self) -> Callable[[], None] | None:
        """Return a function, for any thread, that unmaps pages unused since the last call, or None."""
        ...

    def data_end(self, position: int) -> int:
        """Return the end of the last data at or after ``position``; ``position`` if only holes follow."""
        ...

    def sync(self) -> None:
        """Wait until all written bytes are on the disk. Safe from any thread. Raises OSError.

        Unlike ``FileLayer.sync`` it opens nothing, so it cannot fail for lack of descriptors.
        """
        ...

    def close(self) -> None:
        """Close the file; views of it must not be used after this."""
        ...


class FileLayer(Protocol):
    """The operations on names and on whole files of a file system.

    Only regular files, and links to them, are opened or have a size: for anything else ``open``, ``load``,
    ``size`` and ``lock`` raise ``NotRegularFile``.
    """

    def create(self, path: Path, size: int, *, durable: bool = True) -> File:
        """Create a sparse file of ``size`` zero bytes, atomically: it exists complete or not at all.

        Without ``durable`` it does not wait for the disk: sync the file and its directory later.
        """
        ...

    def open(self, path: Path, *, writable: bool) -> File:
        """Open an existing file at its present length."""
        ...

    def save(self, path: Path, data: bytes) -> None:
        """Replace the content of ``path`` atomically: a crash leaves the old or the new one, complete."""
        ...

    def save_private(self, path: Path, data: bytes) -> None:
        """Replace the content of ``path`` as ``save`` does; only its owner may read and write the file."""
        ...

    def make_private(self, path: Path) -> None:
        """Allow only the owner of a file to read and write it."""
        ...

    def load(self, path: Path) -> bytes:
        """Return the content of a small file."""
        ...

    def sync(self, path: Path) -> None:
        """Wait until the file or directory at ``path`` is on the disk. Safe from any thread."""
        ...

    def sync_all(self, paths: Iterable[Path]) -> None:
        """Sync all of ``paths`` that still exist, as ``sync`` does. Raises OSError, which names the path."""
        ...

    def size(self, path: Path) -> int:
        """Return the length of the file at ``path`` in bytes."""
        ...

    def modified_ms(self, path: Path) -> int:
        """Return when the file at ``path`` was last written, ms since the epoch."""
        ...

    def usage(self, path: Path) -> Usage:
        """Return the used and usable space of the file system of ``path``."""
        ...

    def life(self, path: Path) -> str:
        """Return an id of the machine's current boot and of the file system of ``path``; empty if unknown.

        While the id stays the same, all that was written is still there, synced or not.
        """
        ...

    def exists(self, path: Path) -> bool:
        """Check whether there is a file or directory at ``path``."""
        ...

    def names(self, directory: Path) -> list[str]:
        """Return the names in ``directory``, sorted; none if it does not exist."""
        ...

    def is_directory(self, path: Path) -> bool:
        """Check whether ``path`` is a directory."""
        ...

    def make_directory(self, path: Path, *, durable: bool = True) -> None:
        """Create the directory ``path`` and its parents, if missing. ``durable`` as in ``create``."""
        ...

    def rename(self, old: Path, new: Path, *, durable: bool = True) -> None:
        """Rename ``old`` to ``new``, replacing it. Without ``durable`` sync both directories later."""
        ...

    def remove(self, path: Path, *, durable: bool = True) -> None:
        """Remove a file, if it exists; with ``durable``, wait until the removal is on the disk."""
        ...

    def remove_directory(self, path: Path, *, durable: bool = True) -> None:
        """Remove an empty directory, if it exists. ``durable`` as in ``remove``."""
        ...

    def lock(self, path: Path) -> int | None:
        """Lock the first byte of ``path`` exclusively; return a token for ``unlock``; None if locked."""
        ...

    def unlock(self, token: int) -> None:
        """Release the lock."""
        ...

    def lock_holder(self, path: Path) -> int | None:
        """Return the id of the process that holds the lock on ``path``; None if no process does."""
        ...


class Disk:
    """The real file system."""

    def __init__(self) -> None:
        self._pages = MappedPages()

    def create(self, path: Path, size: int, *, durable: bool = True) -> File:
        """Create a sparse file of ``size`` zero bytes under a temporary name, then rename it."""
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
        """Open an existing file at its present length."""
        regular_stat(path)
        fd = SPARES.open(path, os.O_RDWR if writable else os.O_RDONLY)
        return DiskFile(path, fd, self._pages)

    def save(self, path: Path, data: bytes) -> None:
        """Replace the content of ``path`` by write, sync, rename, and sync of the directory."""
        self._save(path, data, 0o644)

    def save_private(self, path: Path, data: bytes) -> None:
        """Replace the content of ``path`` like ``save``; the file never has a wider mode than 0600."""
        self._save(path, data, PRIVATE_MODE)

    def make_private(self, path: Path) -> None:
        """Set the mode of a file to 0600."""
        path.chmod(PRIVATE_MODE)

    def _save(self, path: Path, data: bytes, mode: int) -> None:
        temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
        temporary.unlink(missing_ok=True)  # a crash may have left one, of another mode
        try:
            fd = SPARES.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
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
        """Return the content of a small file."""
        regular_stat(path)
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
        """Wait until all of these are on the disk; many at once by syncing their file systems."""
        syncing.sync_files(paths)

    def size(self, path: Path) -> int:
        """Return the length of the file at ``path`` in bytes."""
        return regular_stat(path).st_size

    def modified_ms(self, path: Path) -> int:
        """Return when the file at ``path`` was last written, ms since the epoch."""
        return path.stat().st_mtime_ns // 1_000_000

    def usage(self, path: Path) -> Usage:
        """Return the used and usable space of the file system of ``path``."""
        stat = os.statvfs(path)
        return Usage((stat.f_blocks - stat.f_bfree) * stat.f_frsize, stat.f_bavail * stat.f_frsize)

    def life(self, path: Path) -> str:
        """Return an id of the machine's current boot and of the file system of ``path``; empty if unknown."""
        return f"{boot}/{path.stat().st_dev}" if (boot := boot_id()) else ""

    def exists(self, path: Path) -> bool:
        """Check whether there is a file or directory at ``path``."""
        return path.exists()

    def names(self, directory: Path) -> list[str]:
        """Return the names in ``directory``, sorted; none if it does not exist."""
        try:
            return sorted(os.listdir(directory))
        except FileNotFoundError:
            return []

    def is_directory(self, path: Path) -> bool:
        """Check whether ``path`` is a directory."""
        return path.is_dir()

    def make_directory(self, path: Path, *, durable: bool = True) -> None:
        """Create the directory ``path`` and its parents, if missing."""
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

    def rename(self, old: Path, new: Path, *, durable: bool = True) -> None:
        """Rename ``old`` to ``new``, replacing it."""
        os.replace(old, new)
        if durable:
            syncing.sync_directory(new.parent)

    def remove(self, path: Path, *, durable: bool = True) -> None:
        """Remove a file, if it exists."""
        with suppress(FileNotFoundError):
            path.unlink()
            if durable:
                syncing.sync_directory(path.parent)

    def remove_directory(self, path: Path, *, durable: bool = True) -> None:
        """Remove an empty directory, if it exists."""
        with suppress(FileNotFoundError):
            path.rmdir()
            if durable:
                syncing.sync_directory(path.parent)

    def lock(self, path: Path) -> int | None:
        """Lock the first byte of ``path`` exclusively, as a Java broker does; None if it is locked.

        Such a lock belongs to the whole process and is released when any descriptor of the file is closed: so
        this process must not open the file again while it holds the lock. Raises NotRegularFile, OSError.

        Source: RocketMQ ``store/DefaultMessageStore.java`` (``lockFile``).
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

    def unlock(self, token: int) -> None:
        """Release the lock."""
        del _LOCKED[token]
        os.close(token)

    def lock_holder(self, path: Path) -> int | None:
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
