"""Open files, kept by path and closed when too many are: there can be more queues than descriptors.

A file may be read in one thread while another has it closed: because it expires, its topic is deleted, or
other files are wanted more. The number of a closed descriptor is at once given to the next file that is
opened, so the read would not fail but give another file's bytes. Hence *holds*: who reads in a thread
holds the file, and what closes it meanwhile takes effect when the last hold is gone. A file that is removed
while it is held can be read to the end of the hold, as the system keeps what a descriptor refers to.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from cometmq.io import descriptors
from cometmq.io.files import File, FileLayer


class OpenFiles:
    """The files of one store that are open now, least recently used first. Safe from any thread.

    What ``get`` and ``create`` give may be used until the next call of the same thread, if that thread
    alone closes files; ``held`` is for all others.

    Args:
        layer: where files are opened.
        writable: whether they are opened for writing too.
        capacity: how many may be open at once, besides those that are held; by default half of the
            descriptors that the process may have, for the others are for connections.
    """

    def __init__(self, layer: FileLayer, *, writable: bool, capacity: int | None = None) -> None:
        self.layer = layer
        self._writable = writable
        self._capacity = descriptors.files_max(descriptors.limit()) if capacity is None else capacity
        self._open: OrderedDict[str, File] = OrderedDict()  # by path; strings are hashed once, and in C
        self._holds: dict[File, int] = {}
        self._leaving: set[File] = set()  # to be closed when their last hold is gone
        self._lock = Lock()

    def create(self, path: Path, size: int, *, durable: bool = True) -> File:
        """Make a sparse file of ``size`` bytes and keep it open."""
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
        """Give the file at ``path``, opened if it is not open yet."""
        with self._lock:
            return self._get(path)

    @contextmanager
    def held(self, path: Path) -> Iterator[File]:
        """Give the file at ``path``; it stays open until the end of the ``with``: see ``hold``."""
        file = self.hold(path)
        try:
            yield file
        finally:
            self.release(file)

    def hold(self, path: Path) -> File:
        """Give the file at ``path``; it stays open until it is released as often as it was held.

        If it is not open, it is opened for this hold alone: what one thread has forgotten must not be kept
        open because another asks for it late. Raises FileNotFoundError if it is removed by then.
        """
        with self._lock:
            file = self._open.get(str(path))
            if file is None:
                file = self.layer.open(path, writable=False)
                self._leaving.add(file)
            self._holds[file] = self._holds.get(file, 0) + 1
            return file

    def release(self, file: File) -> None:
        """Give back one hold; closes the file if that was the last one, and it should have been closed."""
        with self._lock:
            count = self._holds.pop(file) - 1
            if count:
                self._holds[file] = count
            elif file in self._leaving:
                self._leaving.remove(file)
                file.close()

    def forget(self, path: Path) -> None:
        """Close the file at ``path`` if it is open: it is about to be removed or moved."""
        with self._lock:
            if file := self._open.pop(str(path), None):
                self._let_go(file)

    def drop_pages(self) -> None:
        """Let go of the memory that reading through maps took; mapped pages count as the process's."""
        with self._lock:
            for file in self._open.values():
                file.drop_pages()

    def unused_pages(self) -> Callable[[], None]:
        """Give what lets go of the same, but for what was looked at since the last call. For any thread."""
        with self._lock:
            unused = [let_go for file in self._open.values() if (let_go := file.unused_pages()) is not None]

        def let_go_all() -> None:
            for let_go in unused:
                let_go()

        return let_go_all

    def close(self) -> None:
        """Close them all."""
        with self._lock:
            while self._open:
                self._let_go(self._open.popitem()[1])

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
        """Close the file that was used longest ago if a descriptor is wanted; return whether it was."""
        if error.errno not in descriptors.NO_DESCRIPTOR:
            return False
        oldest = next((name for name, file in self._open.items() if file not in self._holds), None)
        if oldest is not None:
            self._open.pop(oldest).close()
        return oldest is not None

    def _keep(self, name: str, file: File) -> File:
        if known := self._open.pop(name, None):
            self._let_go(known)
        self._open[name] = file
        while len(self._open) > self._capacity and (oldest := self._oldest()) != name:
            self._open.pop(oldest).close()
        return file

    def _oldest(self) -> str:
        """Give the file that was used longest ago, of those that nobody holds; the newest if all are held."""
        newest = next(reversed(self._open))
        return next((name for name, file in self._open.items() if file not in self._holds), newest)

    def _let_go(self, file: File) -> None:
        if file in self._holds:
            self._leaving.add(file)
        else:
            file.close()
