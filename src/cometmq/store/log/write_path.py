"""How appended records reach the CommitLog's files: three write paths, chosen by RocketMQ's settings.

============================  ============================================  ===============================
Setting                       A batch is written …                          A killed process loses
============================  ============================================  ===============================
``writeWithoutMmap``          to the page cache, with one ``pwrite``        nothing
… false                       to the page cache, through a mapped window    nothing
``transientStorePoolEnable``  to a buffer, which is committed soon          uncommitted records
============================  ============================================  ===============================

All three leave the same bytes. Source: RocketMQ ``store/logfile/DefaultMappedFile.java``,
``store/TransientStorePool.java``.
"""

from typing import Protocol

from cometmq.io.files import File, FileLayer
from cometmq.message import Buffer
from cometmq.store.files.file_chain import FileChain
from cometmq.store.log.next_file import NextFile
from cometmq.store.log.write_mapped import WriteMapped
from cometmq.store.log.write_pool import WritePool
from cometmq.store.settings import PAGE_SIZE, StoreSettings


class WritePath(Protocol):
    """A write path, for the store's owner. Only ``WritePool`` commits what is written later."""

    def write(self, offset: int, data: Buffer) -> None:
        """Write ``data`` at ``offset``, within one existing file.

        Raises OSError or StoreNotWritable; part of it may have been written then.
        """
        ...

    def close(self) -> None:
        """Release files, memory and threads; uncommitted data is lost."""
        ...


class WriteChannel:
    """Writes through the file channel, a batch with one ``pwrite``; written data is committed at once."""

    def __init__(self, chain: FileChain) -> None:
        self._chain = chain
        self._file: File | None = None  # held: looking it up costs more than many a write
        self._begin = self._end = 0  # of that file, as offsets

    def write(self, offset: int, data: Buffer) -> None:
        """Write ``data`` at ``offset``."""
        if self._file is None or not self._begin <= offset < self._end:
            self._file = self._roll(offset)
        self._file.write(offset - self._begin, data)

    def close(self) -> None:
        """Release the file."""
        if self._file is not None:
            self._chain.files.release(self._file)
            self._file = None

    def _roll(self, offset: int) -> File:
        """Switch to the file that holds ``offset``."""
        self.close()
        self._begin = offset - offset % self._chain.file_size
        self._end = self._begin + self._chain.file_size
        self._chain.file(self._begin)  # opens it for writing, which a hold alone would not
        return self._chain.files.hold(self._chain.path(self._begin))


def choose(settings: StoreSettings, chain: FileChain, layer: FileLayer) -> tuple[WritePath, NextFile]:
    """Build the write path that the settings choose, and the creator of the files."""
    warm_pages = settings.flush_least_pages_when_warm_maped_file if settings.warm_maped_file_enable else 0
    files = NextFile(chain, layer, warm_bytes=warm_pages * PAGE_SIZE, sync=settings.sync_flush)
    if settings.transient_store_pool_enable:
        size, fast_fail = settings.transient_store_pool_size, settings.fast_fail_if_no_buffer_in_store_pool
        return WritePool(chain, layer, pool_size=size, fast_fail=fast_fail), files
    return WriteChannel(chain) if settings.write_without_mmap else WriteMapped(chain, layer), files
