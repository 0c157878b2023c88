"""The directory that a job fills, run after run: on a disk, or on a file system that fsspec writes to.

A file is put there whole and under its final name, by one call: readers find all of it or nothing, even if a
process is killed. On a disk, and on other file systems that can rename (HDFS), it is written under another
name and renamed; an object store shows an object once its last byte is there. A repeated task writes the same
file under the same name again, so no row is there twice.

The plan and the results of rounds lie in a folder of the job's own (see ``rounds``).
"""

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple
from uuid import uuid4

from cometmq.errors import SettingsError, StoreLocked
from cometmq.extras import require
from cometmq.io.files import Disk
from cometmq.spark.files.remote import RemotePath, path_of
from cometmq.spark.jobs.rebuild.queue_files import ATTEMPTS, attempt
from cometmq.store.recovery.rebuild import remove_tree

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

LOCK: Final = "lock"
DELTA_LOG: Final = "_delta_log"
"""The folder that makes a directory a Delta table."""
FOLDERS_MAX: Final = 32
"""Folders that are listed one by one, with a request or more each; of more all files are listed together."""


class TargetFile(NamedTuple):
    """The name of a file in a target, and its length in bytes."""

    name: str
    size: int


class JobTarget(ABC):
    """A directory to fill. Names are those of files in it, with slashes: ``log=00…/00….parquet``."""

    def __init__(self, root: Path, state: str) -> None:
        self._root = root
        self._state = state

    @property
    def address(self) -> str:
        """The path or address, for people, for Spark and for Delta."""
        return str(self._root)

    def check(self) -> None:
        """Raise SettingsError if no files can be written here: it is a file, or its file system refuses."""
        if self._root.is_file():
            raise SettingsError(f"{self._root} is a file: give a directory, which may be new")

    def exists(self, name: str) -> bool:
        """Check whether there is a file or folder of this name."""
        return (self._root / name).exists()

    @abstractmethod
    def held(self) -> AbstractContextManager[None]:
        """Lock the target against other jobs for the block, where that is possible. Raises StoreLocked."""

    @abstractmethod
    def staging(self) -> AbstractContextManager[Path]:
        """Create a local folder for the files that a task writes; it is removed behind the block."""

    @abstractmethod
    def put(self, made: Path, name: str) -> None:
        """Move or copy a file from a ``staging`` folder; a file of this name has the same content."""

    @abstractmethod
    def create(self, name: str, data: bytes) -> bool:
        """Write a small file, whole, unless there is one of this name. Returns whether it was written."""

    @abstractmethod
    def load(self, name: str) -> bytes:
        """Read a small file. Raises FileNotFoundError."""

    @abstractmethod
    def open(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a file for random reads."""

    @abstractmethod
    def files(self, folders: Collection[str] | None = None) -> list[TargetFile]:
        """List all files, sorted by name, without those of jobs, whose folders begin with an underscore.

        Args:
            folders: only those in these folders, which need not exist.
        """

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; none if it does not exist."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file; no error if there is none."""

    @abstractmethod
    def sync(self, folder: str, first: str) -> None:
        """Wait until the files of a folder, those named ``first`` or later, are on the disk."""


def target_of(path: Path | str, state: str) -> JobTarget:
    """Return the target at a path or address; ``state`` is the job's own folder in it."""
    root = path_of(path).absolute()
    return RemoteTarget(root, state) if isinstance(root, RemotePath) else LocalTarget(root, state)


def check_delta_package() -> None:
    """Raise MissingExtra if Delta's package is not installed."""
    require("delta", "a Delta table")


class LocalTarget(JobTarget):
    """A directory on a disk, which all executors see at this path."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the directory; the unfinished files of tasks are removed, before and behind the block."""
        layer, directory = Disk(), self._root / self._state
        layer.make_directory(directory)
        token = layer.lock(directory / LOCK)
        if token is None:
            raise StoreLocked(f"{self._root} is being filled by another job: wait for it")
        try:
            remove_tree(layer, directory / ATTEMPTS)
            yield
            remove_tree(layer, directory / ATTEMPTS)
        finally:
            layer.unlock(token)

    def staging(self) -> AbstractContextManager[Path]:
        """Create a folder on the same disk."""
        return attempt(Disk(), self._root / self._state)

    def put(self, made: Path, name: str) -> None:
        """Rename a file to its name, once it is on the disk."""
        layer, path = Disk(), self._root / name
        layer.make_directory(path.parent)
        layer.sync(made)
        layer.rename(made, path)

    def create(self, name: str, data: bytes) -> bool:
        """Write a small file; no other job does meanwhile, as the target is locked."""
        layer, path = Disk(), self._root / name
        if layer.exists(path):
            return False
        layer.make_directory(path.parent)
        layer.save(path, data)
        return True

    def load(self, name: str) -> bytes:
        """Read a small file."""
        return Disk().load(self._root / name)

    def open(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a file for reading."""
        return (self._root / name).open("rb")

    def files(self, folders: Collection[str] | None = None) -> list[TargetFile]:
        """List all files, or those in some folders."""
        inside = self._root.glob("[!_]*") if folders is None else (self._root / name for name in folders)
        found = (
            TargetFile(path.relative_to(self._root).as_posix(), path.stat().st_size)
            for folder in inside
            for path in folder.rglob("*")
            if path.is_file()
        )
        return sorted(found)

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder."""
        return Disk().names(self._root / folder)

    def remove(self, name: str) -> None:
        """Remove a file."""
        Disk().remove(self._root / name)

    def sync(self, folder: str, first: str) -> None:
        """Wait until files and their names are on the disk."""
        layer, directory = Disk(), self._root / folder
        layer.sync_all([directory / name for name in layer.names(directory) if name >= first])
        layer.sync(directory)


class RemoteTarget(JobTarget):
    """A directory on another file system, which has no locks: see ``rounds`` on two jobs at once."""

    _root: RemotePath

    def check(self) -> None:
        """Raise SettingsError if no file can be written: a small one is, and removed again."""
        super().check()
        name = f"{self._state}/{uuid4().hex}"
        self.create(name, b"")
        self.remove(name)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Do nothing: there are no locks."""
        yield

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """Create a temporary folder on this machine."""
        with tempfile.TemporaryDirectory(prefix="cometmq-") as folder:
            yield Path(folder)

    def put(self, made: Path, name: str) -> None:
        """Upload a file."""
        path = self._root / name
        system, address = path.file_system()
        with path.checked_access():
            if _renames(system):
                _write_aside(system, address, lambda aside: system.put_file(str(made), aside))
            else:
                system.put_file(str(made), address)

    def create(self, name: str, data: bytes) -> bool:
        """Write a small file; only one of two jobs does."""
        path = self._root / name
        system, address = path.file_system()
        try:
            with path.checked_access():
                if _renames(system):
                    return _write_aside(system, address, lambda aside: system.pipe_file(aside, data))
                system.pipe_file(address, data, mode="create")
                return True
        except FileExistsError:
            return False
        except FileNotFoundError as error:
            raise SettingsError(f"{path}: {error}: make the bucket, or give another target") from None
        except (NotImplementedError, ValueError) as error:  # packages differ in what they raise
            scheme = path.parts[0].removesuffix(":")
            raise SettingsError(f"{self._root}: {scheme} cannot be written to: {error}") from None

    def load(self, name: str) -> bytes:
        """Read a small file."""
        path = self._root / name
        return path.fetch(0, path.length())

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """Open a file for reading."""
        path = self._root / name
        system, address = path.file_system()
        with path.checked_access(), system.open(address, "rb") as opened:
            yield opened

    def files(self, folders: Collection[str] | None = None) -> list[TargetFile]:
        """List all files, or those in some folders: no others are asked for, unless there are many."""
        depth = len(self._root.parts)
        places = [self._root]
        if folders is not None and len(folders) <= FOLDERS_MAX:
            places = [self._root / name for name in folders]
        found = (one for place in places for one in place.files_below())
        named = [TargetFile("/".join(path.parts[depth:]), size) for path, size in found]
        if folders is None:
            return sorted(file for file in named if not file.name.startswith("_"))
        return sorted(file for file in named if file.name.partition("/")[0] in folders)

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder."""
        try:
            return sorted(one.path.name for one in (self._root / folder).listing())
        except FileNotFoundError:
            return []

    def remove(self, name: str) -> None:
        """Remove a file."""
        path = self._root / name
        system, address = path.file_system()
        with path.checked_access(), suppress(FileNotFoundError):
            system.rm_file(address)

    def sync(self, folder: str, first: str) -> None:
        """Do nothing: such a file system keeps what it has accepted."""


def _renames(system: "AbstractFileSystem") -> bool:
    """Check whether files can be renamed: fsspec's default ``mv`` copies, as object stores cannot rename."""
    from fsspec import AbstractFileSystem  # noqa: PLC0415  an optional package, loaded by now

    return type(system).mv is not AbstractFileSystem.mv


def _write_aside(system: "AbstractFileSystem", address: str, write: Callable[[str], None]) -> bool:
    """Write a file under another name and rename it, unless its name exists; return whether it was renamed.

    An existing file is an earlier attempt's, of the same content.
    """
    folder, _, name = address.rpartition("/")
    aside = f"{folder}/.{name}.{uuid4().hex}"
    system.makedirs(folder, exist_ok=True)
    try:
        write(aside)
        if system.exists(address):
            return False
        system.mv(aside, address)
        return True
    finally:
        if system.exists(aside):
            system.rm_file(aside)
