"""Write the CommitLog into buffers of the process first: the transient store pool.

A file's bytes are collected in a buffer of the file's length and committed (written to the file) by a thread
a few times a second. So no append waits for the page cache; a killed process loses uncommitted data, and data
can be read only once it is committed.

A buffer takes memory only from the committed offset to a stretch ahead of the writer. A thread prepares the
stretches: it touches and locks their pages and reserves their space in the file, so that a full disk makes
appends fail, but no commit.

Source: RocketMQ ``store/TransientStorePool.java``, ``store/logfile/DefaultMappedFile.java``.
"""

import mmap
import threading
from dataclasses import dataclass
from typing import Final

from cometmq.errors import StoreNotWritable
from cometmq.io import memory
from cometmq.io.files import File, FileLayer
from cometmq.logs import get_logger
from cometmq.message import Buffer
from cometmq.store.files.file_chain import FileChain
from cometmq.store.log.ahead import Ahead

STRETCH_BYTES: Final = 4 * 1024 * 1024

log = get_logger(__name__)


@dataclass(slots=True)
class _Pending:
    """A file that is not fully committed, and its buffer."""

    file: File
    buffer: mmap.mmap
    end: int
    """Offset behind the last write."""


class WritePool:
    """Writes into buffers, whose data waits for ``commit``: see ``write_path.WritePath``.

    Args:
        pool_size: number of buffers.
        fast_fail: whether a write fails when all are in use, instead of creating another one.
    """

    def __init__(self, chain: FileChain, layer: FileLayer, *, pool_size: int, fast_fail: bool) -> None:
        self._chain = chain
        self._layer = layer
        self._pool_size = pool_size
        self._fast_fail = fast_fail
        self._free: list[mmap.mmap] = []
        self._pending: dict[int, _Pending] = {}  # by the file's start offset
        self._ready = Ahead(self._prepare, lambda _: None, "pool")
        self._ready_end = 0
        self._committed: int | None = None  # None while nothing was written
        self._committing = threading.Lock()
        self._can_lock = True

    def write(self, offset: int, data: Buffer) -> None:
        """Copy ``data`` into the file's buffer."""
        position = offset % self._chain.file_size
        pending = self._pending.get(offset - position) or self._add_pending(offset)
        end = offset + len(data)
        while self._ready_end < end:
            self._roll(max(self._ready_end, offset))
        pending.buffer[position : position + len(data)] = data
        pending.end = end
        if self._committed is None:
            self._committed = offset

    def committed_offset(self, written_offset: int) -> int:
        """Return the committed offset; ``written_offset`` as long as nothing was written."""
        return written_offset if self._committed is None else self._committed

    def free_buffers(self) -> int:
        """Return how many more files can be begun before one is fully committed."""
        return max(self._pool_size - len(self._pending), 0)

    def commit(self, written_offset: int) -> None:
        """Write uncommitted data to its files; return the buffers of full files to the pool.

        For any thread. Raises OSError; nothing is lost then.
        """
        with self._committing:
            while self._committed is not None and self._committed < written_offset:
                self._commit_file(self._committed, written_offset)

    def close(self) -> None:
        """Close the files and drop the buffers."""
        self._ready.close()
        for pending in self._pending.values():
            pending.file.close()
        self._pending.clear()
        self._free.clear()

    def _add_pending(self, offset: int) -> _Pending:
        """Add a buffer for the file that holds ``offset``. Raises StoreNotWritable if none is left."""
        file_size = self._chain.file_size
        if len(self._pending) >= self._pool_size:
            reason = f"all {self._pool_size} buffers wait to be committed (transientStorePoolSize)"
            if self._fast_fail:
                raise StoreNotWritable(f"{reason}: send again, or send more slowly")
            log.warning("%s: one more is created", reason)
        start = offset - offset % file_size
        file = self._layer.open(self._chain.path(start), writable=True)
        buffer = self._free.pop() if self._free else mmap.mmap(-1, file_size, flags=mmap.MAP_PRIVATE)
        pending = self._pending[start] = _Pending(file, buffer, offset)
        return pending

    def _roll(self, offset: int) -> None:
        """Switch to the stretch that begins at ``offset``; start to prepare the next one of the file."""
        self._ready_end = self._ready.take(offset)
        if self._ready_end % self._chain.file_size:
            self._ready.begin(self._ready_end)

    def _prepare(self, offset: int) -> int:
        """Reserve space and touch memory from ``offset`` on; return the stretch's end. In any thread."""
        file_size = self._chain.file_size
        position = offset % file_size
        start, end = offset - position, min(position - position % STRETCH_BYTES + STRETCH_BYTES, file_size)
        buffer = self._pending[start].buffer
        file = self._layer.open(self._chain.path(start), writable=True)  # the pending one may be closed
        try:
            file.reserve(position, end - position)
        finally:
            file.close()
        memory.populate(buffer, position, end)
        if self._can_lock and not memory.lock(buffer, position, end):
            self._can_lock = False
            log.warning("the pool's buffers can be swapped out: the system locks no more memory (ulimit -l)")
        return start + end

    def _commit_file(self, begin: int, written_offset: int) -> None:
        """Commit one file's data from ``begin`` on."""
        file_size = self._chain.file_size
        start = begin - begin % file_size
        pending = self._pending[start]
        is_full = written_offset >= start + file_size
        end = min(written_offset, pending.end)  # behind a blank that closes the file there is no data
        with memoryview(pending.buffer) as view, view[begin - start : end - start] as part:
            pending.file.write(begin - start, part)
        self._committed = start + file_size if is_full else end
        memory.release(pending.buffer, begin - start, file_size if is_full else end - start)
        if is_full:
            del self._pending[start]
            pending.file.close()
            if len(self._free) < self._pool_size:
                self._free.append(pending.buffer)
