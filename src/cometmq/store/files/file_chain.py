"""A log on disk: files of one fixed length, each named by the offset of its first byte.

The CommitLog is one such chain, each ConsumeQueue another. Names need not begin at 0, since old
files are deleted, but they follow one another without a gap.

Source: RocketMQ ``store/MappedFileQueue.java``.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, suppress
from functools import lru_cache
from pathlib import Path

from cometmq.errors import FormatError, StoreDamaged
from cometmq.format import layout
from cometmq.io.files import TEMPORARY_SUFFIX, File
from cometmq.io.open_files import OpenFiles
from cometmq.io.regular import NotRegularFile
from cometmq.logs import get_logger
from cometmq.message import Buffer
from cometmq.store.files.finding import Finding, Severity
from cometmq.store.files.folders import files_in

log = get_logger(__name__)

UNFINISHED = "a file that was being created when the process ended"

CLEAR_SIZE = 64_000
"""Bytes that clearing compares with zeros at once."""
PATHS_MAX = 4_096
"""Paths that are cached, some 0.6 KB each: every read of a record needs one."""


class FileChain:
    """The files of one log, by offset.

    Args:
        files: the store's open files.
        directory: the files' directory; created with the first file.
        file_size: length of each file.
        setting: name of the setting for the length, for errors.
        remedy: how to repair a file that has another length, for errors.
        durable: whether creating a file waits for the disk.
    """

    __slots__ = ("_directory", "_durable", "_remedy", "_setting", "file_size", "files", "starts")

    def __init__(
        self,
        files: OpenFiles,
        directory: Path,
        file_size: int,
        setting: str,
        remedy: str = "restore the file",
        *,
        durable: bool = True,
    ) -> None:
        self.files = files
        self._directory = str(directory)  # a Path takes thrice the memory, and there can be many chains
        self.file_size = file_size
        self.starts: list[int] = []
        self._setting = setting
        self._remedy = remedy
        self._durable = durable

    def load(self, drop_unsynced: Callable[[Path], object] | None = None) -> None:
        """Find the chain's files in the directory.

        Args:
            drop_unsynced: takes the first file that is too short or follows a gap out of the directory, and
                all behind it: what a loss of power leaves of files that were created without waiting for
                the disk. Only for a chain that can be rebuilt from another.

        Raises StoreDamaged for a file of the wrong length or a gap between files. Temporary files, and
        a last file of length 0 (what a crash while creating a file can leave), are removed.
        """
        findings = self.find_files()
        if findings and drop_unsynced is not None:
            self._drop_unsynced(drop_unsynced)
            findings = self.find_files()
        for finding in findings:
            if finding.severity is not Severity.RECOVERY:
                raise StoreDamaged(str(finding))
            self.files.layer.remove(finding.path)

    def find_files(self) -> list[Finding]:
        """Find the files without changing any; return findings about files left out and about gaps."""
        self.starts = []
        findings = []
        names = self._names()
        for name in names:
            finding = self._check(name)
            if finding is not None and self._is_unfinished(name, is_last=name == names[-1]):
                finding = Finding(Severity.RECOVERY, finding.path, None, None, UNFINISHED)
            if finding is not None:
                findings.append(finding)
        return findings

    @property
    def directory(self) -> Path:
        """The files' directory."""
        return Path(self._directory)

    @property
    def directories(self) -> tuple[Path, ...]:
        """All directories with files of the chain."""
        return (self.directory,)

    def path(self, start: int) -> Path:
        """Return the path of the file that begins at ``start``."""
        return _path(self._directory, start)

    def new_path(self, start: int) -> Path:
        """Return where a new file that begins at ``start`` is to be created."""
        return self.path(start)

    @property
    def first_offset(self) -> int:
        """Offset of the first file's first byte; 0 without files."""
        return self.starts[0] if self.starts else 0

    @property
    def end_offset(self) -> int:
        """Offset behind the last file; 0 without files."""
        return self.starts[-1] + self.file_size if self.starts else 0

    def start_of(self, offset: int) -> int | None:
        """Return the start of the file that holds ``offset``, or None if there is no such file."""
        starts = self.starts  # the owner may replace it while another thread reads it here
        at = bisect_right(starts, offset) - 1
        if at < 0 or offset >= starts[at] + self.file_size:
            return None
        return starts[at]

    def file(self, start: int) -> File:
        """Return the file that begins at ``start``."""
        return self.files.get(self.path(start))

    def held(self, start: int) -> AbstractContextManager[File]:
        """Hold the file that begins at ``start`` open within a ``with`` statement: for other threads."""
        return self.files.held(self.path(start))

    def extend(self, start: int | None = None) -> File:
        """Create the next file; for an empty chain the one that begins at ``start`` (default 0)."""
        if self.starts:
            start = self.end_offset
        path = self.new_path(start or 0)
        self.files.layer.make_directory(path.parent, durable=self._durable)
        file = self.files.create(path, self.file_size, durable=self._durable)
        self.add(start or 0, path)
        return file

    def add(self, start: int, path: Path) -> None:
        """Add the file that begins at ``start`` and exists already: the next one, or the first."""
        del path  # there is one directory
        assert not self.starts or start == self.end_offset, f"{start} is not the next after {self.starts[-1]}"
        self.starts.append(start)

    def avoid(self, full: Collection[Path]) -> None:
        """Create no file in these directories, as long as there are others: there are none."""

    def write(self, offset: int, data: Buffer) -> None:
        """Write ``data`` at ``offset``, across files; missing files behind the last one are created."""
        start = self.start_of(offset)
        if start is not None and offset + len(data) <= start + self.file_size:  # nearly always
            self.file(start).write(offset - start, data)
            return
        assert not self.starts or offset >= self.first_offset, f"{offset} is before {self.first_offset}"
        view = memoryview(data)
        while view:
            while (start := self.start_of(offset)) is None:
                self.extend(offset - offset % self.file_size)
            part = view[: start + self.file_size - offset]
            self.file(start).write(offset - start, part)
            view = view[len(part) :]
            offset += len(part)

    def read(self, offset: int, size: int) -> bytes:
        """Read up to ``size`` bytes at ``offset``, across files; fewer where files are missing."""
        parts = []
        while size > 0 and (start := self.start_of(offset)) is not None:
            part = self.file(start).read(offset - start, min(size, start + self.file_size - offset))
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def filled_from(self, offset: int) -> Iterator[tuple[int, bytes]]:
        """Read the data from ``offset`` on, file by file, without files that hold only zeros there."""
        for start in self.starts:
            position = max(offset - start, 0)
            if position < self.file_size:
                data = self.file(start).read(position, self.file(start).data_end(position) - position)
                if data.strip(b"\0"):
                    yield start + position, data

    def clear_from(self, offset: int) -> int:
        """Overwrite the data from ``offset`` on with zeros; return the offset of the first changed piece."""
        clean_end = self.end_offset
        for start in self.starts:
            position = max(offset - start, 0)
            if position >= self.file_size:
                continue
            data_end = self.file(start).data_end(position)
            for at in range(position, data_end, CLEAR_SIZE):
                size = min(CLEAR_SIZE, data_end - at)
                if self.read(start + at, size).strip(b"\0"):
                    clean_end = min(clean_end, start + at)
                    self.write(start + at, bytes(size))
        return clean_end

    def remove_from(self, offset: int) -> None:
        """Remove the files that begin at or behind ``offset``."""
        while self.starts and self.starts[-1] >= offset:
            self._remove(self.starts.pop())

    def detach_before(self, offset: int) -> list[Path]:
        """Remove the files that end at or before ``offset`` from the chain, but never the last one.

        They stay on the disk. The caller removes them in the order returned, each durably before the next,
        so that a crash leaves no gap.
        """
        count = max(min(bisect_right(self.starts, offset - self.file_size), len(self.starts) - 1), 0)
        detached, self.starts = self.starts[:count], self.starts[count:]
        paths = [self.path(start) for start in detached]
        for path in paths:
            self.files.forget(path)
        return paths

    def detach(self) -> None:
        """Remove all files from the chain; they stay on the disk until ``remove``."""
        detached, self.starts = self.starts, []
        for start in detached:
            self.files.forget(self.path(start))

    def remove(self) -> None:
        """Remove all files, detached ones too, and the directory. Raises OSError: it may be called again."""
        self.detach()
        layer, names = self.files.layer, self._names()
        for name in reversed(names):
            self.files.forget(self._place(name))  # a reader in another thread may have opened it since
            layer.remove(self._place(name))
        if not layer.names(self.directory):
            layer.remove_directory(self.directory)

    def _names(self) -> list[str]:
        return files_in(self.files.layer, self.directory, layout.is_offset_name)

    def _place(self, name: str) -> Path:
        """Return the path of what ``_names`` has found."""
        return Path(self._directory, name)

    def _drop_unsynced(self, drop: Callable[[Path], object]) -> None:
        is_synced = True
        self.starts = []
        for name in self._names():
            path = self._place(name)
            size = self._size(name)
            if size is None or not layout.is_offset_name(name):
                continue  # ``load`` reports it
            is_synced = is_synced and (self._check(name) is None or size > self.file_size)
            if not is_synced:
                log.warning("%s: was not yet on the disk when the power failed; it is created again", path)
                drop(path)

    def _remove(self, start: int) -> None:
        self.files.forget(self.path(start))
        self.files.layer.remove(self.path(start))

    def _is_unfinished(self, name: str, *, is_last: bool) -> bool:
        if name.endswith(TEMPORARY_SUFFIX) or not is_last:
            return name.endswith(TEMPORARY_SUFFIX)
        return self._size(name) == 0

    def _size(self, name: str) -> int | None:
        """Return the length of a file that ``_names`` has found; None if it is no regular file."""
        with suppress(NotRegularFile):
            return self.files.layer.size(self._place(name))
        return None

    def _check(self, name: str) -> Finding | None:
        """Add the file ``name`` to the chain and return None, or return what is wrong with it.

        A file behind a gap is added, too.
        """
        try:
            start = layout.parse_offset_name(name)
        except FormatError as error:
            return _damage(self._place(name), str(error), "move it out of the store")
        path = self.path(start)
        try:
            size = self.files.layer.size(path)
        except NotRegularFile as error:
            return _damage(path, error.strerror, "move it out of the store")
        if size != self.file_size:
            return _damage(
                path,
                f"has {size} bytes, expected {self.file_size}",
                f"set {self._setting} to what the store was written with, or {self._remedy}",
            )
        expected = self.end_offset
        self.starts.append(start)
        if len(self.starts) > 1 and start != expected:
            return _damage(
                path,
                f"the file before it ends at {expected}",
                "restore the files between them, or move the older ones out of the store",
            )
        return None


def _damage(path: Path, what: str, remedy: str) -> Finding:
    return Finding(Severity.DAMAGE, path, None, None, what, remedy)


@lru_cache(PATHS_MAX)
def _path(directory: str, start: int) -> Path:
    return Path(directory, layout.offset_name(start))
