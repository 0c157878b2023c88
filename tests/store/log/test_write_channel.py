"""Writing through the file channel: what is written is in the file."""

from tests.store.conftest import ROOT

from cometmq.io.open_files import OpenFiles
from cometmq.store.file_chain import FileChain
from cometmq.store.log.write_channel import WriteChannel
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


def test_the_file_that_is_written_to_is_held_until_the_next_one_is(disk: MemoryDisk) -> None:
    files = OpenFiles(disk, writable=True, capacity=1)
    chain = FileChain(files, ROOT / "commitlog", 8_192, "size")
    chain.extend()
    path = WriteChannel(chain)
    path.write(0, b"a")
    first = chain.file(0)
    chain.extend()
    path.write(1, b"b")
    assert chain.file(0) is first
    path.write(8_192, b"c")
    assert (chain.read(0, 2), chain.read(8_192, 1)) == (b"ab", b"c")
    path.close()
    path.write(8_193, b"d")
    assert chain.read(8_192, 2) == b"cd"
    path.close()
