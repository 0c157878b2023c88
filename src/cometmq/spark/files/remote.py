"""Read files on any file system that fsspec knows: ``s3://bucket/store``, ``gs://…``, ``abfs://…``, ``hdfs://…``.

Addresses and credentials are fsspec's own configuration, on the driver and on each executor: environment
variables (``AWS_…``, ``FSSPEC_S3_ENDPOINT_URL``) or files in ``~/.config/fsspec``.

Of a file a window is in memory, which moves on: of a local one it is mapped, of a remote one fetched. It
bounds the memory and the address space of a reader whatever the file's length: Spark limits the latter if
``spark.executor.pyspark.memory`` is set, and YARN may.
"""

import mmap
import os
import re
import sys
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path, PosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

import numpy as np

from cometmq.errors import SettingsError
from cometmq.io.files import Disk
from cometmq.io.regular import regular_stat
from cometmq.io.sparse_view import map_as_it_is
from cometmq.message import Buffer

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

BLOCK: Final = 8 * 1024 * 1024
"""Bytes of one request, at least: an object store takes tens of milliseconds for any request."""
MAPPED_BYTES: Final = 32 * 1024 * 1024
"""Bytes of a local file that are mapped at a time, unless more are read at once."""

S3: Final = ("s3:", "s3a:")
SET_CREDENTIALS: Final = "set credentials in ~/.config/fsspec, on the driver and on each executor"
SET_S3_CREDENTIALS: Final = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or key and secret in "
    "~/.config/fsspec/s3.json, on the driver and on each executor"
)

INSTALL: Final = {
    "s3": "pip install 'cometmq[s3]'",
    "s3a": "pip install 'cometmq[s3]'",
    "gs": "pip install gcsfs",
    "gcs": "pip install gcsfs",
    "abfs": "pip install adlfs",
    "abfss": "pip install adlfs",
    "az": "pip install adlfs",
}
"""By scheme, how to install fsspec's package for it, on the driver and on each executor."""
INSTALL_OTHER: Final = "pip install 'cometmq[s3]' brings fsspec itself, and its list names what else it needs"

HDFS_DEFAULT: Final = "default"
"""fsspec's name of the name node in Hadoop's own configuration; a path collapses three slashes."""

_ADDRESS: Final = re.compile(r"([a-z][a-z0-9+]+):/+(.*)", re.DOTALL | re.IGNORECASE)
"""A path collapses the slashes; a folder named ``s3:`` is not expected."""


class Listed(NamedTuple):
    """A file or folder in a listing; ``size`` is in bytes."""

    path: Path
    size: int
    is_file: bool


class RemotePath(PosixPath):
    """The address of a file or folder that fsspec reads. Other methods of a path fail."""

    __slots__ = ()

    def __str__(self) -> str:
        """Return the address."""
        return f"{self.parts[0]}//{'/'.join(self.parts[1:])}"

    def absolute(self) -> "RemotePath":
        """Return itself: an address is absolute."""
        return self

    def exists(self, **_: Any) -> bool:
        """Check whether there is a file or folder at the address."""
        return bool(self._ask("exists"))

    def is_file(self) -> bool:
        """Check whether it is a file."""
        return bool(self._ask("isfile"))

    def is_dir(self) -> bool:
        """Check whether it is a folder."""
        return bool(self._ask("isdir"))

    def listing(self) -> list[Listed]:
        """List the folder; the file itself if it is one. Raises FileNotFoundError."""
        found = [
            Listed(self / _last_part(one["name"]), int(one["size"] or 0), one["type"] == "file")
            for one in self._ask("ls", detail=True)
        ]
        is_file = len(found) == 1 and found[0].is_file and found[0].path.name == self.name
        return [found[0]._replace(path=self)] if is_file else found

    def file(self) -> Listed | None:
        """Return the file's name and size; None if there is no file at the address."""
        try:
            found = self._ask("info")
        except FileNotFoundError:
            return None
        return Listed(self, int(found["size"]), is_file=True) if found["type"] == "file" else None

    def files_below(self) -> list[tuple["RemotePath", int]]:
        """List all files below the folder, with their lengths in bytes; none if it does not exist."""
        found: dict[str, dict[str, Any]] = self._ask("find", detail=True)
        depth = len(self.file_system()[1].strip("/").split("/"))
        return [
            (self.joinpath(*name.strip("/").split("/")[depth:]), int(one["size"]))
            for name, one in found.items()
        ]

    def length(self) -> int:
        """Return the length of the file in bytes. Raises FileNotFoundError."""
        return int(self._ask("info")["size"])

    def fetch(self, begin: int, end: int) -> bytes:
        """Read the bytes from ``begin`` to before ``end``. Raises OSError if they cannot be read."""
        data = self._ask("cat_file", start=begin, end=end) if begin < end else b""
        if len(data) != end - begin:
            raise OSError(f"{self}: read {len(data)} bytes at {begin}, expected {end - begin}")
        return bytes(data)

    def _ask(self, what: str, **how: Any) -> Any:
        """Call a method of the file system with this path. Raises SettingsError if access is refused."""
        system, path = self.file_system()
        with self.checked_access():
            return getattr(system, what)(path, **how)

    @contextmanager
    def checked_access(self) -> Iterator[None]:
        """Raise SettingsError, with the remedy, where the file system refuses access inside the block."""
        try:
            yield
        except _refusals() as error:
            remedy = SET_S3_CREDENTIALS if self.parts[0] in S3 else SET_CREDENTIALS
            raise SettingsError(f"{self}: {error}: {remedy}") from None

    def file_system(self) -> "tuple[AbstractFileSystem, str]":
        """Return the file system and the path in it.

        Raises SettingsError if fsspec does not know the scheme, lacks a package for it, or cannot connect.
        """
        scheme = self.parts[0].removesuffix(":")
        try:
            from fsspec.core import url_to_fs  # noqa: PLC0415  an optional package

            system, path = url_to_fs(str(self), use_listings_cache=False)
        except ImportError as error:
            raise SettingsError(f"{self}: {error}: {INSTALL.get(scheme, INSTALL_OTHER)}") from None
        except ValueError as error:
            raise SettingsError(
                f"{self}: {error}: give a local path, or s3://, gs://, abfs://, hdfs://"
            ) from None
        except OSError as error:  # of HDFS: its client in C, or Java, is not there
            why = str(error).partition("\n")[0]
            raise SettingsError(f"{self}: {why}: see that the client of {scheme} is installed here") from None
        return system, str(path)


def _last_part(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2]


def _refusals() -> tuple[type[Exception], ...]:
    """Return the errors that mean refused access; S3 has one of its own for missing credentials."""
    botocore = sys.modules.get("botocore.exceptions")  # not imported: it cannot have raised
    return (PermissionError,) if botocore is None else (PermissionError, botocore.NoCredentialsError)


def path_of(text: Path | str) -> Path:
    """Return a path for a text, or for what ``Path`` made of one; remote if it is an address."""
    if isinstance(text, RemotePath):
        return text
    match = _ADDRESS.fullmatch(str(text))
    if match is None:
        return Path(text)
    scheme, rest = match[1].lower(), match[2]
    if str(text).lower().startswith("hdfs:///"):
        rest = f"{HDFS_DEFAULT}/{rest}"
    if scheme == "file":
        return Path("/", unquote(urlsplit(f"file:///{rest}").path))
    return RemotePath(f"{scheme}:", *rest.split("/"))


def spark_path(path: Path) -> str:
    """Return a local absolute path for Spark, which takes names literally: ``as_uri`` would escape some."""
    return f"file://{path}"


def file_at(path: Path) -> Listed | None:
    """Return the name and size of the file at ``path``; None if there is no file.

    Raises NotRegularFile if a FIFO, device or socket is there.
    """
    if isinstance(path, RemotePath):
        return path.file()
    if path.is_dir() or not path.exists():
        return None
    return Listed(path, regular_stat(path).st_size, is_file=True)


def listing(path: Path) -> list[Listed]:
    """List a folder, in no order; the file itself if ``path`` is one.

    Names and sizes of a remote folder come from its listing alone: S3 has a thousand in a request.
    Raises FileNotFoundError if there is none, NotRegularFile if it is neither, SettingsError if access is
    refused.
    """
    if isinstance(path, RemotePath):
        return path.listing()
    if (one := file_at(path)) is not None:
        return [one]
    found = []
    with os.scandir(path) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # removed meanwhile: a broker may be at work
                found.append(Listed(path / entry.name, entry.stat().st_size, entry.is_file()))
    return found


def written_end(path: Path) -> int:
    """Return the position of the hole at the end of a local file; its length if there is none."""
    with closing(Disk().open(path, writable=False)) as file:
        return file.data_end(0)


class FileBytes(Protocol):
    """The bytes of a file, of which a window is in memory."""

    @property
    def written(self) -> int:
        """Position of the hole at the file's end, where nothing was written; its length if none is known."""
        ...

    def read(self, begin: int, end: int) -> memoryview:
        """Return the bytes from ``begin`` to before ``end``, cut at the file's end.

        They are valid until the next ``read``; those before ``begin`` may be dropped.
        """
        ...

    def peek(self, begin: int, end: int) -> Buffer:
        """Return a range of bytes, cut at the file's end, without dropping any that were read."""
        ...


class MappedWindow:
    """The bytes of a local file; a part is mapped. Raises OSError if it cannot be opened."""

    def __init__(self, path: Path, size: int) -> None:
        regular_stat(path)
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._fd)
        self._size = size
        self._begin = self._end = 0
        self._view = memoryview(b"")
        self.written = min(written_end(path), size)

    def read(self, begin: int, end: int) -> memoryview:
        """Return a range of bytes: see ``FileBytes.read``."""
        end = min(end, self._size)
        if begin >= end:
            return memoryview(b"")
        if begin < self._begin or self._end < end:
            self._map(begin, end)
        return self._view[begin - self._begin : end - self._begin]

    def peek(self, begin: int, end: int) -> Buffer:
        """Return a range of bytes."""
        return os.pread(self._fd, max(min(end, self._size) - begin, 0), begin)

    def _map(self, begin: int, end: int) -> None:
        self._view = memoryview(b"")  # unmap the former window first
        self._begin = begin - begin % mmap.ALLOCATIONGRANULARITY
        self._end = min(max(end, self._begin + MAPPED_BYTES), self._size)
        window = map_as_it_is(self._fd, self._begin, self._end)
        window.madvise(mmap.MADV_SEQUENTIAL)
        self._view = memoryview(window)


class Window:
    """The bytes of a remote file; those that were read last are in memory.

    Args:
        end: up to here whole blocks are fetched, behind it only what is read.

    Attributes:
        fetched: how many bytes were fetched.
    """

    def __init__(self, path: RemotePath, size: int, end: int, block: int = BLOCK) -> None:
        self._path = path
        self._last = end
        self._block = block
        self._buffer = np.empty(0, np.uint8)
        self._begin = self._end = 0
        self.written = size
        self.fetched = 0

    def read(self, begin: int, end: int) -> memoryview:
        """Return a range of bytes; fetch those that are missing."""
        end = min(end, self.written)
        if not self._begin <= begin <= self._end:
            self._begin = self._end = begin
        if end > self._end:
            self._extend(begin, end)
        return self._part(begin, end)

    def peek(self, begin: int, end: int) -> Buffer:
        """Return a range of bytes, fetched unless it is in memory."""
        end = min(end, self.written)
        if self._begin <= begin and end <= self._end:
            return self._part(begin, end)
        self.fetched += end - begin
        return self._path.fetch(begin, end)

    def _part(self, begin: int, end: int) -> memoryview:
        return self._buffer[begin - self._begin : max(end, begin) - self._begin].data.toreadonly()

    def _extend(self, begin: int, end: int) -> None:
        """Fetch blocks until the bytes up to ``end`` are there; drop those before ``begin``."""
        upto, last = self._end, min(max(self._last, end), self.written)
        while upto < end:
            upto = min(upto + self._block, last)
        kept, buffer = self._buffer[begin - self._begin : self._end - self._begin], self._buffer
        if len(buffer) < upto - begin:
            buffer = np.empty(upto - begin, np.uint8)
        buffer[: len(kept)] = kept
        self._buffer, self._begin = buffer, begin
        while self._end < upto:
            behind = min(self._end + self._block, upto)
            data = self._path.fetch(self._end, behind)
            buffer[self._end - begin : behind - begin] = np.frombuffer(data, np.uint8)
            self.fetched += len(data)
            self._end = behind


def opened(path: Path, size: int, end: int) -> FileBytes:
    """Open a file to be read up to ``end`` or a little further. Raises OSError."""
    return Window(path, size, end) if isinstance(path, RemotePath) else MappedWindow(path, size)
