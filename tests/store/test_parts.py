"""The parts of a store: what they are made of and where they lie."""

from msgspec.structs import replace
from tests.store.conftest import ROOT, SMALL

from cometmq.io.open_files import OpenFiles
from cometmq.store.parts import make_parts
from cometmq.testing.memory_disk import MemoryDisk


def test_parts_take_their_sizes_from_the_settings_and_touch_no_file(disk: MemoryDisk) -> None:
    parts = make_parts(ROOT, OpenFiles(disk, writable=True), SMALL)
    queue = parts.queues.find_or_create("Orders", 0)
    assert parts.log.chain.file_size == SMALL.mapped_file_size_commit_log
    assert queue.chain.file_size == SMALL.queue_file_size
    assert parts.index is not None
    assert disk.names(ROOT) == []


def test_a_store_that_does_not_index_has_no_index(disk: MemoryDisk) -> None:
    settings = replace(SMALL, message_index_enable=False)
    assert make_parts(ROOT, OpenFiles(disk, writable=True), settings).index is None
