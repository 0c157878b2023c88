"""Directories of queues that are gone: out of the way at once, removed from the disk when there is time.

To remove very many files takes long, and until it is done another life of a queue must not put its files in
the same place. So a directory is moved to ``.deleted`` beside the topics, by one system call whatever it
holds. From there any thread may remove it.

A move is synced before anything is removed. One that a loss of power undoes is made again by the next start,
which goes by what is noted of deletions (``deletion_notes.py``); what was not removed then is removed later.
"""

import logging
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cometmq.format import layout
from cometmq.io.files import TEMPORARY_SUFFIX, FileLayer

PREFIX: Final = "queues-"
"""A name is not only a number: a Java broker would take that for a queue."""

_log = logging.getLogger(__name__)


class Discarded:
    """The directories of one store that are to be removed.

    One thread, the owner's, moves directories here; one at a time, any, removes them.

    Args:
        root: the store's directory.
    """

    def __init__(self, layer: FileLayer, root: Path) -> None:
        self._layer = layer
        self._folders = layout.consume_queues_dir(root), layout.consume_queue_exts_dir(root)
        self._moved: deque[Path] = deque()
        self._unsynced: deque[Path] = deque()  # the directories whose names a move has changed
        self._homes: set[Path] = set()  # those that are there
        self._last = 0  # number in a name
        self._told: set[Path] = set()  # what could not be removed

    def __bool__(self) -> bool:
        """Whether there is anything to remove."""
        return bool(self._moved)

    def load(self) -> None:
        """Find what an earlier process has left."""
        for folder in self._folders:
            home = layout.deleted_dir(folder)
            names = self._layer.names(home)
            self._moved.extend(home / name for name in names)
            numbers = (name.removeprefix(PREFIX) for name in names)
            self._last = max([self._last, *(int(number) for number in numbers if number.isdecimal())])

    def take(self, directory: Path) -> None:
        """Move the directory of a topic or of a queue out of the way, if it is there. Raises OSError."""
        if not self._layer.exists(directory):
            return
        home = layout.deleted_dir(next(folder for folder in self._folders if folder in directory.parents))
        if home not in self._homes:
            self._layer.make_directory(home, durable=False)
            self._homes.add(home)
        self._last += 1
        place = home / f"{PREFIX}{self._last}"
        self._layer.rename(directory, place, durable=False)
        self._unsynced.extend((directory.parent, home))
        self._moved.append(place)

    def remove(self) -> None:
        """Remove what is to be removed; what the disk does not let go is logged once, and left here."""
        moved = list(_taken(self._moved))
        unsynced = list(_taken(self._unsynced))  # after what was moved: all of its names are among them
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
                self._tell(Path(error.filename or place), error)

    def close(self) -> None:
        """Remove what is left, and the place where it was."""
        self.remove()
        for folder in self._folders:
            home = layout.deleted_dir(folder)
            if not self._layer.names(home):
                self._layer.remove_directory(home, durable=False)

    def _remove(self, place: Path) -> None:
        """Remove a directory with what is the store's in it; anything else stays, and so does it.

        Raises OSError.
        """
        for name in self._layer.names(place):
            if layout.is_offset_name(name.removesuffix(TEMPORARY_SUFFIX)):
                self._layer.remove(place / name, durable=False)
            elif layout.is_queue_name(name) and self._layer.is_directory(place / name):
                self._remove(place / name)
        self._layer.remove_directory(place, durable=False)

    def _tell(self, path: Path, error: OSError) -> None:
        if path not in self._told:
            self._told.add(path)
            _log.warning("%s: cannot be removed, and is tried again: %s", path, error.strerror)


def _taken(paths: deque[Path]) -> Iterable[Path]:
    """Take out what is there, one by one: others may put more in meanwhile."""
    while paths:
        yield paths.popleft()
