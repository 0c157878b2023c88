"""A disk in memory: a file layer that can be full, fail to sync, lose power, and be inspected.

Written bytes can be read at once, as through a page cache; synced bytes and durable names
survive ``after_power_loss``. ``after_kill`` keeps everything that was written.
"""

import errno
import itertools
import mmap
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Self

from cometmq.io.files import File, Usage, WriteWindow
from cometmq.io.regular import not_regular
from cometmq.message import Buffer

BLOCK_SIZE = 4096
_LIVES = itertools.count()


@dataclass(slots=True, eq=False)
class Content:
    """The bytes of a file: as written, and as they were at its last sync."""

    data: bytearray
    synced: bytes = b""
    blocks: set[int] = field(default_factory=set)
    """Numbers of the blocks that use space; the others are holes."""
    modified_ms: int = 0


class MemoryMap:
    """A mapped file, entirely in memory."""

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.resident = bytearray(b"\1") * -(-len(view) // mmap.PAGESIZE)

    def ready(self, begin: int, end: int) -> Buffer | None:
        """Return a stretch of the file; None if it extends past the end."""
        return self.view[begin:end] if end <= len(self.view) else None


class MemoryFile:
    """An open file of a MemoryDisk."""

    def __init__(self, disk: "MemoryDisk", path: Path, content: Content) -> None:
        self.path = path
        self._disk = disk
        self._content = content

    @property
    def size(self) -> int:
        """Length in bytes."""
        return len(self._content.data)

    def write(self, position: int, data: Buffer) -> None:
        """Write all of ``data``; on a full disk, write what fits and raise ENOSPC."""
        view = memoryview(data).cast("B")
        fits = self._disk.take_space(self._content, position, len(view))
        self._content.data[position : position + fits] = view[:fits]
        self._content.modified_ms = self._disk.now_ms()
        if fits < len(view):
            raise os_error(errno.ENOSPC, self.path)

    def reserve(self, position: int, size: int) -> None:
        """Reserve space for a stretch; on a full disk, reserve what fits and raise ENOSPC."""
        if self._disk.take_space(self._content, position, size) < size:
            raise os_error(errno.ENOSPC, self.path)

    def window(self, position: int, size: int) -> WriteWindow:
        """Open a window for writes that always have space."""
        self.reserve(position, size)
        return MemoryWindow(self, position, size)

    def read(self, position: int, size: int) -> bytes:
        """Read up to ``size`` bytes at ``position``."""
        return bytes(self._content.data[position : position + size])

    def read_ready(self, position: int, size: int) -> Buffer | None:
        """Read all of ``size`` bytes at ``position``, unless the disk is ``cold``."""
        data = self._content.data[position : position + size]
        return data if len(data) == size and not self._disk.cold else None

    def mapped(self) -> MemoryMap | None:
        """Return the file's map, unless the disk is ``cold``."""
        return None if self._disk.cold or not self.size else MemoryMap(self.view())

    def view(self) -> memoryview:
        """Return the whole file as a read-only view."""
        return memoryview(self._content.data).toreadonly()

    def drop_pages(self) -> None:
        """Do nothing: here memory is the disk."""

    def unused_pages(self) -> None:
        """Do nothing: here memory is the disk."""

    def data_end(self, position: int) -> int:
        """Return the end of the last data at or after ``position``."""
        last = max(self._content.blocks, default=-1)
        return max(position, min((last + 1) * BLOCK_SIZE, self.size))

    def sync(self) -> None:
        """Sync the file: everything written to it survives a power loss."""
        self._disk.sync(self.path)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


class MemoryWindow:
    """A window of a MemoryFile, open for writing."""

    def __init__(self, file: MemoryFile, position: int, size: int) -> None:
        self._file: MemoryFile | None = file
        self._begin, self._end = position, position + size

    def store(self, position: int, data: Buffer) -> None:
        """Write ``data`` at ``position``; outside the window a real disk would crash the process."""
        assert self._file is not None, "the window is closed"
        assert self._begin <= position and position + len(data) <= self._end, "outside of the window"
        self._file.write(position, data)

    def lock(self) -> bool:
        """Return True: here memory is the disk."""
        return True

    def close(self) -> None:
        """Close the window."""
        self._file = None


class MemoryDisk:
    """A file layer in memory.

    Args:
        space_bytes: how much data fits; holes use no space.

    Attributes:
        space_bytes: can be changed while in use, for a disk that fills up or is cleaned.
        fail_sync: if True, every sync raises EIO.
        cold: if True, no byte can be read without waiting for the disk.
        sync_count: number of file syncs.
        now_ms: returns the time at which files are modified, in ms.
        private: the files that only their owner may read and write.
    """

    def __init__(self, space_bytes: int = 2**40) -> None:
        self.space_bytes = space_bytes
        self.fail_sync = False
        self.cold = False
        self.sync_count = 0
        self.now_ms: Callable[[], int] = lambda: 0
        self.private: set[Path] = set()
        self._life = f"life {next(_LIVES)}"
        self._files: dict[Path, Content] = {}
        self._directories: set[Path] = {Path("/")}
        self._locked: set[Path] = set()

    def after_kill(self) -> Self:
        """Return the disk after the process was killed: everything written is there, synced or not."""
        other = self._copy({path: bytes(content.data) for path, content in list(self._files.items())})
        other._life = self._life  # noqa: SLF001 - a disk of the same class
        return other

    def after_power_loss(self, chance: Random | None = None) -> Self:
        """Return the disk after the machine lost power.

        Only synced bytes are there; with ``chance``, each block written later may be there too.
        """
        files = {}
        for path, content in list(self._files.items()):
            files[path] = data = bytearray(content.synced.ljust(len(content.data), b"\0"))
            if chance is not None:
                for at in range(0, len(data), BLOCK_SIZE):
                    if chance.random() < 1 / 2:
                        data[at : at + BLOCK_SIZE] = content.data[at : at + BLOCK_SIZE]
        other = self._copy({path: bytes(data) for path, data in files.items()})
        for content in other._files.values():  # noqa: SLF001 - a disk of the same class
            content.synced = bytes(content.data)
        return other

    def create(self, path: Path, size: int, *, durable: bool = True) -> File:  # noqa: ARG002 - names are durable here
        """Create a sparse file of ``size`` zero bytes."""
        self._need_parent(path)
        content = self._files[path] = Content(bytearray(size))
        return self._file(path, content)

    def open(self, path: Path, *, writable: bool) -> File:  # noqa: ARG002 - all files here are writable
        """Open an existing file."""
        return self._file(path, self._content(path))

    def save(self, path: Path, data: bytes) -> None:
        """Replace the content of ``path``, durably."""
        self._need_parent(path)
        content = Content(bytearray(len(data)), synced=data)
        if self.take_space(content, 0, len(data)) < len(data):
            raise os_error(errno.ENOSPC, path)
        content.data[:] = data
        self._files[path] = content

    def save_private(self, path: Path, data: bytes) -> None:
        """Replace the content of ``path``, durably; it is private from then on."""
        self.save(path, data)
        self.make_private(path)

    def make_private(self, path: Path) -> None:
        """Add a file to ``private``."""
        self.private.add(path)

    def load(self, path: Path) -> bytes:
        """Return the content of a small file."""
        return bytes(self._content(path).data)

    def sync(self, path: Path) -> None:
        """Sync a file: everything written to ``path`` survives a power loss."""
        if self.fail_sync:
            raise os_error(errno.EIO, path)
        if path in self._directories:
            return  # here names always survive a power loss
        content = self._content(path)
        content.synced = bytes(content.data)
        self.sync_count += 1

    def sync_all(self, paths: Iterable[Path]) -> None:
        """Sync each of ``paths`` that exists."""
        for path in paths:
            with suppress(FileNotFoundError):
                self.sync(path)

    def size(self, path: Path) -> int:
        """Return the length of the file at ``path`` in bytes."""
        return len(self._content(path).data)

    def modified_ms(self, path: Path) -> int:
        """Return when the file at ``path`` was last written, in ms."""
        return self._content(path).modified_ms

    def usage(self, path: Path) -> Usage:  # noqa: ARG002 - it is one disk
        """Return the used and usable space of the disk."""
        used = BLOCK_SIZE * sum(len(content.blocks) for content in list(self._files.values()))
        return Usage(used, max(self.space_bytes - used, 0))

    def life(self, path: Path) -> str:  # noqa: ARG002 - it is one disk
        """Return an id of the machine's current boot: a power loss begins another one."""
        return self._life

    def exists(self, path: Path) -> bool:
        """Check whether there is a file or directory at ``path``."""
        return path in self._files or path in self._directories

    def names(self, directory: Path) -> list[str]:
        """Return the names in ``directory``, sorted."""
        prefix = str(directory).rstrip("/") + "/"
        paths = {*map(str, list(self._files)), *map(str, list(self._directories))}
        inside = (path[len(prefix) :] for path in paths if path.startswith(prefix))
        return sorted(name for name in inside if name and "/" not in name)

    def is_directory(self, path: Path) -> bool:
        """Check whether ``path`` is a directory."""
        return path in self._directories

    def make_directory(self, path: Path, *, durable: bool = True) -> None:  # noqa: ARG002 - as above
        """Create the directory ``path`` and its parents, if missing."""
        self._directories.update((path, *path.parents))

    def rename(self, old: Path, new: Path, *, durable: bool = True) -> None:  # noqa: ARG002 - as above
        """Rename a file, replacing ``new``, or a directory with its content to a free name."""
        if old not in self._directories:
            self._files[new] = self._content(old)
            del self._files[old]
            return
        if self.exists(new):
            raise os_error(errno.ENOTEMPTY, new)
        self._files = {_moved(path, old, new): content for path, content in list(self._files.items())}
        self._directories = {_moved(path, old, new) for path in self._directories}

    def remove(self, path: Path, *, durable: bool = True) -> None:  # noqa: ARG002 - as above
        """Remove a file, if it exists."""
        self._files.pop(path, None)

    def remove_directory(self, path: Path, *, durable: bool = True) -> None:  # noqa: ARG002 - as above
        """Remove an empty directory, if it exists."""
        if self.names(path):
            raise os_error(errno.ENOTEMPTY, path)
        self._directories.discard(path)

    def lock(self, path: Path) -> int | None:
        """Lock ``path``; None if it is locked."""
        if path in self._locked:
            return None
        self._locked.add(path)
        self._files.setdefault(path, Content(bytearray(b"lock")))
        return hash(path)

    def unlock(self, token: int) -> None:
        """Release the lock."""
        self._locked = {path for path in self._locked if hash(path) != token}

    def lock_holder(self, path: Path) -> int | None:
        """Return the id of the process that holds the lock on ``path``: this one, or None."""
        return os.getpid() if path in self._locked else None

    def put(self, path: Path, data: bytes, *, synced: bytes | None = None) -> None:
        """Set up a file that has long been on the disk, or of which only ``synced`` is on the disk."""
        blocks = {
            at // BLOCK_SIZE
            for at in range(0, len(data), BLOCK_SIZE)
            if data[at : at + BLOCK_SIZE].strip(b"\0")
        }
        self._files[path] = Content(bytearray(data), data if synced is None else synced, blocks)

    def take_space(self, content: Content, position: int, size: int) -> int:
        """Reserve the blocks under a write; return how many of its bytes fit."""
        free = self.space_bytes // BLOCK_SIZE - sum(len(other.blocks) for other in list(self._files.values()))
        for block in range(position // BLOCK_SIZE, -(-(position + size) // BLOCK_SIZE)):
            if block not in content.blocks:
                if free <= 0:
                    return max(block * BLOCK_SIZE - position, 0)
                content.blocks.add(block)
                free -= 1
        return size

    def _file(self, path: Path, content: Content) -> MemoryFile:
        return MemoryFile(self, path, content)

    def _copy(self, files: dict[Path, bytes]) -> Self:
        other = type(self)(self.space_bytes)
        other.now_ms = self.now_ms
        other.private = self.private.copy()
        other.make_directory(Path("/"))
        for directory in self._directories:
            other.make_directory(directory)
        for path, data in files.items():
            other.put(path, data, synced=self._files[path].synced)
            other._files[path].modified_ms = self._files[path].modified_ms  # noqa: SLF001 - of the same class
        return other

    def _content(self, path: Path) -> Content:
        try:
            return self._files[path]
        except KeyError:
            if path in self._directories:
                raise not_regular(path, "directory") from None
            raise os_error(errno.ENOENT, path) from None

    def _need_parent(self, path: Path) -> None:
        if path.parent not in self._directories:
            raise os_error(errno.ENOENT, path.parent)


def os_error(number: int, path: Path) -> OSError:
    """Build the error that a system call would raise."""
    return OSError(number, os.strerror(number), str(path))


def _moved(path: Path, old: Path, new: Path) -> Path:
    """Return the path that ``path`` has after ``old`` was renamed to ``new``."""
    return new / path.relative_to(old) if path.is_relative_to(old) else path
