"""Writing the CommitLog through the file channel: a batch is one ``pwrite``, and then in the page cache."""

from cometmq.io.files import File
from cometmq.message import Buffer
from cometmq.store.file_chain import FileChain


class WriteChannel:
    """What is written is committed: see ``write_path.WritePath``."""

    def __init__(self, chain: FileChain) -> None:
        self._chain = chain
        self._file: File | None = None  # held: to ask for it anew costs more than many a write
        self._begin = self._end = 0  # of that file, as offsets

    def write(self, offset: int, data: Buffer) -> None:
        """Write ``data`` at ``offset``."""
        if self._file is None or not self._begin <= offset < self._end:
            self._file = self._roll(offset)
        self._file.write(offset - self._begin, data)

    def committed_offset(self, written_offset: int) -> int:
        """All that is written is committed."""
        return written_offset

    def free_buffers(self) -> None:
        """There is no pool."""

    def commit(self, written_offset: int) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._chain.files.release(self._file)
            self._file = None

    def _roll(self, offset: int) -> File:
        """Go to the file that holds ``offset``."""
        self.close()
        self._begin = offset - offset % self._chain.file_size
        self._end = self._begin + self._chain.file_size
        self._chain.file(self._begin)  # open for writing, which a hold alone would not see to
        return self._chain.files.hold(self._chain.path(self._begin))
