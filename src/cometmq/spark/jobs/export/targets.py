"""The directory that a job fills, run after run: on a disk, or on a file system that fsspec writes to.

A file comes to it whole and under its final name, by one call: readers find all of it or nothing, whoever is
killed. On a disk, and where else a file can be renamed (HDFS), it is made aside and renamed; an object store
shows an object once its last byte is there. A task that is repeated makes the same file of the same name
again, so nothing is ever there twice.

What is under way, and what counts of what is there, lies in a folder of the job's own (see ``rounds``).
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, Protocol
from uuid import uuid4

from cometmq.errors import SettingsError, StoreLocked
from cometmq.io.files import Disk
from cometmq.spark.files.remote import RemotePath, path_of
from cometmq.spark.jobs.rebuild.queue_files import ATTEMPTS, attempt
from cometmq.store.recovery.rebuild import remove_tree

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

LOCK: Final = "lock"


class TargetFile(NamedTuple):
    """A file that lies in a target, and its length in bytes."""

    name: str
    size: int


class JobTarget(Protocol):
    """A directory to fill. Names are those of files in it, with slashes: ``log=00…/00….parquet``."""

    @property
    def address(self) -> str:
        """Where it is, for people, for Spark and for Delta."""
        ...

    def check(self) -> None:
        """Raise SettingsError if nothing can be put here.

        It is a file; or its file system is not known, needs a package, or takes no writes from here.
        """
        ...

    def held(self) -> AbstractContextManager[None]:
        """Keep other jobs from it inside the block, where that is possible. Raises StoreLocked."""
        ...

    def staging(self) -> AbstractContextManager[Path]:
        """Return a local folder for the files that a task makes; it is removed at the end."""
        ...

    def put(self, made: Path, name: str) -> None:
        """Put a file here that was made in a ``staging`` folder; one of this name has the same content."""
        ...

    def create(self, name: str, data: bytes) -> bool:
        """Write a small file, whole, unless there is one of this name. Returns whether it was written."""
        ...

    def load(self, name: str) -> bytes:
        """Read a small file. Raises FileNotFoundError."""
        ...

    def open(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a file for reading, here and there."""
        ...

    def files(self) -> list[TargetFile]:
        """List all files, sorted by name, without those of jobs, whose folders begin with an underscore."""
        ...

    def exists(self, name: str) -> bool:
        """Return whether there is a file or folder of this name."""
        ...

    def names(self, folder: str) -> list[str]:
        """List the names in a folder, sorted; none if it is not there."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file; no error if it is not there."""
        ...

    def sync(self, folder: str, first: str) -> None:
        """Wait until the files of a folder, those named ``first`` or later, are on the disk."""
        ...


def target_of(path: Path | str, state: str) -> JobTarget:
    """Return the directory at a path or an address; ``state`` is its folder for what is under way."""
    place = path_of(path).absolute()
    if isinstance(place, RemotePath):
        return RemoteTarget(place, state)
    return LocalTarget(place, state)


class LocalTarget:
    """A directory on a disk, which all executors see at this path."""

    def __init__(self, place: Path, state: str) -> None:
        self._place = place
        self._state = state

    @property
    def address(self) -> str:
        """Where it is."""
        return str(self._place)

    def check(self) -> None:
        """Raise SettingsError if it is a file."""
        if self._place.exists() and not self._place.is_dir():
            raise SettingsError(f"{self._place} is a file: give a directory, which may be new")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other jobs from it; what tasks have left unfinished is removed, before and behind."""
        layer, directory = Disk(), self._place / self._state
        layer.make_directory(directory)
        token = layer.lock(directory / LOCK)
        if token is None:
            raise StoreLocked(f"{self._place} is being filled by another job: wait for it")
        try:
            remove_tree(layer, directory / ATTEMPTS)
            yield
            remove_tree(layer, directory / ATTEMPTS)
        finally:
            layer.unlock(token)

    def staging(self) -> AbstractContextManager[Path]:
        """Return a folder on the same disk."""
        return attempt(Disk(), self._place / self._state)

    def put(self, made: Path, name: str) -> None:
        """Rename a file into its place, once it is on the disk."""
        layer, path = Disk(), self._place / name
        layer.make_directory(path.parent)
        layer.sync(made)
        layer.rename(made, path)

    def create(self, name: str, data: bytes) -> bool:
        """Write a small file; nobody else does meanwhile, as the target is held."""
        layer, path = Disk(), self._place / name
        if layer.exists(path):
            return False
        layer.make_directory(path.parent)
        layer.save(path, data)
        return True

    def load(self, name: str) -> bytes:
        """Read a small file."""
        return Disk().load(self._place / name)

    def open(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a file for reading."""
        return (self._place / name).open("rb")

    def files(self) -> list[TargetFile]:
        """List all files."""
        found = (
            TargetFile(path.relative_to(self._place).as_posix(), path.stat().st_size)
            for folder in self._place.glob("[!_]*")
            for path in folder.rglob("*")
            if path.is_file()
        )
        return sorted(found)

    def exists(self, name: str) -> bool:
        """Return whether there is a file or folder of this name."""
        return Disk().exists(self._place / name)

    def names(self, folder: str) -> list[str]:
        """List the names in a folder."""
        return Disk().names(self._place / folder)

    def remove(self, name: str) -> None:
        """Remove a file."""
        Disk().remove(self._place / name)

    def sync(self, folder: str, first: str) -> None:
        """Wait until files and their names are on the disk."""
        layer, directory = Disk(), self._place / folder
        layer.sync_all([directory / name for name in layer.names(directory) if name >= first])
        layer.sync(directory)


class RemoteTarget:
    """A directory on another file system. Nothing there can be held: see ``rounds`` on two jobs at once."""

    def __init__(self, place: RemotePath, state: str) -> None:
        self._place = place
        self._state = state

    @property
    def address(self) -> str:
        """Where it is."""
        return str(self._place)

    def check(self) -> None:
        """Raise SettingsError if nothing can be put here: a small file is, and removed again."""
        if self._place.is_file():
            raise SettingsError(f"{self._place} is a file: give a folder, which may be new")
        name = f"{self._state}/{uuid4().hex}"
        self.create(name, b"")
        self.remove(name)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep nobody from it."""
        yield

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """Return a temporary folder of this machine."""
        with tempfile.TemporaryDirectory(prefix="cometmq-") as folder:
            yield Path(folder)

    def put(self, made: Path, name: str) -> None:
        """Upload a file."""
        path = self._place / name
        system, address = path.found()
        with path.explained():
            if _renames(system):
                _write_aside(system, address, lambda aside: system.put_file(str(made), aside))
            else:
                system.put_file(str(made), address)

    def create(self, name: str, data: bytes) -> bool:
        """Write a small file; of two jobs one does."""
        path = self._place / name
        system, address = path.found()
        try:
            with path.explained():
                if _renames(system):
                    return _write_aside(system, address, lambda aside: system.pipe_file(aside, data))
                system.pipe_file(address, data, mode="create")
                return True
        except FileExistsError:
            return False
        except FileNotFoundError as error:
            raise SettingsError(f"{path}: {error}: make the bucket, or give another target") from None
        except (NotImplementedError, ValueError) as error:  # as the packages like
            scheme = path.parts[0].removesuffix(":")
            raise SettingsError(f"{self._place}: {scheme} cannot be written to: {error}") from None

    def load(self, name: str) -> bytes:
        """Read a small file."""
        path = self._place / name
        return path.fetch(0, path.length())

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """Open a file for reading."""
        path = self._place / name
        system, address = path.found()
        with path.explained(), system.open(address, "rb") as opened:
            yield opened

    def files(self) -> list[TargetFile]:
        """List all files."""
        depth = len(self._place.parts)
        named = (TargetFile("/".join(path.parts[depth:]), size) for path, size in self._place.files_below())
        return sorted(file for file in named if not file.name.startswith("_"))

    def exists(self, name: str) -> bool:
        """Return whether there is a file or folder of this name."""
        return (self._place / name).exists()

    def names(self, folder: str) -> list[str]:
        """List the names in a folder."""
        try:
            return sorted(one.path.name for one in (self._place / folder).listing())
        except FileNotFoundError:
            return []

    def remove(self, name: str) -> None:
        """Remove a file."""
        path = self._place / name
        system, address = path.found()
        with path.explained(), suppress(FileNotFoundError):
            system.rm_file(address)

    def sync(self, folder: str, first: str) -> None:
        """Do nothing: what such a file system has taken, it keeps."""


def _renames(system: "AbstractFileSystem") -> bool:
    """Return whether files can be renamed: fsspec's own ``mv`` copies, as object stores know no other way."""
    from fsspec import AbstractFileSystem  # noqa: PLC0415  an optional package, loaded by now

    return type(system).mv is not AbstractFileSystem.mv


def _write_aside(system: "AbstractFileSystem", address: str, write: Callable[[str], None]) -> bool:
    """Write a file under another name and rename it, unless there is one of its name; return whether it was.

    What is there is what an earlier attempt has made, of the same content.
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
