"""A disk that records all operations, and returns the states in which a power loss can leave it.

An operation here is one system call. At the moment of the loss each is either certain, because its
file (for bytes) or its directory (for names) was synced after it, or open::

    bytes    written, not written, or either for each 512-byte sector; in any order
    length   set or not
    names    created, renamed and removed, or not; those of one directory in order, and a rename as a whole

The extremes (all of the open operations, none of them, or single ones) are drawn more often than by chance:
most faults need only one of them. The states are such disks too, so their recovery can be interrupted again.

Source: Pillai et al., "All File Systems Are Not Created Equal" (OSDI 2014), for what a file system may do.
"""

import errno
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Final, NamedTuple, Self, TypeVar

from cometmq.io.files import TEMPORARY_SUFFIX, File
from cometmq.message import Buffer
from cometmq.testing.memory_disk import Content, MemoryDisk, MemoryFile, os_error

SECTOR_SIZE: Final = 512
TORN_SHARE: Final = 0.3
DIRECTORY: Final = Content(bytearray())
"""Stands for any directory in the tables of names."""


class Write(NamedTuple):
    """An operation: bytes were written to a file."""

    content: Content
    position: int
    data: bytes


class Length(NamedTuple):
    """An operation: the length of a file was set."""

    content: Content
    size: int


class Names(NamedTuple):
    """An operation: names were set to other files, or removed (None), all at once."""

    nodes: dict[Path, Content | None]


class Synced(NamedTuple):
    """An operation: a file's bytes, or a directory's names, were synced as of operation ``before``."""

    what: Content | Path
    before: int


T = TypeVar("T")
_Loose = Write | Length | Names
Operation = _Loose | Synced


class RecordedFile(MemoryFile):
    """An open file of a RecordedDisk."""

    def __init__(self, disk: "RecordedDisk", path: Path, content: Content) -> None:
        super().__init__(disk, path, content)
        self._recorder = disk

    def write(self, position: int, data: Buffer) -> None:
        """Write all of ``data``; on a full disk nothing is recorded."""
        self._recorder.check_alive(self.path)
        super().write(position, data)
        self._recorder.operations.append(Write(self._content, position, bytes(data)))


class RecordedDisk(MemoryDisk):
    """A file layer in memory that records its operations.

    Attributes:
        operations: all operations, in order.
    """

    def __init__(self, space_bytes: int = 2**40) -> None:
        super().__init__(space_bytes)
        self.operations: list[Operation] = []
        self._killed = False
        self._first_names: dict[Path, Content] = {Path("/"): DIRECTORY}
        self._first_data: dict[Content, bytes] = {}

    def after_kill(self) -> Self:
        """Return the disk for the next process; this object refuses all further operations."""
        other = type(self)(self.space_bytes)
        other.now_ms, other.operations = self.now_ms, self.operations
        other._files, other._directories = self._files, self._directories  # noqa: SLF001 - of the same class
        other._first_names, other._first_data = self._first_names, self._first_data  # noqa: SLF001 - as above
        self._killed = True
        return other

    def after_power_loss(self, chance: Random | None = None) -> Self:
        """Return the disk after a power loss now; without ``chance`` only what is certain."""
        return next(self.states([len(self.operations)], chance))

    def states(self, moments: Iterable[int], chance: Random | None = None) -> Iterator[Self]:
        """Iterate over the disk after power losses, each after a number of operations, ascending."""
        disk_state = _DiskState(self._first_names, self._first_data)
        done = 0
        for moment in moments:
            for number in range(done, moment):
                disk_state.take(number, self.operations[number])
            done = moment
            yield self._with(*disk_state.state(chance))

    def check_alive(self, path: Path) -> None:
        """Raise OSError if the process was killed."""
        if self._killed:
            raise os_error(errno.EIO, path)

    # The operations, in the system calls that Disk makes.

    def create(self, path: Path, size: int, *, durable: bool = True) -> File:
        """Create a sparse file of ``size`` zero bytes under a temporary name, then rename it."""
        self.check_alive(path)
        file = super().create(path, size, durable=durable)
        content = self._content(path)
        self._record_names({_temporary(path): content})
        self.operations.append(Length(content, size))
        if durable:
            self._record_sync(content)
        self._record_names({_temporary(path): None, path: content}, durable=durable)
        return file

    def save(self, path: Path, data: bytes) -> None:
        """Replace the content of ``path`` by write, sync, rename, and sync of the directory."""
        self.check_alive(path)
        super().save(path, data)
        content = self._content(path)
        self._record_names({_temporary(path): content})
        self.operations.append(Write(content, 0, data))
        self._record_sync(content)
        self._record_names({_temporary(path): None, path: content}, durable=True)

    def sync(self, path: Path) -> None:
        """Sync a file: everything written to ``path`` survives a power loss."""
        self.check_alive(path)
        before = len(self.operations)  # bytes written during the sync need not be on the disk
        super().sync(path)
        self._record_sync(path if self.is_directory(path) else self._content(path), before)

    def make_directory(self, path: Path, *, durable: bool = True) -> None:
        """Create the directory ``path`` and its parents, if missing."""
        if self.is_directory(path):
            return
        self.check_alive(path)
        self.make_directory(path.parent, durable=durable)
        super().make_directory(path, durable=durable)
        self._record_names({path: DIRECTORY}, durable=durable)

    def rename(self, old: Path, new: Path, *, durable: bool = True) -> None:
        """Rename a file, replacing ``new``, or a directory with its content to a free name."""
        self.check_alive(old)
        before = self._nodes()
        super().rename(old, new, durable=durable)
        after = self._nodes()
        changed = {path for path in before | after if before.get(path) is not after.get(path)}
        self._record_names({path: after.get(path) for path in changed})
        if durable:
            self._record_sync(new.parent)

    def remove(self, path: Path, *, durable: bool = True) -> None:
        """Remove a file, if it exists."""
        self.check_alive(path)
        if path in self._files:
            super().remove(path)
            self._record_names({path: None}, durable=durable)

    def remove_directory(self, path: Path, *, durable: bool = True) -> None:
        """Remove an empty directory, if it exists."""
        self.check_alive(path)
        if self.is_directory(path):
            super().remove_directory(path)
            self._record_names({path: None}, durable=durable)

    def lock(self, path: Path) -> int | None:
        """Lock ``path``; None if it is locked."""
        self.check_alive(path)
        is_new = not self.exists(path)
        token = super().lock(path)
        if is_new:
            self._record_names({path: self._content(path)})
            self.operations.append(Write(self._content(path), 0, b"lock"))
        return token

    def put(self, path: Path, data: bytes, *, synced: bytes | None = None) -> None:
        """Set up a file that has long been on the disk."""
        super().put(path, data, synced=synced)
        content = self._first_names[path] = self._content(path)
        self._first_data[content] = content.synced

    # Internals.

    def _file(self, path: Path, content: Content) -> MemoryFile:
        return RecordedFile(self, path, content)

    def _record_names(self, nodes: dict[Path, Content | None], *, durable: bool = False) -> None:
        self.operations.append(Names(nodes))
        if durable:
            self._record_sync(next(iter(nodes)).parent)

    def _record_sync(self, what: Content | Path, before: int | None = None) -> None:
        self.operations.append(Synced(what, len(self.operations) if before is None else before))

    def _nodes(self) -> dict[Path, Content]:
        return self._files | dict.fromkeys(self._directories, DIRECTORY)

    def _with(self, names: dict[Path, Content], data: dict[Content, bytearray]) -> Self:
        other = type(self)(self.space_bytes)
        other.now_ms = self.now_ms
        for path, content in names.items():
            if content is not DIRECTORY:
                other.put(path, bytes(data.get(content, b"")))
                other._files[path].modified_ms = content.modified_ms  # noqa: SLF001 - of the same class
        directories = {path for path, content in names.items() if content is DIRECTORY}
        other._directories |= directories  # noqa: SLF001 - of the same class
        other._first_names |= dict.fromkeys(directories, DIRECTORY)  # noqa: SLF001 - as above
        return other


class _DiskState:
    """The certain state of a disk, and the open operations."""

    def __init__(self, names: dict[Path, Content], data: dict[Content, bytes]) -> None:
        self._names: dict[Path, Content | None] = dict(names)
        self._data = {content: bytearray(known) for content, known in data.items()}
        self._loose: dict[int, _Loose] = {}

    def take(self, number: int, operation: Operation) -> None:
        """Add an operation; a sync makes earlier ones certain."""
        if not isinstance(operation, Synced):
            self._loose[number] = operation
            return
        before = [n for n in self._loose if n < operation.before]
        for other in sorted(self._certain_after(operation.what, before)):
            _apply(self._loose.pop(other), self._names, self._data)

    def _certain_after(self, what: Content | Path, numbers: list[int]) -> Iterator[int]:
        """Return which operations a sync makes certain: with a move, all earlier ones in its directories."""
        certain = {what}
        for number in sorted(numbers, reverse=True):
            operation = self._loose[number]
            if not isinstance(operation, Names):
                if operation.content in certain:
                    yield number
            elif not certain.isdisjoint(directories := {path.parent for path in operation.nodes}):
                certain |= directories
                yield number

    def state(self, chance: Random | None) -> tuple[dict[Path, Content], dict[Content, bytearray]]:
        """Return names and bytes as a power loss may leave them."""
        names = dict(self._names)
        data = {content: bytearray(known) for content, known in self._data.items()}
        if chance is not None:
            moves = [loose for loose in self._loose.values() if isinstance(loose, Names)]
            writes = [loose for loose in self._loose.values() if not isinstance(loose, Names)]
            for operation in (
                *_in_order(moves, _choose_surviving(moves, chance)),
                *_torn(_choose_surviving(writes, chance), chance),
            ):
                _apply(operation, names, data)
        there = {path: node for path, node in names.items() if node is not None}
        found = {path: node for path, node in there.items() if _is_reached(path, there)}
        return found, data


def _temporary(path: Path) -> Path:
    return path.with_name(path.name + TEMPORARY_SUFFIX)


def _in_order(moves: list[Names], kept: list[Names]) -> Iterator[Names]:
    """Iterate over those of ``kept`` before which no operation of their directories is missing."""
    stopped: set[Path] = set()
    lucky = set(map(id, kept))
    for move in moves:
        directories = {path.parent for path in move.nodes}
        if id(move) in lucky and not directories & stopped:
            yield move
        else:
            stopped |= directories


def _choose_surviving(operations: list[T], chance: Random) -> list[T]:
    """Choose the operations that reach the disk: all, none, one, all but one, or random ones."""
    one = chance.randrange(len(operations)) if operations else 0
    match chance.randrange(6):
        case 0:
            return []
        case 1:
            return operations
        case 2:
            return operations[one : one + 1]
        case 3:
            return operations[:one] + operations[one + 1 :]
    return [operation for operation in operations if chance.random() < 1 / 2]


def _torn(operations: list[Write | Length], chance: Random) -> Iterator[Write | Length]:
    """Iterate over what the disk has of operations: of some writes only some sectors."""
    share = chance.choice((0, 0, TORN_SHARE, 1))
    for operation in operations:
        if isinstance(operation, Write) and chance.random() < share:
            yield from (sector for sector in _sectors(operation) if chance.random() < 1 / 2)
        else:
            yield operation


def _sectors(write: Write) -> Iterator[Write]:
    """Split a write at the borders of sectors, as the disk may."""
    at, end = write.position, write.position + len(write.data)
    while at < end:
        border = min(at - at % SECTOR_SIZE + SECTOR_SIZE, end)
        yield Write(write.content, at, write.data[at - write.position : border - write.position])
        at = border


def _apply(operation: _Loose, names: dict[Path, Content | None], data: dict[Content, bytearray]) -> None:
    if isinstance(operation, Names):
        names.update(operation.nodes)
        return
    known = data.setdefault(operation.content, bytearray())
    end = operation.size if isinstance(operation, Length) else operation.position + len(operation.data)
    known.extend(bytes(max(end - len(known), 0)))
    if isinstance(operation, Length):
        del known[end:]
    else:
        known[operation.position : end] = operation.data


def _is_reached(path: Path, names: dict[Path, Content]) -> bool:
    """Check whether all directories above a path exist."""
    return all(names.get(parent) is DIRECTORY for parent in path.parents)
