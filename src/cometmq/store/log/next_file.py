"""The CommitLog's next file, created in a thread before it is needed, and warmed if the settings ask for it.

Warming reserves the file's space and loads its pages into the page cache, some megabytes a step, and locks
the pages if the system allows it. Once the file is needed, warming ends after the present step. The first
file of a log is needed at once and not warmed.

Source: RocketMQ ``store/AllocateMappedFileService.java``, ``store/logfile/DefaultMappedFile.java``
(warmMappedFile).
"""

import threading
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from cometmq.io.files import File, FileLayer, WriteWindow
from cometmq.logs import get_logger
from cometmq.store.files.file_chain import FileChain
from cometmq.store.log.ahead import Ahead

AHEAD_BYTES: Final = 64 * 1024 * 1024
"""The next file is created when the last one has this much room left, or half of it …"""
SMALL_FILE: Final = 1024 * 1024
"""… but a smaller file than this only when it is needed, unless it is warmed."""

log = get_logger(__name__)


class _Created(NamedTuple):
    """A created file and its locked windows; ``path`` is None once the file is part of the log."""

    path: Path | None
    windows: list[WriteWindow]


class NextFile:
    """Creates the files of the CommitLog.

    Args:
        warm_bytes: bytes warmed in one step; 0 to warm nothing.
        sync: whether each step is synced, too.
    """

    def __init__(
        self, chain: FileChain, layer: FileLayer, *, warm_bytes: int = 0, sync: bool = False
    ) -> None:
        self._chain = chain
        self._layer = layer
        self._warm_bytes = warm_bytes
        self._sync = sync
        self._least = chain.file_size if warm_bytes else _least_left(chain.file_size)
        self._files = Ahead(self._create, self._discard, "file")
        self._is_needed = threading.Event()
        self._can_lock = True
        self._last = _Created(None, [])

    def prepare(self, written_offset: int) -> int:
        """Start to create the next file if the last one is nearly full.

        Returns the offset behind which to call it again.
        """
        end_offset = self._chain.end_offset
        if written_offset <= end_offset - self._least:
            return end_offset - self._least
        self._files.begin(end_offset)
        return end_offset

    def add(self, start: int) -> None:
        """Add the file that begins at ``start`` to the log. Raises OSError."""
        self._is_needed.set()
        try:
            created = self._files.take(start)
        finally:
            self._is_needed.clear()
        assert created.path is not None, "it is not part of the log yet"
        self._chain.add(start, created.path)
        self._files.drop(self._last)
        self._last = created._replace(path=None)

    def close(self) -> None:
        """Remove a file that was created and is not used."""
        self._is_needed.set()
        self._discard(self._last)
        self._files.close()

    def _create(self, start: int) -> _Created:
        """Create a file, and warm it until it is needed. In any thread."""
        path = self._chain.new_path(start)
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
        return _Created(path, windows)

    def _warm(self, file: File, windows: list[WriteWindow]) -> None:
        for at in range(0, file.size, self._warm_bytes):
            if self._is_needed.is_set():
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

    def _discard(self, created: _Created) -> None:
        for window in created.windows:
            window.close()
        if created.path is not None:
            with suppress(OSError):  # the next start can use it
                self._layer.remove(created.path)


def _least_left(file_size: int) -> int:
    return min(AHEAD_BYTES, file_size // 2) if file_size >= SMALL_FILE else 0
