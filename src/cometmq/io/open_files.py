"""Open files, kept by path and closed when too many are open: there can be more queues than descriptors.

One thread may close a file while another one reads it: because it expires, its topic is deleted, or
the descriptor is needed for another file. The system at once reuses the number of a closed descriptor for the
next file, so the read would not fail but return another file's bytes. Hence *holds*: a reader in a thread
holds the file, and a close meanwhile takes effect when the last hold is released. A file that is removed
while it is held can be read until then, as the system keeps the data of an open descriptor.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from cometmq.io import descriptors
from cometmq.io.files import File, FileLayer


class OpenFiles:
    """The open files of one store, least recently used first. Safe from any thread.

    A file returned by ``get`` or ``create`` may be used until the next call of the same thread, if that
    thread alone closes files; all other threads use ``held``.

    Args:
        layer: opens the files.
        writable: whether they are opened for writing too.
        capacity: how many may be open at once, besides those that are held; by default half of the
            descriptors that the process may open, since the others are for connections.
    """

    def __init__(self, layer: FileLayer, *, writable: bool, capacity: int | None = None) -> None:
        self.layer = layer
        self._writable = writable
        self._capacity = descriptors.files_max(descriptors.limit()) if capacity is None else capacity
        self._open: OrderedDict[str, File] = OrderedDict()  # by path; strings are hashed once, and in C
        self._holds: dict[File, int] = {}
        self._leaving: set[File] = set()  # to be closed when their last hold is released
        self._lock = Lock()

    def create(self, path: Path, size: int, *, durable: bool = True) -> File:
        """Create a sparse file of ``size`` bytes and keep it open."""
        while True:
            try:
                file = self.layer.create(path, size, durable=durable)
            except OSError as error:
                with self._lock:
                    if not self._makes_room(error):
                        raise
            else:
                with self._lock:
                    return self._keep(str(path), file)

    def get(self, path: Path) -> File:
        """Return the file at ``path``; open it if necessary."""
        with self._lock:
            return self._get(path)

    @contextmanager
    def held(self, path: Path) -> Iterator[File]:
        """Hold the file at ``path`` until the end of the ``with`` statement: see ``hold``."""
        file = self.hold(path)
        try:
            yield file
        finally:
            self.release(file)

    def hold(self, path: Path) -> File:
        """Return the file at ``path``; it stays open until it is released as often as it was held.

        If it is not open, it is opened for this hold alone: a file that one thread has closed must not stay
        open because another thread asks for it late. Raises FileNotFoundError if it has been removed.
        """
        with self._lock:
            file = self._open.get(str(path))
            if file is None:
                file = self.layer.open(path, writable=False)
                self._leaving.add(file)
            self._holds[file] = self._holds.get(file, 0) + 1
            return file

    def release(self, file: File) -> None:
        """Release one hold; after the last one, close the file if it should have been closed meanwhile."""
        with self._lock:
            count = self._holds.pop(file) - 1
            if count:
                self._holds[file] = count
            elif file in self._leaving:
                self._leaving.remove(file)
                file.close()

    def forget(self, path: Path) -> None:
        """Close the file at ``path`` if it is open, since it is about to be removed or moved."""
        with self._lock:
            if file := self._open.pop(str(path), None):
                self._close_unless_held(file)

    def drop_pages(self) -> None:
        """Unmap the pages of all files read through maps; mapped pages count as the process's memory."""
        with self._lock:
            for file in self._open.values():
                file.drop_pages()

    def unused_pages(self) -> Callable[[], None]:
        """Return a function, for any thread, that unmaps pages of all files unused since the last call."""
        with self._lock:
            unused = [unmap for file in self._open.values() if (unmap := file.unused_pages()) is not None]

        def unmap_all() -> None:
            for unmap in unused:
                unmap()

        return unmap_all

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            while self._open:
                self._close_unless_held(self._open.popitem()[1])

    def _get(self, path: Path) -> File:
        name = str(path)
        file = self._open.get(name)
        if file is None:
            return self._keep(name, self._opened(path))
        self._open.move_to_end(name)
        return file

    def _opened(self, path: Path) -> File:
        while True:
            try:
                return self.layer.open(path, writable=self._writable)
            except OSError as error:
                if not self._makes_room(error):
                    raise

    def _makes_room(self, error: OSError) -> bool:
        """Close the least recently used file if the error is a lack of descriptors; return whether it did."""
        if error.errno not in descriptors.NO_DESCRIPTOR:
            return False
        oldest = next((name for name, file in self._open.items() if file not in self._holds), None)
        if oldest is not None:
            self._open.pop(oldest).close()
        return oldest is not None

    def _keep(self, name: str, file: File) -> File:
        if known := self._open.pop(name, None):
            self._close_unless_held(known)
        self._open[name] = file
        while len(self._open) > self._capacity and (oldest := self._oldest()) != name:
            self._open.pop(oldest).close()
        return file

    def _oldest(self) -> str:
        """Return the least recently used file that nobody holds; the newest one if all are held."""
        newest = next(reversed(self._open))
        return next((name for name, file in self._open.items() if file not in self._holds), newest)

    def _close_unless_held(self, file: File) -> None:
        if file in self._holds:
            self._leaving.add(file)
        else:
            file.close()
