"""Writing the CommitLog through the file channel: a batch is one ``pwrite``, and then in the page cache."""

from cometmq.message import Buffer
from cometmq.store.file_chain import FileChain


class WriteChannel:
    """What is written is committed: see ``write_path.WritePath``."""

    def __init__(self, chain: FileChain) -> None:
        self._chain = chain

    def write(self, offset: int, data: Buffer) -> None:
        """Write ``data`` at ``offset``."""
        self._chain.write(offset, data)

    def committed_offset(self, written_offset: int) -> int:
        """All that is written is committed."""
        return written_offset

    def free_buffers(self) -> None:
        """There is no pool."""

    def commit(self, written_offset: int) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing to let go."""
