"""One index file by itself; ``test_index.py`` holds all of them against a list."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.store.conftest import ROOT

from cometmq.format import layout
from cometmq.format.java.java_hash import index_key_hash
from cometmq.io.open_files import OpenFiles
from cometmq.store.index import index_file
from cometmq.store.index.index_file import IndexFile
from cometmq.store.reading import Reading, Run, run
from cometmq.testing.memory_disk import MemoryDisk

HASH = index_key_hash("T", "key")
HASHES = (0, 1, 3, 4, HASH)
BEGIN_MS = 1_700_000_000_000


def insert(file: IndexFile, *offsets: int) -> None:
    hashes = np.full(len(offsets), HASH, np.int32)
    assert file.insert(hashes, np.array(offsets, np.int64), np.zeros(len(offsets), np.int64)) == len(offsets)


def find(file: IndexFile) -> Reading[list[int]]:
    return file.find(HASH, begin_time=0, end_time=2**62, max_count=100)


def test_what_is_inserted_while_a_thread_looks_hides_nothing() -> None:
    disk = MemoryDisk()
    file = IndexFile(OpenFiles(disk, writable=True), layout.index_path(ROOT, 0), 5, 50)
    file.create(None)
    insert(file, 100, 200, 300)
    file.write_back()
    insert(file, 400)
    disk.cold = True
    looking = Run(find(file))
    assert not looking.go_on(), "what must wait for the disk is not done in the loop"
    insert(file, 500)
    file.write_back()
    assert looking.go_on(looking.step.fetch())
    assert looking.answer == [400, 300, 200, 100]
    assert run(find(file)) == [500, 400, 300, 200, 100]


def test_a_full_file_is_found_in_and_has_its_header_without_its_image() -> None:
    file = IndexFile(OpenFiles(MemoryDisk(), writable=True), layout.index_path(ROOT, 0), 5, 4)
    file.create(None)
    insert(file, 100, 200, 300)
    file.write_back()
    file.seal()
    assert file.is_full and file.header.end_physical_offset == 300
    assert run(find(file)) == [300, 200, 100]


def test_a_file_that_is_removed_meanwhile_has_nothing() -> None:
    disk = MemoryDisk()
    files = OpenFiles(disk, writable=True)
    file = IndexFile(files, layout.index_path(ROOT, 0), 5, 50)
    file.create(None)
    insert(file, 100)
    file.write_back()
    disk.cold = True
    looking = Run(find(file))
    assert not looking.go_on()
    files.forget(file.path)
    disk.remove(file.path)
    assert looking.go_on(looking.step.fetch()) and looking.answer == []


@settings(deadline=None)
@given(
    written=st.lists(st.sampled_from(HASHES), max_size=20),
    kept=st.lists(st.sampled_from(HASHES), max_size=20),
    is_sealed=st.booleans(),
    key_hash=st.sampled_from(HASHES),
    times=st.tuples(st.integers(0, 45), st.integers(0, 45)),
    max_count=st.integers(0, 10),
    hops=st.integers(0, 12),
)
def test_what_is_at_hand_is_what_a_thread_finds(
    written: list[int],
    kept: list[int],
    is_sealed: bool,
    key_hash: int,
    times: tuple[int, int],
    max_count: int,
    hops: int,
) -> None:
    disk = MemoryDisk()
    file = IndexFile(OpenFiles(disk, writable=True), layout.index_path(ROOT, 0), 3, 50)
    file.create(None)
    for hashes in (written, kept):
        begin = file.header.next_entry
        places = np.arange(begin, begin + len(hashes), dtype=np.int64)
        file.insert(np.array(hashes, np.int32), 100 * places, BEGIN_MS + 1_000 * places)
        if hashes is written or is_sealed:
            file.write_back()
    if is_sealed:
        file.seal()
    begin_time, end_time = (BEGIN_MS + 1_000 * time for time in times)

    def found() -> list[int]:
        return run(file.find(key_hash, begin_time=begin_time, end_time=end_time, max_count=max_count))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_file, "HOPS_MAX", hops)
        at_hand = found()
    disk.cold = True
    assert at_hand == found()


def test_a_short_chain_waits_for_nothing() -> None:
    file = IndexFile(OpenFiles(MemoryDisk(), writable=True), layout.index_path(ROOT, 0), 5, 200)
    file.create(None)
    insert(file, *range(100, 130))
    file.write_back()
    insert(file, *range(130, 160))
    looking = Run(find(file))
    assert looking.go_on() and looking.answer == list(range(159, 99, -1))
    insert(file, *range(160, 170))
    assert not Run(find(file)).go_on(), "a long one is left to a thread"


@pytest.mark.parametrize("count", [0, -1, -(2**31)])
def test_nothing_is_found_where_nothing_is_wanted(count: int) -> None:
    file = IndexFile(OpenFiles(MemoryDisk(), writable=True), layout.index_path(ROOT, 0), 5, 200)
    file.create(None)
    insert(file, 100)
    assert run(file.find(HASH, begin_time=0, end_time=2**62, max_count=1)) == [100]
    assert run(file.find(HASH, begin_time=0, end_time=2**62, max_count=count)) == []
