"""One index file by itself; ``test_index.py`` holds all of them against a list."""

import numpy as np
from tests.store.conftest import ROOT

from cometmq.format import layout
from cometmq.format.java_hash import index_key_hash
from cometmq.io.open_files import OpenFiles
from cometmq.store.index_file import IndexFile
from cometmq.store.reading import Reading, Run, run
from cometmq.testing.memory_disk import MemoryDisk

HASH = index_key_hash("T", "key")


def insert(file: IndexFile, *offsets: int) -> None:
    hashes = np.full(len(offsets), HASH, np.int32)
    assert file.insert(hashes, np.array(offsets, np.int64), np.zeros(len(offsets), np.int64)) == len(offsets)


def find(file: IndexFile) -> Reading[list[int]]:
    return file.find(HASH, begin_time=0, end_time=2**62, max_count=100)


def test_what_is_inserted_while_a_thread_looks_hides_nothing() -> None:
    file = IndexFile(OpenFiles(MemoryDisk(), writable=True), layout.index_path(ROOT, 0), 5, 50)
    file.create(None)
    insert(file, 100, 200, 300)
    file.write_back()
    insert(file, 400)
    looking = Run(find(file))
    assert not looking.go_on(), "where it looks cannot be told, so it is never done in the loop"
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
    looking = Run(find(file))
    assert not looking.go_on()
    files.forget(file.path)
    disk.remove(file.path)
    assert looking.go_on(looking.step.fetch()) and looking.answer == []
