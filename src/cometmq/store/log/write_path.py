"""How what is appended comes into the CommitLog's files: one of three ways, chosen by RocketMQ's settings.

============================  ============================================  ===============================
Setting                       A batch goes …                                A killed process loses
============================  ============================================  ===============================
``writeWithoutMmap``          to the page cache, with one ``pwrite``        nothing
… false                       to the page cache, through a mapped window    nothing
``transientStorePoolEnable``  to a buffer of the process, in the file soon  what was not yet committed
============================  ============================================  ===============================

All three leave the same bytes. Source: RocketMQ ``store/logfile/DefaultMappedFile.java``,
``store/TransientStorePool.java``.
"""

from typing import Protocol

from cometmq.io.files import FileLayer
from cometmq.message import Buffer
from cometmq.store.file_chain import FileChain
from cometmq.store.log.next_file import NextFile
from cometmq.store.log.write_channel import WriteChannel
from cometmq.store.log.write_mapped import WriteMapped
from cometmq.store.log.write_pool import WritePool
from cometmq.store.settings import PAGE_SIZE, StoreSettings


class WritePath(Protocol):
    """One way. The owner of the store writes; commits may come from any thread."""

    def write(self, offset: int, data: Buffer) -> None:
        """Take ``data`` at ``offset``, all of it in one file, which is there.

        Raises OSError or StoreNotWritable: part of it may have been written then.
        """
        ...

    def committed_offset(self, written_offset: int) -> int:
        """Give the offset before which all is in the files, if all before ``written_offset`` is written."""
        ...

    def free_buffers(self) -> int | None:
        """Tell how many buffers of the pool are free; None for a way that has none."""
        ...

    def commit(self, written_offset: int) -> None:
        """Bring all before ``written_offset`` into the files. Raises OSError; nothing is lost then."""
        ...

    def close(self) -> None:
        """Let go of files, memory and threads; what is not committed is lost."""
        ...


def choose(settings: StoreSettings, chain: FileChain, layer: FileLayer) -> tuple[WritePath, NextFile]:
    """Give the way that the settings ask for, and what makes the files."""
    warm_pages = settings.flush_least_pages_when_warm_maped_file if settings.warm_maped_file_enable else 0
    files = NextFile(chain, layer, warm_bytes=warm_pages * PAGE_SIZE, sync=settings.sync_flush)
    if settings.transient_store_pool_enable:
        size, fast_fail = settings.transient_store_pool_size, settings.fast_fail_if_no_buffer_in_store_pool
        return WritePool(chain, layer, pool_size=size, fast_fail=fast_fail), files
    return WriteChannel(chain) if settings.write_without_mmap else WriteMapped(chain, layer), files
