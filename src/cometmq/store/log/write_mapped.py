"""Write the CommitLog through memory maps: a batch is copied into the page cache without a system call.

A page fault costs more than the message that causes it. So windows of a few megabytes roll along with the
writer: while the owner stores into one, a thread opens the next, with its space reserved and its pages
present, and closes the one before. The process stays small, and a full disk is an error when a window opens,
never a SIGBUS when data is stored.
"""

from typing import Final

from cometmq.io.files import FileLayer, WriteWindow
from cometmq.message import Buffer
from cometmq.store.files.file_chain import FileChain
from cometmq.store.log.ahead import Ahead

WINDOW_BYTES: Final = 4 * 1024 * 1024


class WriteMapped:
    """Writes through mapped windows; written data is committed at once: see ``write_path.WritePath``."""

    def __init__(self, chain: FileChain, layer: FileLayer) -> None:
        self._chain = chain
        self._layer = layer
        self._windows = Ahead(self._open, WriteWindow.close, "window")
        self._window: WriteWindow | None = None
        self._begin = self._end = 0  # of the window, as offsets

    def write(self, offset: int, data: Buffer) -> None:
        """Store ``data`` at ``offset``. Raises OSError; part of it may have been stored then."""
        file_size = self._chain.file_size
        while len(data) > self._end - offset or offset < self._begin:
            if self._begin <= offset < self._end and self._window is not None:
                fits = self._end - offset
                self._window.store(offset % file_size, memoryview(data)[:fits])
                data = memoryview(data)[fits:]
                offset += fits
            self._roll(offset)
        assert self._window is not None
        self._window.store(offset % file_size, data)

    def close(self) -> None:
        """Close the windows."""
        if self._window is not None:
            self._window.close()
            self._window = None
        self._begin = self._end = 0
        self._windows.close()

    def _roll(self, offset: int) -> None:
        """Switch to the window that begins at ``offset``; start to open the next one. Raises OSError."""
        window = self._windows.take(offset)
        if self._window is not None:
            self._windows.drop(self._window)
        self._window = window
        self._begin, self._end = offset, self._window_end(offset)
        self._windows.begin(self._end)

    def _open(self, offset: int) -> WriteWindow:
        """Open the window that begins at ``offset``. In any thread. Raises OSError."""
        position = offset % self._chain.file_size
        file = self._layer.open(self._chain.path(offset - position), writable=True)
        try:
            return file.window(position, self._window_end(offset) - offset)
        finally:
            file.close()

    def _window_end(self, offset: int) -> int:
        """Return a window's end: the next multiple of WINDOW_BYTES in the file, or the file's end."""
        file_size = self._chain.file_size
        position = offset % file_size
        return offset - position + min(position - position % WINDOW_BYTES + WINDOW_BYTES, file_size)
