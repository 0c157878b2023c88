"""A read-only file layer over a remote store, with few requests.

A folder is listed once, with all folders below it: from then on names and sizes cost no request. Files of up
to 8 MiB, as those of queues are, are fetched whole; of longer ones a read fetches little more than it needs.
Only a view of a longer one is a copy of it in the temporary folder, while it is open.
"""

import os
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Final

from cometmq.io.disk_file import DiskFile, MappedPages
from cometmq.io.files import Disk, File, FileLayer, WriteWindow
from cometmq.io.regular import not_regular
from cometmq.message import Buffer
from cometmq.spark.files.remote import BLOCK, RemotePath, path_of

NEAR_BYTES: Final = 64 * 1024
"""Bytes fetched for a shorter read."""
BLOCKS_MAX: Final = 16
"""Such blocks cached for each file."""


def layer_of(path: Path) -> FileLayer:
    """Return the file layer that reads ``path``: a remote one for an address, else the disk."""
    return RemoteFiles() if isinstance(path, RemotePath) else Disk()


class RemoteFiles(Disk):
    """The files of a remote store as they are when they are first listed.

    Addresses may come as plain paths: ``Path`` makes such of any.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sizes: dict[RemotePath, int] = {}
        self._names: defaultdict[RemotePath, set[str]] = defaultdict(set)
        self._listed: set[RemotePath] = set()

    def open(self, path: Path, *, writable: bool) -> File:
        """Open a file for reading. Raises OSError if ``writable``."""
        if writable:
            raise _read_only(path)
        return RemoteFile(_remote(path), self.size(path), self._pages)

    def load(self, path: Path) -> bytes:
        """Read a small file."""
        return _remote(path).fetch(0, self.size(path))

    def size(self, path: Path) -> int:
        """Return the length of a file in bytes."""
        remote = _remote(path)
        if not self._is_listed(remote):
            return remote.length()
        if remote not in self._sizes:
            if remote in self._names:
                raise not_regular(remote, "folder")
            raise FileNotFoundError(f"{remote}: there is no such file")
        return self._sizes[remote]

    def life(self, path: Path) -> str:  # noqa: ARG002  a layer's signature
        """Return nothing: no run of a machine vouches for copied files."""
        return ""

    def exists(self, path: Path) -> bool:
        """Check whether there is a file or directory at ``path``."""
        remote = _remote(path)
        if self._is_listed(remote):
            return remote in self._sizes or remote in self._names
        return remote.exists()

    def names(self, directory: Path) -> list[str]:
        """Return the names in ``directory``, sorted; none if it does not exist."""
        remote = _remote(directory)
        if not self._is_listed(remote):
            self._list(remote)
        return sorted(self._names[remote]) if remote in self._names else []

    def is_directory(self, path: Path) -> bool:
        """Check whether ``path`` is a directory."""
        remote = _remote(path)
        return remote in self._names if self._is_listed(remote) else remote.is_dir()

    def _is_listed(self, path: RemotePath) -> bool:
        return not self._listed.isdisjoint((path, *path.parents))

    def _list(self, directory: RemotePath) -> None:
        for path, size in directory.files_below():
            self._sizes[path] = size
            for child in (path, *path.parents):
                if child == directory:
                    break
                self._names[child.parent].add(child.name)
        self._listed.add(directory)


class RemoteFile:
    """A remote file, open for reading."""

    def __init__(self, path: RemotePath, size: int, pages: MappedPages) -> None:
        self.path = path
        self.size = size
        self._remote = path
        self._pages = pages
        self._data: bytes | None = None
        self._blocks: dict[int, bytes] = {}
        self._copy: DiskFile | None = None

    def read(self, position: int, size: int) -> bytes:
        """Read up to ``size`` bytes at ``position``."""
        if self._copy is not None:
            return self._copy.read(position, size)
        if self.size <= BLOCK:
            return self._whole()[position : position + size]
        end = min(position + size, self.size)
        number = position // NEAR_BYTES
        if size > NEAR_BYTES or end > (number + 1) * NEAR_BYTES:
            return self._remote.fetch(min(position, end), end)
        block = self._block(number)
        return block[position - number * NEAR_BYTES : end - number * NEAR_BYTES]

    def read_ready(self, position: int, size: int) -> Buffer | None:
        """Return nothing: bytes have to be fetched."""

    def mapped(self) -> None:
        """Return nothing: there is no map."""

    def view(self) -> memoryview:
        """Return the whole file as a read-only view."""
        return memoryview(self._whole()) if self.size <= BLOCK else self._copied().view()

    def drop_pages(self) -> None:
        """Release the bytes that were fetched."""
        self._data = None
        self._blocks.clear()
        if self._copy is not None:
            self._copy.drop_pages()

    def unused_pages(self) -> None:
        """Return nothing: only ``drop_pages`` releases bytes."""

    def data_end(self, position: int) -> int:
        """Return the end of the last data at or behind ``position``; ``position`` if only zeros follow."""
        if self.size <= BLOCK:
            return max(position, len(self._whole().rstrip(b"\0")))
        return self._copied().data_end(position)

    def close(self) -> None:
        """Close the file."""
        self._data = None
        if self._copy is not None:
            self._copy.close()

    def write(self, position: int, data: Buffer) -> None:  # noqa: ARG002  a file's signature
        """Raise OSError."""
        raise _read_only(self.path)

    def reserve(self, position: int, size: int) -> None:  # noqa: ARG002  a file's signature
        """Raise OSError."""
        raise _read_only(self.path)

    def window(self, position: int, size: int) -> WriteWindow:  # noqa: ARG002  a file's signature
        """Raise OSError."""
        raise _read_only(self.path)

    def sync(self) -> None:
        """Raise OSError."""
        raise _read_only(self.path)

    def _block(self, number: int) -> bytes:
        """Return a block of the file, from the cache: entries of an index's chain often lie close."""
        if number not in self._blocks:
            if len(self._blocks) == BLOCKS_MAX:
                self._blocks.pop(next(iter(self._blocks)))
            begin = min(number * NEAR_BYTES, self.size)
            self._blocks[number] = self._remote.fetch(begin, min(begin + NEAR_BYTES, self.size))
        return self._blocks[number]

    def _whole(self) -> bytes:
        if self._data is None:
            self._data = self._remote.fetch(0, self.size)
        return self._data

    def _copied(self) -> DiskFile:
        """Return an unlinked copy of the file, in which ranges of zeros are holes."""
        if self._copy is None:
            with tempfile.TemporaryFile(prefix="cometmq-") as copy:
                os.ftruncate(copy.fileno(), self.size)
                for begin in range(0, self.size, BLOCK):
                    data = self._remote.fetch(begin, min(begin + BLOCK, self.size))
                    if any(data):
                        os.pwrite(copy.fileno(), data, begin)
                self._copy = DiskFile(self.path, os.dup(copy.fileno()), self._pages)
        return self._copy


def _read_only(path: Path) -> OSError:
    return OSError(f"{path}: a store that is not on a local disk cannot be written to")


def _remote(path: Path) -> RemotePath:
    remote = path_of(path)
    assert isinstance(remote, RemotePath), f"{path} is local"
    return remote
