"""Where a CommitLog lies: in one directory, or spread over several, as ``storePathCommitLog`` names them.

Each file of the log is in one of the directories, whichever: together they are one chain without a gap. New
files go to the directories by turns: to the one whose place in the sorted list is the file's number modulo
their count, leaving out those whose disks are nearly full, unless all are. No new file goes to a directory
of ``readOnlyCommitLogStorePaths``; but a last file that lies there is filled first, and expired ones are
removed.

RocketMQ reads ``readOnlyCommitLogStorePaths`` only if ``storePathCommitLog`` has a comma; here it always
counts.

Source: RocketMQ ``store/MultiPathMappedFileQueue.java``, ``store/CommitLog.java`` (constructor).
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from cometmq.errors import SettingsError
from cometmq.format import layout
from cometmq.io.files import FileLayer
from cometmq.io.open_files import OpenFiles
from cometmq.store.files.file_chain import FileChain
from cometmq.store.files.finding import Finding, Severity
from cometmq.store.files.folders import files_in
from cometmq.store.settings import StoreSettings

SEPARATOR: Final = ","
"""Between the directories of a setting (RocketMQ: ``MULTI_PATH_SPLITTER``)."""


class LogSpread(NamedTuple):
    """The directories of a CommitLog.

    Attributes:
        writable: those that new files go to, in the order of their turns; at least one.
        read_only: those without new files.
    """

    writable: tuple[Path, ...]
    read_only: tuple[Path, ...] = ()

    @property
    def directories(self) -> tuple[Path, ...]:
        """All directories."""
        return self.writable + self.read_only

    def files(self, layer: FileLayer) -> Iterator[Path]:
        """List the files in all directories."""
        for directory in self.directories:
            for name in files_in(layer, directory, layout.is_offset_name):
                yield directory / name

    def next_directory(self, number: int, full: Collection[Path] = ()) -> Path:
        """Return the directory of a new file, by the file's number in the log; none that is full, if any."""
        free = [directory for directory in self.writable if directory not in full] or self.writable
        return free[number % len(free)]

    def chain(self, files: OpenFiles, file_size: int, setting: str) -> FileChain:
        """Return the chain of the log's files, not loaded yet: see ``FileChain``."""
        if len(self.directories) == 1:
            return FileChain(files, self.writable[0], file_size, setting)
        return SpreadChain(files, self, file_size, setting)


class SpreadChain(FileChain):
    """The files of one log in several directories, by offset."""

    __slots__ = ("_full", "_paths", "_places", "_spread", "_twice")

    def __init__(self, files: OpenFiles, spread: LogSpread, file_size: int, setting: str) -> None:
        super().__init__(files, spread.writable[0], file_size, setting)
        self._spread = spread
        self._full: Collection[Path] = ()
        self._paths: dict[int, Path] = {}  # by the file's start
        self._places: dict[str, Path] = {}  # by the name of anything found
        self._twice: list[tuple[Path, Path]] = []

    @property
    def directory(self) -> Path:
        """The directory of the last file."""
        return self.path(self.starts[-1] if self.starts else 0).parent

    @property
    def directories(self) -> tuple[Path, ...]:
        """All directories."""
        return self._spread.directories

    def path(self, start: int) -> Path:
        """Return the path of the file that begins at ``start``."""
        path = self._paths.get(start)
        return self.new_path(start) if path is None else path

    def new_path(self, start: int) -> Path:
        """Return where a new file that begins at ``start`` is to be created."""
        return self._spread.next_directory(start // self.file_size, self._full) / layout.offset_name(start)

    def add(self, start: int, path: Path) -> None:
        """Add the file that begins at ``start`` and exists already: the next one, or the first."""
        self._paths[start] = path
        super().add(start, path)

    def avoid(self, full: Collection[Path]) -> None:
        """Create no file in these directories, as long as there are others."""
        self._full = full

    def find_files(self) -> list[Finding]:
        """Find the files without changing any; return findings about files left out and about gaps."""
        findings = super().find_files()
        return findings + [
            Finding(
                Severity.DAMAGE,
                path,
                None,
                None,
                f"the log has this file in {other.parent}, too",
                "move the one that does not belong to this log out of its directory",
            )
            for path, other in self._twice
        ]

    def _names(self) -> list[str]:
        self._paths, self._places, self._twice = {}, {}, []
        for path in self._spread.files(self.files.layer):
            other = self._places.setdefault(path.name, path)
            if layout.is_offset_name(path.name):
                self._paths[layout.parse_offset_name(path.name)] = other
                if other is not path:
                    self._twice.append((path, other))
        return sorted(self._places)

    def _place(self, name: str) -> Path:
        return self._places[name]


def spread_of(root: Path, settings: StoreSettings) -> LogSpread:
    """Return where the CommitLog of the store under ``root`` lies by its settings.

    Raises SettingsError if new files may go nowhere.
    """
    named = _directories(settings.store_path_commit_log) or {layout.commitlog_dir(root): ""}
    read_only = _directories(settings.read_only_commit_log_store_paths)
    writable = sorted(named.keys() - read_only.keys(), key=named.__getitem__)
    if not writable:
        raise SettingsError(
            f"readOnlyCommitLogStorePaths = {settings.read_only_commit_log_store_paths}: names all "
            "directories of storePathCommitLog, so that new files could go nowhere: add another one there"
        )
    return LogSpread(tuple(writable), tuple(sorted(read_only)))


def in_root(settings: StoreSettings) -> StoreSettings:
    """Return the same settings for a store whose log is in its own directory."""
    return replace(settings, store_path_commit_log="", read_only_commit_log_store_paths="")


def _directories(setting: str) -> dict[Path, str]:
    """Return the directories that a setting names, with the texts by which RocketMQ sorts them."""
    texts = (text.strip() for text in setting.split(SEPARATOR))
    return {Path(text): text for text in texts if text}
