"""Open files, kept by path and closed when too many are: ten thousand queues, a few hundred descriptors."""

from collections import OrderedDict
from pathlib import Path

from cometmq.io.files import File, FileLayer

CAPACITY = 512


class OpenFiles:
    """The files of one store that are open now, least recently used first.

    Args:
        layer: where files are opened.
        writable: whether they are opened for writing too.
        capacity: how many may be open at once.
    """

    def __init__(self, layer: FileLayer, *, writable: bool, capacity: int = CAPACITY) -> None:
        self.layer = layer
        self._writable = writable
        self._capacity = capacity
        self._open: OrderedDict[Path, File] = OrderedDict()

    def create(self, path: Path, size: int, *, durable: bool = True) -> File:
        """Make a sparse file of ``size`` bytes and keep it open."""
        return self._keep(path, self.layer.create(path, size, durable=durable))

    def get(self, path: Path) -> File:
        """Give the file at ``path``, opened if it is not open yet."""
        file = self._open.get(path)
        if file is None:
            return self._keep(path, self.layer.open(path, writable=self._writable))
        self._open.move_to_end(path)
        return file

    def forget(self, path: Path) -> None:
        """Close the file at ``path`` if it is open: it is about to be removed or moved."""
        if file := self._open.pop(path, None):
            file.close()

    def drop_pages(self) -> None:
        """Let go of the memory that reading through views took; mapped pages count as the process's."""
        for file in self._open.values():
            file.drop_pages()

    def close(self) -> None:
        """Close them all."""
        while self._open:
            self._open.popitem()[1].close()

    def _keep(self, path: Path, file: File) -> File:
        self._open[path] = file
        if len(self._open) > self._capacity:
            self._open.popitem(last=False)[1].close()
        return file
