"""A queue's entries, wherever they lie."""

import pytest
from tests.store.conftest import ROOT

from cometmq.format.queue_entry import SIZE, pack
from cometmq.io.open_files import OpenFiles
from cometmq.store.files.file_chain import FileChain
from cometmq.store.queue import entry_reads
from cometmq.store.reading import run
from cometmq.testing.memory_disk import MemoryDisk

PER_FILE = 4
WRITTEN = 10
END = 13
ENTRIES = [pack(n, 100, n) for n in range(END)]


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
def chain(disk: MemoryDisk) -> FileChain:
    chain = FileChain(OpenFiles(disk, writable=True), ROOT, PER_FILE * SIZE, "size")
    chain.write(0, b"".join(ENTRIES[:WRITTEN]))
    return chain


@pytest.mark.parametrize("begin", range(END))
def test_what_is_at_hand_is_what_a_reading_gives(chain: FileChain, begin: int) -> None:
    tail = bytearray(b"".join(ENTRIES[WRITTEN:]))
    for end in range(begin + 1, END + 1):
        found = run(entry_reads.entries(chain, tail, WRITTEN, begin, end))
        assert bytes(found) == b"".join(ENTRIES[begin:end])
        resident = entry_reads.resident(chain, tail, WRITTEN, begin, end)
        is_in_one_place = begin >= WRITTEN or (end <= WRITTEN and begin // PER_FILE == (end - 1) // PER_FILE)
        assert (resident is not None) == is_in_one_place
        assert resident is None or bytes(resident) == bytes(found)


def test_what_is_not_in_memory_is_not_at_hand_but_the_tail_is(chain: FileChain, disk: MemoryDisk) -> None:
    disk.cold = True
    tail = bytearray(b"".join(ENTRIES[WRITTEN:]))
    assert entry_reads.resident(chain, tail, WRITTEN, 0, 1) is None
    assert entry_reads.resident(chain, tail, WRITTEN, WRITTEN, END) == tail
