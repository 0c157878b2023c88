"""The CommitLog's next file, made in a thread before it is needed, and warmed if the settings say so.

Warming makes each page of it ready in the page cache and reserves its space, some megabytes at a time, and
locks the pages if the system allows it. When the file is needed, warming stops after the step it is at. The
first file of a log is needed at once, and not warmed.

Source: RocketMQ ``store/AllocateMappedFileService.java``, ``store/logfile/DefaultMappedFile.java``
(warmMappedFile).
"""

import logging
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from cometmq.io.files import File, FileLayer, WriteWindow
from cometmq.store.file_chain import FileChain
from cometmq.store.log.ahead import Ahead

AHEAD_BYTES: Final = 64 * 1024 * 1024
"""The next file is made when so much is left of the last one, or half of it …"""
SMALL_FILE: Final = 1024 * 1024
"""… but a smaller one than this only when it is needed, unless it is to be warmed."""

log = logging.getLogger(__name__)


class _Made(NamedTuple):
    """A file that was made, or None once it is the log's; and its locked windows."""

    path: Path | None
    windows: list[WriteWindow]


class NextFile:
    """Makes the files of the CommitLog.

    Args:
        warm_bytes: how much is warmed at once; 0 to warm nothing.
        sync: whether what is warmed is synced, too.
    """

    def __init__(
        self, chain: FileChain, layer: FileLayer, *, warm_bytes: int = 0, sync: bool = False
    ) -> None:
        self._chain = chain
        self._layer = layer
        self._warm_bytes = warm_bytes
        self._sync = sync
        self._least = chain.file_size if warm_bytes else _least_left(chain.file_size)
        self._files = Ahead(self._make, self._unmake, "file")
        self._is_wanted = threading.Event()
        self._can_lock = True
        self._last = _Made(None, [])

    def foresee(self, written_offset: int) -> None:
        """Have the next file made if the last one is nearly full."""
        if self._chain.end_offset - written_offset < self._least:
            self._files.begin(self._chain.end_offset)

    def add(self, start: int) -> None:
        """Add the file that begins at ``start`` to the log. Raises OSError."""
        self._is_wanted.set()
        try:
            made = self._files.take(start)
        finally:
            self._is_wanted.clear()
        self._chain.add(start)
        self._files.drop(self._last)
        self._last = made._replace(path=None)

    def close(self) -> None:
        """Remove a file that was made and is not used."""
        self._is_wanted.set()
        self._unmake(self._last)
        self._files.close()

    def _make(self, start: int) -> _Made:
        """Make a file, warm until it is wanted. In any thread."""
        path = self._chain.path(start)
        self._layer.make_directory(path.parent)
        file = self._layer.create(path, self._chain.file_size)
        windows: list[WriteWindow] = []
        try:
            if self._warm_bytes:
                self._warm(file, windows)
        except OSError as error:
            log.warning("%s is not warmed: %s", path, error.strerror)
        finally:
            file.close()
        return _Made(path, windows)

    def _warm(self, file: File, windows: list[WriteWindow]) -> None:
        for at in range(0, file.size, self._warm_bytes):
            if self._is_wanted.is_set():
                return
            window = file.window(at, min(self._warm_bytes, file.size - at))
            if self._can_lock and window.lock():
                windows.append(window)
            else:
                window.close()
                if self._can_lock:
                    self._can_lock = False
                    log.warning(
                        "%s can be swapped out: the system locks no more memory (ulimit -l)", file.path
                    )
            if self._sync:
                self._layer.sync(file.path)

    def _unmake(self, made: _Made) -> None:
        for window in made.windows:
            window.close()
        if made.path is not None:
            with suppress(OSError):  # the next start takes it as it is
                self._layer.remove(made.path)


def _least_left(file_size: int) -> int:
    return min(AHEAD_BYTES, file_size // 2) if file_size >= SMALL_FILE else 0
