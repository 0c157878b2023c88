"""Directories of deleted queues: moved away at once, removed from the disk later.

Removing very many files takes long, and a queue that is created again meanwhile must not find them in its
place. So a directory is moved to ``.deleted`` beside the topics, with one system call; any thread may remove
it there.

A move is synced before any file is removed. If a loss of power undoes a move, the next start repeats it, as
the deletion is recorded (``deletion_notes.py``); files that are left then are removed later.
"""

from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cometmq.format import layout
from cometmq.io.files import TEMPORARY_SUFFIX, FileLayer
from cometmq.logs import get_logger

PREFIX: Final = "queues-"
"""Keeps names from being only a number, which a Java broker would read as a queue."""

_log = get_logger(__name__)


class Discarded:
    """The directories of one store that wait for removal.

    Only the owner's thread moves directories here; any thread, one at a time, may remove them.

    Args:
        root: the store's directory.
    """

    def __init__(self, layer: FileLayer, root: Path) -> None:
        self._layer = layer
        self._folders = layout.consume_queues_dir(root), layout.consume_queue_exts_dir(root)
        self._moved: deque[Path] = deque()
        self._unsynced: deque[Path] = deque()  # the directories whose names a move has changed
        self._targets: set[Path] = set()  # the ``.deleted`` directories that exist
        self._last = 0  # number in a name
        self._logged: set[Path] = set()  # paths that could not be removed

    def __bool__(self) -> bool:
        """Return whether there is anything to remove."""
        return bool(self._moved)

    def load(self) -> None:
        """Find directories that an earlier process has left."""
        for folder in self._folders:
            target = layout.deleted_dir(folder)
            names = self._layer.names(target)
            self._moved.extend(target / name for name in names)
            numbers = (name.removeprefix(PREFIX) for name in names)
            self._last = max([self._last, *(int(number) for number in numbers if number.isdecimal())])

    def add(self, directory: Path) -> None:
        """Move the directory of a topic or of a queue to ``.deleted``, if it exists. Raises OSError."""
        if not self._layer.exists(directory):
            return
        target = layout.deleted_dir(next(folder for folder in self._folders if folder in directory.parents))
        if target not in self._targets:
            self._layer.make_directory(target, durable=False)
            self._targets.add(target)
        self._last += 1
        place = target / f"{PREFIX}{self._last}"
        self._layer.rename(directory, place, durable=False)
        self._unsynced.extend((directory.parent, target))
        self._moved.append(place)

    def remove(self) -> None:
        """Remove the directories; one that cannot be removed is logged once and retried next time."""
        moved = list(_drained(self._moved))
        unsynced = list(_drained(self._unsynced))  # read second, so it covers all that was moved
        try:
            self._layer.sync_all(dict.fromkeys(unsynced))
        except OSError as error:
            _log.warning("files of deleted queues are removed later: %s", error)
            self._unsynced.extend(unsynced)
            self._moved.extend(moved)
            return
        for place in moved:
            try:
                self._remove(place)
            except OSError as error:
                self._moved.append(place)
                self._log_once(Path(error.filename or place), error)

    def close(self) -> None:
        """Remove the directories, and ``.deleted`` where it is empty then."""
        self.remove()
        for folder in self._folders:
            target = layout.deleted_dir(folder)
            if not self._layer.names(target):
                self._layer.remove_directory(target, durable=False)

    def _remove(self, place: Path) -> None:
        """Remove a directory and the store's files in it. Raises OSError, also if it holds other files."""
        for name in self._layer.names(place):
            if layout.is_offset_name(name.removesuffix(TEMPORARY_SUFFIX)):
                self._layer.remove(place / name, durable=False)
            elif layout.is_queue_name(name) and self._layer.is_directory(place / name):
                self._remove(place / name)
        self._layer.remove_directory(place, durable=False)

    def _log_once(self, path: Path, error: OSError) -> None:
        if path not in self._logged:
            self._logged.add(path)
            _log.warning("%s: cannot be removed, and is tried again: %s", path, error.strerror)


def _drained(paths: deque[Path]) -> Iterable[Path]:
    """Pop all paths, one by one, since another thread may append meanwhile."""
    while paths:
        yield paths.popleft()
