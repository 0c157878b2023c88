"""Writing through the file channel: what is written is in the file."""

from tests.store.conftest import ROOT

from cometmq.io.open_files import OpenFiles
from cometmq.store.file_chain import FileChain
from cometmq.store.write_channel import WriteChannel
from cometmq.testing.memory_disk import MemoryDisk


def test_what_is_written_is_committed(disk: MemoryDisk) -> None:
    chain = FileChain(OpenFiles(disk, writable=True), ROOT / "commitlog", 8_192, "size")
    chain.extend()
    path = WriteChannel(chain)
    path.write(10, b"hello")
    path.commit(15)
    assert path.committed_offset(15) == 15
    assert chain.read(10, 5) == b"hello"
    path.close()
